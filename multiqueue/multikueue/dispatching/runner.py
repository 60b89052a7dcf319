"""Asks one dispatcher, and keeps what it does wrong away from everything else.

It is loaded and run in a thread with a time budget, and gets a view that cannot be changed. One
that hangs is not called again for a while, and after some hangs not at all until a hung call
returns: each costs a thread. One that raises, or answers with something that is no answer, fails
for that Workload only. Names that are no cluster of the check are dropped and reported, and now and
then it is looked at more closely (`conduct`). Whatever happens, the Workload stays pending with the
reason.

What cannot be kept away in one process: memory that it fills within one call, a processor that it
spins on, and code that ends or crashes the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from multiqueue.kube.backoff import exponential
from multiqueue.multikueue.dispatching.answer import Answer, Failure, Reading, read_answer
from multiqueue.multikueue.dispatching.conduct import EVERY, Finding, examine, list_strangers
from multiqueue.multikueue.dispatching.frozen import freeze
from multiqueue.multikueue.dispatching.loader import PATIENCE, Loader
from multiqueue.multikueue.dispatching.plugin_thread import (
    OpenThread,
    PluginError,
    PluginThread,
    Runner,
)
from multiqueue.multikueue.dispatching.policy import Way
from multiqueue.multikueue.dispatching.registry import Selection
from multiqueue.plugins import Dispatcher, DispatchView

FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=10)
RETRY = timedelta(seconds=10)
"""When a Workload is asked about again after the dispatcher failed for it."""
LOADING_RETRY = timedelta(seconds=1)
"""The same while it is being imported."""
MAX_HUNG = 3
"""Hung threads at a time; they cost memory and, spinning, a core each."""
MAX_KNOWN_CAUSES = 256

log = structlog.get_logger("multiqueue.multikueue.dispatching.runner")


class Hung:
    """The threads in which calls of one dispatcher hang, whoever asked.

    Args:
        on_change: Gets how many there are.
    """

    def __init__(self, on_change: Callable[[int], None] = lambda _: None) -> None:
        self._threads: list[Runner] = []
        self._on_change = on_change

    def add(self, thread: Runner) -> None:
        """Let a thread end by itself, should it ever."""
        thread.abandon()
        self._threads.append(thread)
        self._on_change(len(self._threads))

    def count(self) -> int:
        """How many there are now."""
        alive = [thread for thread in self._threads if thread.is_alive]
        if len(alive) != len(self._threads):
            self._threads = alive
            self._on_change(len(alive))
        return len(alive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Who hears how a dispatcher does; its name in metrics comes first.

    Attributes:
        on_answer: Gets the seconds that each answer took.
        on_failure: Gets why there was none.
        on_finding: Gets each promise that was not kept.
    """

    on_answer: Callable[[str, float], None] = lambda _name, _seconds: None
    on_failure: Callable[[str, Failure], None] = lambda _name, _failure: None
    on_finding: Callable[[str, Finding], None] = lambda _name, _finding: None


class DispatchRunner:
    """One dispatcher, behind its fence.

    Args:
        way: Who is asked, and how.
        select: Loads it; called in its thread.
        now: Tells the time.
        listeners: Who hears of it.
        open_thread: Makes the thread that the dispatcher runs in.
        hung: The threads of this dispatcher that hang.
        patience: How long `prepare` waits.

    Attributes:
        way: As above.
        findings: Promises that it did not keep, the latest of each kind.
        trouble: Why it did not answer the last time; empty where it did.
    """

    def __init__(
        self,
        way: Way,
        select: Callable[[], Selection],
        *,
        now: Callable[[], datetime],
        listeners: Listeners | None = None,
        open_thread: OpenThread = PluginThread,
        hung: Hung | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        self.way = way
        self.findings: dict[str, Finding] = {}
        self.trouble = ""
        self._now = now
        self._listeners = listeners or Listeners()
        self._hung = hung or Hung()
        self._open_thread = open_thread
        self._loader = Loader(
            way,
            select,
            now=now,
            open_thread=open_thread,
            on_hang=self._hung.add,
            patience=patience,
        )
        self._thread: Runner | None = None
        self._is_closed = False
        self._hangs = 0
        self._answers = 0
        self._paused_until: datetime | None = None
        self._known_causes: set[str] = set()

    @property
    def label(self) -> str:
        """Its name in metrics: all that are outside have one."""
        return self._loader.label

    @property
    def load_problem(self) -> str:
        """Why there is nobody to ask; empty where there is, or it is not known yet."""
        return self._loader.problem

    @property
    def is_loading(self) -> bool:
        """Whether it is not known yet whether there is somebody to ask."""
        return self._loader.is_loading

    async def prepare(self) -> None:
        """Load it, waiting a moment at most."""
        await self._loader.load()
        if self._loader.problem and not self._loader.is_loading:
            self.trouble = self._loader.problem
            self._log_once(self._loader.problem)

    async def ask(self, view: DispatchView) -> Answer:
        """Ask where a Workload shall go; `prepare` comes first."""
        dispatcher = self._loader.dispatcher
        if self._is_closed:
            return Answer(problem="the profile was changed", retry_at=self._now())
        if dispatcher is None and self.is_loading:
            at = self._now() + LOADING_RETRY
            return self._failure(Failure.NOT_LOADED, self._loader.problem, at)
        if dispatcher is None:
            return self._fail(Failure.NOT_LOADED, self._loader.problem or "is not loaded")
        if (paused := self._find_pause()) is not None:
            self.trouble = paused.problem
            return paused
        shown = self.show(view)
        thread = self._thread = self._thread or self._open_thread(f"dispatcher-{self._name}")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self.way.budget.total_seconds()):
                reading = await thread.call(lambda: _nominate(dispatcher, shown, self._name))
        except TimeoutError:
            return self._open_breaker(thread)
        except PluginError as error:
            return self._fail(Failure.RAISED, f'dispatcher "{self._name}" failed: {error}')
        self._hangs = 0
        if reading.nomination is None:
            words = f'dispatcher "{self._name}" gave a malformed answer: {reading.malformed}'
            return self._fail(Failure.MALFORMED, words)
        self._listeners.on_answer(self.label, loop.time() - begun)
        self.trouble = ""
        for finding in list_strangers(reading):
            self._tell(finding)
        if self._answers % EVERY == 0 and not self._is_closed:
            await self._examine(dispatcher, shown, reading, thread)
        self._answers += 1
        return Answer(nomination=reading.nomination, dispatcher=self._name)

    def show(self, view: DispatchView) -> DispatchView:
        """Return what this dispatcher sees of a view."""
        return replace(view, arguments=self.way.arguments, dispatcher=self._name)

    def close(self) -> None:
        """It is not asked any more; an answer that is on its way still comes."""
        self._is_closed = True
        self._loader.close()
        if self._thread is not None:
            self._thread.abandon()
            self._thread = None

    @property
    def _name(self) -> str:
        return self.way.dispatcher

    async def _examine(
        self, dispatcher: Dispatcher, view: DispatchView, first: Reading, thread: Runner
    ) -> None:
        """Look whether it keeps its promises; the answer that it gave stands."""
        try:
            async with asyncio.timeout(self.way.budget.total_seconds()):
                found = await thread.call(lambda: examine(dispatcher, view, first, self._name))
        except TimeoutError:
            self._open_breaker(thread)
        except PluginError as error:
            self._fail(
                Failure.RAISED, f'dispatcher "{self._name}" failed when asked again: {error}'
            )
        else:
            for finding in found:
                self._tell(finding)

    def _tell(self, finding: Finding) -> None:
        self.findings[finding.kind] = finding
        self._listeners.on_finding(self.label, finding)
        self._log_once(f'dispatcher "{self._name}" {finding.words}')

    def _find_pause(self) -> Answer | None:
        """Say that the dispatcher is not called now; None when it may be."""
        now = self._now()
        if self._hung.count() >= MAX_HUNG:
            problem = (
                f'dispatcher "{self._name}" hung {MAX_HUNG} times and is not called any more; '
                "mend it and restart the manager"
            )
            return self._failure(Failure.PAUSED, problem, now + LONGEST_PAUSE)
        if self._paused_until is not None and now < self._paused_until:
            return self._failure(Failure.PAUSED, self._hung_message(), self._paused_until)
        return None

    def _open_breaker(self, thread: Runner) -> Answer:
        self._hung.add(thread)
        self._thread = None
        self._hangs += 1
        seconds = exponential(
            self._hangs, base=FIRST_PAUSE.total_seconds(), cap=LONGEST_PAUSE.total_seconds()
        )
        until = self._paused_until = self._now() + timedelta(seconds=seconds)
        return self._fail(Failure.TIMED_OUT, self._hung_message(), until)

    def _hung_message(self) -> str:
        budget = self.way.budget.total_seconds()
        return f'dispatcher "{self._name}" did not answer within {budget:g} s'

    def _fail(self, failure: Failure, problem: str, retry_at: datetime | None = None) -> Answer:
        self.trouble = problem
        self._log_once(problem)
        return self._failure(failure, problem, retry_at or self._now() + RETRY)

    def _failure(self, failure: Failure, problem: str, retry_at: datetime) -> Answer:
        self._listeners.on_failure(self.label, failure)
        return Answer(problem=problem, failure=failure, retry_at=retry_at, dispatcher=self._name)

    def _log_once(self, cause: str) -> None:
        if cause in self._known_causes or len(self._known_causes) >= MAX_KNOWN_CAUSES:
            return
        self._known_causes.add(cause)
        log.error("dispatcher failed", dispatcher=self._name, error=cause)


def _nominate(dispatcher: Dispatcher, view: DispatchView, name: str) -> Reading:
    return read_answer(dispatcher.nominate(freeze(view)), view, name)
