"""Asks one dispatcher, and keeps what it does wrong away from everything else.

What is built in runs in a thread, a stranger's in a process (`host`), each with a time budget and
on a view that it cannot change. One that hangs, or whose process ends, is not asked again for a
while, and then in another thread or process. One that raises, or answers with something that is no
answer, fails for that Workload only. Names that are no cluster of the check are dropped and
reported, and now and then it is looked at more closely (`conduct`). Whatever happens, the Workload
stays pending with the reason.

What cannot be kept away in a thread: memory that is filled within one call, a processor that is
spun on, and code that ends or crashes the interpreter. What cannot be kept away in a process is in
the README of `isolation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from multiqueue.dispatcher_host.answer import Answer, Failure, hold_against
from multiqueue.dispatcher_host.budget import within
from multiqueue.dispatcher_host.conduct import EVERY, ConductFinding, list_strangers
from multiqueue.dispatcher_host.host import EndedError, Host, Hung, ThreadHost
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.loader import PATIENCE, Loader, OpenApart
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.kube.backoff import exponential
from multiqueue.kube.call_thread import OpenThread, PluginError, PluginThread
from multiqueue.plugins import DispatchView

FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=10)
RETRY = timedelta(seconds=10)
"""When a Workload is asked about again after the dispatcher failed for it."""
LOADING_RETRY = timedelta(seconds=1)
"""The same while it is being imported."""
MAX_KNOWN_CAUSES = 256

log = structlog.get_logger("multiqueue.dispatcher_host.runner")


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
    on_finding: Callable[[str, ConductFinding], None] = lambda _name, _finding: None


class DispatchRunner:
    """One dispatcher, behind its fence.

    Args:
        way: Who is asked, and how.
        select: Finds it, and loads it where it is not to be left apart; called in a thread.
        now: Tells the time.
        listeners: Who hears of it.
        open_thread: Makes the thread that the dispatcher runs in.
        open_apart: Makes what one that is left apart runs in.
        hung: The threads of this dispatcher that hang.
        patience: How long `prepare` waits.

    Attributes:
        way: As above.
        findings: Promises that it did not keep, the latest of each kind.
        trouble: Why it did not answer the last time; empty where it did.
    """

    def __init__(
        self,
        way: DispatcherSetting,
        select: Callable[[], Selection],
        *,
        now: Callable[[], datetime],
        listeners: Listeners | None = None,
        open_thread: OpenThread = PluginThread,
        open_apart: OpenApart = ProcessHost,
        hung: Hung | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        self.way = way
        self.findings: dict[str, ConductFinding] = {}
        self.trouble = ""
        self._now = now
        self._listeners = listeners or Listeners()
        own = self._hung = hung or Hung()
        self._loader = Loader(
            way,
            lambda: ThreadHost(open_thread(f"dispatcher-{way.dispatcher}"), way, select, own),
            open_apart,
            now=now,
            patience=patience,
        )
        self._is_closed = False
        self._losses = 0
        self._answers = 0
        self._paused_until: datetime | None = None
        self._pause_words = ""
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
    def is_unchecked(self) -> bool:
        """Whether it has arguments that it cannot check beforehand."""
        return self._loader.is_unchecked

    @property
    def load_state(self) -> str:
        """The same, and when it is tried again."""
        return "; ".join(filter(None, (self._loader.problem, self._loader.outlook)))

    @property
    def is_loading(self) -> bool:
        """Whether it is not known yet whether there is somebody to ask."""
        return self._loader.is_loading

    async def prepare(self) -> None:
        """Load it, waiting a moment at most."""
        if self._is_closed:
            return
        await self._loader.load()
        if self._loader.problem and not self._loader.is_loading:
            self.trouble = self._loader.problem
            self._log_once(self._loader.problem)

    async def ask(self, view: DispatchView) -> Answer:
        """Ask where a Workload shall go; `prepare` comes first."""
        if (refused := self._find_refusal()) is not None:
            return refused
        host = self._loader.host
        assert host is not None
        shown = self.show(view)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            taken = await within(self.way.budget.total_seconds(), host.nominate(shown))
        except TimeoutError:
            return self._open_breaker(host, Failure.TIMED_OUT, self._hung_message())
        except EndedError as error:
            return self._open_breaker(host, Failure.ENDED, f'dispatcher "{self._name}" {error}')
        except PluginError as error:
            return self._fail(Failure.RAISED, f'dispatcher "{self._name}" failed: {error}')
        self._losses = 0
        reading = hold_against(taken, shown, self._name)
        if reading.nomination is None:
            words = f'dispatcher "{self._name}" gave a malformed answer: {reading.malformed}'
            return self._fail(Failure.MALFORMED, words)
        self._listeners.on_answer(self.label, loop.time() - begun)
        self.trouble = ""
        for finding in list_strangers(reading):
            self._tell(finding)
        if self._answers % EVERY == 0 and not self._is_closed:
            await self._examine(host)
        self._answers += 1
        return Answer(nomination=reading.nomination, dispatcher=self._name)

    def show(self, view: DispatchView) -> DispatchView:
        """Return what this dispatcher sees of a view."""
        return replace(view, arguments=self.way.arguments, dispatcher=self._name)

    def close(self) -> None:
        """It is not asked any more; an answer that is on its way still comes."""
        self._is_closed = True
        self._loader.close()

    @property
    def _name(self) -> str:
        return self.way.dispatcher

    async def _examine(self, host: Host) -> None:
        """Look whether it keeps its promises; the answer that it gave stands."""
        again = "when asked again"
        try:
            found = await within(self.way.budget.total_seconds(), host.examine())
        except TimeoutError:
            self._open_breaker(host, Failure.TIMED_OUT, self._hung_message())
        except EndedError as error:
            self._open_breaker(host, Failure.ENDED, f'dispatcher "{self._name}" {error} {again}')
        except PluginError as error:
            self._fail(Failure.RAISED, f'dispatcher "{self._name}" failed {again}: {error}')
        else:
            for finding in found:
                self._tell(finding)

    def _tell(self, finding: ConductFinding) -> None:
        self.findings[finding.kind] = finding
        self._listeners.on_finding(self.label, finding)
        self._log_once(f'dispatcher "{self._name}" {finding.words}')

    def _find_refusal(self) -> Answer | None:
        """Say that the dispatcher is not called now; None when it may be."""
        now = self._now()
        if self._is_closed:
            return Answer(problem="the profile was changed", retry_at=now)
        if self._paused_until is not None and now < self._paused_until:
            self.trouble = self._pause_words
            return self._failure(Failure.PAUSED, self._pause_words, self._paused_until)
        if self._hung.count():
            self.trouble = (
                f'dispatcher "{self._name}" hangs and is not called until that call returns; '
                "mend it and restart the manager"
            )
            return self._failure(Failure.PAUSED, self.trouble, now + LONGEST_PAUSE)
        problem = self._loader.problem
        if self.is_loading:
            return self._failure(Failure.NOT_LOADED, problem, now + LOADING_RETRY)
        if self._loader.host is None:
            return self._fail(Failure.NOT_LOADED, problem or "is not loaded")
        return None

    def _open_breaker(self, host: Host, failure: Failure, problem: str) -> Answer:
        host.abandon()
        self._losses += 1
        seconds = exponential(
            self._losses, base=FIRST_PAUSE.total_seconds(), cap=LONGEST_PAUSE.total_seconds()
        )
        until = self._paused_until = self._now() + timedelta(seconds=seconds)
        self._pause_words = problem
        self._loader.drop(until)
        return self._fail(failure, problem, until)

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
