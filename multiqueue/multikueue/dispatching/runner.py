"""Asks the dispatcher, and keeps what it does wrong away from everything else.

It runs in a thread with a time budget. One that hangs is not called again for a while, and after
some hangs not at all until a hung call returns: each costs a thread. One that raises, or answers
with something that is no answer, fails for that Workload only. Names that are no cluster of the
check are dropped and reported. Whatever happens, the Workload stays pending with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from multiqueue.kube.backoff import exponential
from multiqueue.multikueue.dispatching.plugin_thread import (
    OpenThread,
    PluginError,
    PluginThread,
    Runner,
)
from multiqueue.multikueue.dispatching.registry import Selection
from multiqueue.plugins import (
    ClusterVerdict,
    DispatchView,
    Nomination,
)

BUDGET = timedelta(seconds=1)
"""A decision for a hundred workers takes milliseconds; who takes a second does I/O."""
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=10)
RETRY = timedelta(seconds=10)
"""When a Workload is asked about again after the dispatcher failed for it."""
MAX_HUNG = 3
"""Hung threads at a time; they cost memory and, spinning, a core each."""
SOONEST = timedelta(seconds=1)
"""A dispatcher cannot ask to be asked again sooner; the core asks when something changes."""
MAX_KNOWN_CAUSES = 256

log = structlog.get_logger("multiqueue.multikueue.dispatching.runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of asking.

    Attributes:
        nomination: The answer; None where there is a problem.
        problem: Why there is none, for the user.
        retry_at: When to ask again where there is none.
    """

    nomination: Nomination | None = None
    problem: str = ""
    retry_at: datetime | None = None


class DispatchRunner:
    """One dispatcher, behind its fence.

    Args:
        selection: The dispatcher.
        budget: How long an answer may take.
        open_thread: Makes the thread that the dispatcher runs in.
        lock: Held while a question is asked; shared by all that decide about the same clusters.
        now: Tells the time.
        on_answer: Gets the seconds that each answer took.
    """

    def __init__(
        self,
        selection: Selection,
        *,
        now: Callable[[], datetime],
        on_answer: Callable[[float], None] = lambda _: None,
        budget: timedelta = BUDGET,
        open_thread: OpenThread = PluginThread,
        lock: asyncio.Lock | None = None,
    ) -> None:
        self.selection = selection
        self._now = now
        self._on_answer = on_answer
        self._budget = budget
        self._open_thread = open_thread
        self._lock = lock or asyncio.Lock()
        self._thread: Runner | None = None
        self._hung: list[Runner] = []
        self._hangs = 0
        self._paused_until: datetime | None = None
        self._known_causes: set[str] = set()

    async def ask(
        self,
        build_view: Callable[[], DispatchView],
        accept: Callable[[DispatchView, Nomination], None],
    ) -> Answer:
        """Ask where a Workload shall go.

        One question at a time: the view of the next is built after `accept` took in the answer, so
        that a burst of Workloads does not see the same room twice.
        """
        async with self._lock:
            view = build_view()
            answer = await self._ask(view)
            if answer.nomination is not None:
                accept(view, answer.nomination)
            return answer

    async def _ask(self, view: DispatchView) -> Answer:
        name, dispatcher = self.selection.name, self.selection.dispatcher
        if dispatcher is None:
            self._log_once(self.selection.problem)
            return self._failure(self.selection.problem)
        if (paused := self._find_pause()) is not None:
            return paused
        thread = self._thread = self._thread or self._open_thread(f"dispatcher-{name}")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._budget.total_seconds()):
                got = await thread.call(lambda: dispatcher.nominate(view))
        except TimeoutError:
            return self._open_breaker(thread)
        except PluginError as error:
            problem = f'dispatcher "{name}" failed: {error}'
            self._log_once(problem)
            return self._failure(problem)
        self._on_answer(loop.time() - begun)
        self._hangs = 0
        return self._check(view, got)

    def _check(self, view: DispatchView, got: object) -> Answer:
        """Take from an answer what can be used."""
        name = self.selection.name
        if not isinstance(got, Nomination) or not _is_well_formed(got):
            problem = f'dispatcher "{name}" gave a malformed answer: {got!r:.200}'
            self._log_once(problem)
            return self._failure(problem)
        known = {cluster.name for cluster in view.clusters}
        clusters = tuple(dict.fromkeys(c for c in got.clusters if c in known))
        verdicts = tuple(verdict for verdict in got.verdicts if verdict.cluster in known)
        for stranger in sorted({c for c in got.clusters if c not in known}):
            words = f'is no cluster of this check, but dispatcher "{name}" named it'
            self._log_once(f'cluster "{stranger}" {words}')
            verdicts += (ClusterVerdict(cluster=stranger, nominated=False, reason=words),)
        at = got.ask_again_at
        if at is not None:
            at = max(at, view.now + SOONEST)
        return Answer(
            nomination=replace(got, clusters=clusters, verdicts=verdicts, ask_again_at=at)
        )

    def _find_pause(self) -> Answer | None:
        """Say that the dispatcher is not called now; None when it may be."""
        now = self._now()
        self._hung = [thread for thread in self._hung if thread.is_alive]
        name = self.selection.name
        if len(self._hung) >= MAX_HUNG:
            problem = (
                f'dispatcher "{name}" hung {MAX_HUNG} times and is not called any more; '
                "mend it and restart the manager"
            )
            return Answer(problem=problem, retry_at=now + LONGEST_PAUSE)
        if self._paused_until is not None and now < self._paused_until:
            return Answer(problem=self._hung_message(), retry_at=self._paused_until)
        return None

    def _open_breaker(self, thread: Runner) -> Answer:
        thread.abandon()
        self._hung.append(thread)
        self._thread = None
        self._hangs += 1
        seconds = exponential(
            self._hangs, base=FIRST_PAUSE.total_seconds(), cap=LONGEST_PAUSE.total_seconds()
        )
        self._paused_until = self._now() + timedelta(seconds=seconds)
        self._log_once(self._hung_message())
        return Answer(problem=self._hung_message(), retry_at=self._paused_until)

    def _hung_message(self) -> str:
        budget = self._budget.total_seconds()
        return f'dispatcher "{self.selection.name}" did not answer within {budget:g} s'

    def _failure(self, problem: str) -> Answer:
        return Answer(problem=problem, retry_at=self._now() + RETRY)

    def _log_once(self, cause: str) -> None:
        if cause in self._known_causes or len(self._known_causes) >= MAX_KNOWN_CAUSES:
            return
        self._known_causes.add(cause)
        log.error("dispatcher failed", dispatcher=self.selection.name, error=cause)


def _is_well_formed(nomination: Nomination) -> bool:
    """Whether the parts are what the types say; plugins need not be type-checked."""
    at = nomination.ask_again_at
    return (
        isinstance(nomination.clusters, tuple)
        and all(isinstance(name, str) for name in nomination.clusters)
        and isinstance(nomination.verdicts, tuple)
        and all(isinstance(verdict, ClusterVerdict) for verdict in nomination.verdicts)
        and isinstance(nomination.refusal, str)
        and isinstance(nomination.note, str)
        and (at is None or (isinstance(at, datetime) and at.tzinfo is not None))
    )
