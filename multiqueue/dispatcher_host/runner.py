"""Ask one dispatcher, and protect everything else from its errors.

A built-in dispatcher runs in a thread, a third-party one in a process (`host`). Each has a time
budget and gets a view that it cannot change. If it hangs, or its process ends, it is not asked for
a while, and then in another thread or process. If it raises, or gives a malformed answer, it fails
for that Workload only. Names of unknown clusters are dropped and reported, and now and then its
conduct is checked (`conduct`). In all cases the Workload stays pending with the reason.

A thread does not protect against code that fills memory within one call, uses a whole processor,
or ends or crashes the interpreter. The limits of a process are in the README of `isolation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from multiqueue.dispatcher_host.answer import Answer, Failure, hold_against
from multiqueue.dispatcher_host.conduct import EVERY, ConductFinding, list_strangers
from multiqueue.dispatcher_host.host import EndedError, Host, Hung, ThreadHost, within
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.loader import PATIENCE, Loader, OpenApart
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.kube.backoff import exponential
from multiqueue.kube.call_thread import OpenThread, PluginError, PluginThread
from multiqueue.plugins import DispatchView

FIRST_PAUSE = timedelta(seconds=30)
"""A dispatcher that hung or ended is not called for this long; the pause doubles each time."""
LONGEST_PAUSE = timedelta(minutes=10)
"""A repaired package is found without a restart, this late at worst."""
RETRY = timedelta(seconds=10)
"""When to ask about a Workload again after the dispatcher failed for it."""
LOADING_RETRY = timedelta(seconds=1)
"""When to ask again while the dispatcher is being imported."""
MAX_KNOWN_CAUSES = 256

log = structlog.get_logger("multiqueue.dispatcher_host.runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Callbacks about a dispatcher's calls; their first argument is its name in metrics.

    Attributes:
        on_answer: Gets the seconds that each answer took.
        on_failure: Gets the reason of each failure.
        on_finding: Gets each broken promise.
    """

    on_answer: Callable[[str, float], None] = lambda _name, _seconds: None
    on_failure: Callable[[str, Failure], None] = lambda _name, _failure: None
    on_finding: Callable[[str, ConductFinding], None] = lambda _name, _finding: None


class DispatchRunner:
    """One dispatcher, isolated from the rest of the manager.

    Args:
        way: The setting of the dispatcher.
        select: Finds the dispatcher, and loads it unless it runs in a process; called in a thread.
        now: Returns the current time.
        listeners: Callbacks about its calls.
        open_thread: Makes the thread in which the dispatcher runs.
        open_apart: Makes the host of a dispatcher that runs in a process.
        hung: The hanging threads of this dispatcher.
        patience: How long `prepare` waits.

    Attributes:
        way: The setting of the dispatcher.
        findings: Promises that it broke, the latest of each kind.
        trouble: Why its last call failed; empty if it succeeded.
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
        own = self.hung = hung or Hung()
        self.loader = Loader(
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
        """The dispatcher's name in metrics; all external controllers share one."""
        return self.loader.label

    @property
    def host(self) -> Host | None:
        """The host of the dispatcher; None while it is not loaded."""
        return self.loader.host

    @property
    def load_problem(self) -> str:
        """Why the dispatcher is not loaded; empty if it is, or if that is not known yet."""
        return self.loader.problem

    @property
    def is_unchecked(self) -> bool:
        """Whether it has arguments that it cannot check before it is asked."""
        return self.loader.is_unchecked

    @property
    def load_state(self) -> str:
        """The load problem, and when loading is tried again."""
        return "; ".join(filter(None, (self.loader.problem, self.loader.outlook)))

    @property
    def is_loading(self) -> bool:
        """Whether loading is still in progress."""
        return self.loader.is_loading

    async def prepare(self) -> None:
        """Load the dispatcher, waiting a moment at most."""
        if self._is_closed:
            return
        await self.loader.load()
        if self.loader.problem and not self.loader.is_loading:
            self.trouble = self.loader.problem
            self._log_once(self.loader.problem)

    async def ask(self, view: DispatchView) -> Answer:
        """Ask where to send a Workload; call `prepare` first."""
        if (refused := self._find_refusal()) is not None:
            return refused
        host = self.loader.host
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
        """Return the view with this dispatcher's name and arguments."""
        return replace(view, arguments=self.way.arguments, dispatcher=self._name)

    def close(self) -> None:
        """Stop asking the dispatcher; a call in progress still finishes."""
        self._is_closed = True
        self.loader.close()

    @property
    def _name(self) -> str:
        return self.way.dispatcher

    async def _examine(self, host: Host) -> None:
        """Check whether it keeps its promises; its answer remains valid."""
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
        """Return why the dispatcher is not called now; None if it may be called."""
        now = self._now()
        if self._is_closed:
            return Answer(problem="the profile was changed", retry_at=now)
        if self._paused_until is not None and now < self._paused_until:
            self.trouble = self._pause_words
            return self._failure(Failure.PAUSED, self._pause_words, self._paused_until)
        if self.hung.count():
            self.trouble = (
                f'dispatcher "{self._name}" hangs and is not called until that call returns; '
                "mend it and restart the manager"
            )
            return self._failure(Failure.PAUSED, self.trouble, now + LONGEST_PAUSE)
        problem = self.loader.problem
        if self.is_loading:
            return self._failure(Failure.NOT_LOADED, problem, now + LOADING_RETRY)
        if self.loader.host is None:
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
        self.loader.drop(until)
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
