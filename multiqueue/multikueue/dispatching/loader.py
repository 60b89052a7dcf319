"""Loads one dispatcher in a thread of its own: importing a package runs a stranger's code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from multiqueue.multikueue.dispatching.plugin_thread import OpenThread, PluginError, Runner
from multiqueue.multikueue.dispatching.policy import Way
from multiqueue.multikueue.dispatching.registry import EXTERNAL, Selection
from multiqueue.plugins import ChecksArguments, Dispatcher

PATIENCE = timedelta(seconds=1)
"""How long a Workload waits for a package that is being imported; then it says so and goes on."""
BUDGET = timedelta(seconds=30)
"""Packages with large dependencies take some seconds on a busy machine."""
RETRY = timedelta(seconds=10)
"""When one that could not be loaded is tried again: its package may be installed meanwhile."""

log = structlog.get_logger("multiqueue.multikueue.dispatching.loader")


class Loader:
    """Gets the dispatcher of one way, and has it look at its arguments.

    Args:
        way: Which one.
        select: Loads it.
        now: Tells the time.
        open_thread: Makes threads.
        on_hang: Gets the thread in which that hangs.
        patience: How long whoever asks waits for it.

    Attributes:
        problem: Why there is none; empty where there is.
        dispatcher: It, once it is loaded.
        label: Its name in metrics.
    """

    def __init__(
        self,
        way: Way,
        select: Callable[[], Selection],
        *,
        now: Callable[[], datetime],
        open_thread: OpenThread,
        on_hang: Callable[[Runner], None],
        patience: timedelta = PATIENCE,
    ) -> None:
        self.problem = ""
        self.dispatcher: Dispatcher | None = None
        self.label = way.dispatcher
        self._way = way
        self._select = select
        self._now = now
        self._open_thread = open_thread
        self._on_hang = on_hang
        self._patience = patience.total_seconds()
        self._thread: Runner | None = None
        self._loading: asyncio.Future[Selection] | None = None
        self._give_up_at: datetime | None = None
        self._again_at: datetime | None = None

    @property
    def is_loading(self) -> bool:
        """Whether it is on its way."""
        return self._loading is not None

    async def load(self) -> None:
        """Load it where that is not done; waits a moment at most."""
        if self.dispatcher is not None:
            return
        now = self._now()
        if self._loading is None:
            if self._again_at is not None and now < self._again_at:
                return
            self._begin(now)
        assert self._loading is not None
        if not self._loading.done() and not self.problem:
            await asyncio.wait({self._loading}, timeout=self._patience)
        self._take()

    def close(self) -> None:
        """It is not needed any more."""
        if self._thread is not None:
            self._thread.abandon()
            self._thread = None

    def _begin(self, now: datetime) -> None:
        self.problem = ""
        self._thread = self._open_thread(f"dispatcher-load-{self._way.dispatcher}")
        self._loading = self._thread.call(self._select_and_check)
        # Nobody may be left to ask for it.
        self._loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._give_up_at = now + BUDGET

    def _take(self) -> None:
        """Take in what came of it, if anything did."""
        loading, now = self._loading, self._now()
        if loading is None:
            return
        if not loading.done():
            self.problem = f'dispatcher "{self._way.dispatcher}" is still being loaded'
            if self._give_up_at is not None and now >= self._give_up_at:
                self._give_up(now)
            return
        self._loading = None
        self.close()
        try:
            selection = loading.result()
        except PluginError as error:
            words = f'dispatcher "{self._way.dispatcher}" cannot be loaded: {error}'
            selection = Selection(name=self._way.dispatcher, problem=self._at_field(words))
        self.problem, self.dispatcher = selection.problem, selection.dispatcher
        if self.problem:
            self._again_at = now + RETRY
        if selection.notice:
            self.label = EXTERNAL
            log.info("dispatcher is external", dispatcher=selection.name, notice=selection.notice)

    def _give_up(self, now: datetime) -> None:
        if self._thread is not None:
            self._on_hang(self._thread)
        self._thread = self._loading = None
        seconds = BUDGET.total_seconds()
        self.problem = f'dispatcher "{self._way.dispatcher}" could not be loaded in {seconds:g} s'
        self._again_at = now + 10 * BUDGET

    def _select_and_check(self) -> Selection:
        selection = self._select()
        way = self._way
        if selection.dispatcher is None:
            return replace(selection, problem=self._at_field(selection.problem))
        problems = _check(selection.dispatcher, way.arguments) if way.path else ()
        if not problems:
            return selection
        field = f"{way.path.removesuffix('dispatcher')}arguments"
        words = "; ".join(str(problem) for problem in problems)
        return Selection(
            name=way.dispatcher,
            problem=f"{field if way.path.endswith('dispatcher') else way.path}: "
            f'dispatcher "{way.dispatcher}": {words:.1000}',
        )

    def _at_field(self, words: str) -> str:
        return f"{self._way.path}: {words}" if self._way.path else words


def _check(dispatcher: Dispatcher, arguments: Mapping[str, Any]) -> Sequence[str]:
    """Have it look at its arguments, where it can."""
    if not isinstance(dispatcher, ChecksArguments):
        return ()
    return list(dispatcher.check_arguments(arguments))
