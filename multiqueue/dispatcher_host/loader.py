"""Load one dispatcher in its host. Importing a package runs foreign code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from multiqueue.dispatcher_host.host import EndedError, Host
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import EXTERNAL, Selection
from multiqueue.kube.backoff import exponential
from multiqueue.kube.call_thread import PluginError

PATIENCE = timedelta(seconds=1)
"""How long a Workload waits for a package to be imported; then it is pending with that reason."""
BUDGET = timedelta(seconds=30)
"""Longest time for loading; packages with large dependencies take seconds on a busy machine."""
RETRY = timedelta(seconds=10)
"""Interval for retrying a dispatcher that is missing or could not be loaded."""
LONGEST_PAUSE = timedelta(minutes=10)
"""A package that fails is retried after `RETRY`, doubling each time up to this interval."""
HANG_PAUSE = timedelta(minutes=5)
"""First retry interval of a package that hung: each trial costs half a minute of CPU."""

OpenApart = Callable[[DispatcherSetting, str], Host]
"""Makes the host of a dispatcher that runs in a process; gets its setting and entry point."""

log = structlog.get_logger("multiqueue.dispatcher_host.loader")


@dataclass(frozen=True, slots=True)
class _FailedLoad:
    """Failed attempts to load a package in a process: how many, and the last problem."""

    stamp: Hashable
    count: int
    problem: str
    again_at: datetime


class Loader:
    """Loads the dispatcher of one setting, and has it check its arguments.

    Args:
        way: The setting of the dispatcher.
        open_host: Makes the host of a dispatcher.
        open_apart: Makes the host of a dispatcher that runs in a process.
        now: Returns the current time.
        patience: How long a caller waits for loading.

    Attributes:
        problem: Why the dispatcher cannot be used; empty if it can.
        host: The host of the dispatcher, once it is loaded.
        label: The dispatcher's name in metrics.
        is_unchecked: Whether it has arguments that it cannot check before it is asked.
    """

    def __init__(
        self,
        way: DispatcherSetting,
        open_host: Callable[[], Host],
        open_apart: OpenApart,
        *,
        now: Callable[[], datetime],
        patience: timedelta = PATIENCE,
    ) -> None:
        self.problem = ""
        self.host: Host | None = None
        self.label = way.dispatcher
        self.is_unchecked = False
        self._way = way
        self._open_host = open_host
        self._open_apart = open_apart
        self._now = now
        self._patience = patience.total_seconds()
        self.opened: Host | None = None
        self.loading: asyncio.Future[Selection | None] | None = None
        self._give_up_at: datetime | None = None
        self._again_at: datetime | None = None
        self._stamp: Hashable = None
        self._trial: _FailedLoad | None = None

    @property
    def is_loading(self) -> bool:
        """Whether loading is in progress."""
        return self.loading is not None

    @property
    def outlook(self) -> str:
        """When a dispatcher is next loaded in a process; empty if no such load failed."""
        trial = self._trial
        if trial is None or self.problem != trial.problem:
            return ""
        times = "once" if trial.count == 1 else f"{trial.count} times"
        at = trial.again_at.strftime("%H:%M:%S")
        return f"tried {times}, and again at {at} UTC or when its package changes"

    async def load(self) -> None:
        """Load the dispatcher if necessary; waits a moment at most."""
        if self.host is not None:
            return
        now = self._now()
        if self.loading is None:
            if self._again_at is not None and now < self._again_at:
                return
            self._begin(now)
        assert self.loading is not None
        if not self.loading.done() and not self.problem:
            await asyncio.wait({self.loading}, timeout=self._patience)
        self._take()

    def drop(self, until: datetime) -> None:
        """Give up the current host; a new one may be opened from the given time on."""
        self.host = None
        self._again_at = until

    def close(self) -> None:
        """Close the host; the dispatcher is no longer needed."""
        opened = self.host or self.opened
        if opened is not None:
            opened.close()
        if self.loading is not None:
            self.loading.cancel()
        self.host = self.opened = self.loading = None

    def _begin(self, now: datetime) -> None:
        self.problem = ""
        self.loading = asyncio.ensure_future(self._load())
        # Nobody may await the result; retrieve its exception, so that asyncio does not warn.
        self.loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._give_up_at = now + BUDGET

    async def _load(self) -> Selection | None:
        """Load the dispatcher; None if the same package failed and its retry is not due yet."""
        self._stamp = None
        self.opened = self._open_host()
        selection = await self.opened.load()
        if not selection.apart:
            return selection
        self.opened.close()
        trial = self._trial
        if trial is not None and trial.stamp == selection.stamp and self._now() < trial.again_at:
            return None
        self._stamp = selection.stamp
        self.opened = self._open_apart(self._way, selection.apart)
        return await self.opened.load()

    def _take(self) -> None:
        """Process the result of loading, if there is one."""
        loading, now = self.loading, self._now()
        if loading is None:
            return
        name = self._way.dispatcher
        if not loading.done():
            self.problem = f'dispatcher "{name}" is still being loaded'
            if self._give_up_at is not None and now >= self._give_up_at:
                self._give_up(now)
            return
        self.loading = None
        try:
            selection = loading.result()
        except (PluginError, EndedError) as error:
            words = f'dispatcher "{name}" cannot be loaded: {error}'
            selection = Selection(name=name, problem=words)
        self._again_at = now + RETRY
        if selection is None:
            assert self._trial is not None
            self.problem = self._trial.problem
            self.close()
            return
        self.problem = self._describe_problem(selection)
        if selection.notice:
            self.label = EXTERNAL
            log.info("dispatcher is external", dispatcher=selection.name, notice=selection.notice)
        self.is_unchecked = bool(self._way.arguments) and selection.wrong_arguments is None
        if not self.problem:
            self.host, self.opened, self._trial = self.opened, None, None
            return
        self._note_trial(now, RETRY)
        self.close()

    def _give_up(self, now: datetime) -> None:
        assert self.loading is not None
        self.loading.cancel()
        if self.opened is not None:
            self.opened.abandon()
        self.opened = self.loading = None
        seconds = BUDGET.total_seconds()
        self.problem = f'dispatcher "{self._way.dispatcher}" could not be loaded in {seconds:g} s'
        self._again_at = now + (RETRY if self._stamp is not None else HANG_PAUSE)
        self._note_trial(now, HANG_PAUSE)

    def _note_trial(self, now: datetime, pause: timedelta) -> None:
        """Record a package that could not be loaded in a process."""
        if self._stamp is None:
            return
        last = self._trial
        count = last.count + 1 if last is not None and last.stamp == self._stamp else 1
        seconds = exponential(count, base=pause.total_seconds(), cap=LONGEST_PAUSE.total_seconds())
        again_at = now + timedelta(seconds=seconds)
        self._trial = _FailedLoad(self._stamp, count, self.problem, again_at)

    def _describe_problem(self, selection: Selection) -> str:
        path = self._way.path
        if selection.problem:
            return f"{path}: {selection.problem}" if path else selection.problem
        if not selection.wrong_arguments:
            return ""
        words = "; ".join(selection.wrong_arguments)
        return (
            f"{_find_field(path, selection.wrong_arguments)}: "
            f'dispatcher "{self._way.dispatcher}": {words:.1000}'
        )


def _find_field(path: str, problems: Sequence[str]) -> str:
    """Return the wrong field of a profile; filters and scorers have fields of their own."""
    if not path.endswith("dispatcher"):
        return path
    spec = path.removesuffix("dispatcher")
    for name in ("filters", "scorers"):
        if all(problem.startswith(f"argument {name}:") for problem in problems):
            return f"{spec}{name}"
    return f"{spec}arguments"
