"""Which dispatcher decides about a Workload: its MultiKueueConfig's, or the manager's.

Each runs behind a fence of its own. They are asked one at a time all the same: two that saw the
same room would both give it away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from multiqueue.multikueue.dispatching.plugin_thread import OpenThread, PluginThread
from multiqueue.multikueue.dispatching.registry import EXTERNAL, Dispatchers, Selection
from multiqueue.multikueue.dispatching.runner import DispatchRunner

log = structlog.get_logger("multiqueue.multikueue")


class DispatcherChoice:
    """The dispatchers in use, by the names that configurations call them.

    Args:
        dispatchers: What there is to choose from.
        default: The name of the manager's own.
        now: Tells the time.
        on_answer: Gets the dispatcher's name and the seconds that an answer took; all that are
            external have one name.
        open_thread: Makes the threads that they run in.
    """

    def __init__(
        self,
        dispatchers: Dispatchers,
        default: str,
        *,
        now: Callable[[], datetime],
        on_answer: Callable[[str, float], None] = lambda _name, _seconds: None,
        open_thread: OpenThread = PluginThread,
    ) -> None:
        self._dispatchers = dispatchers
        self._default = default
        self._now = now
        self._on_answer = on_answer
        self._open_thread = open_thread
        self._lock = asyncio.Lock()
        self._runners: dict[str, DispatchRunner] = {}
        self.find("")

    def find(self, name: str) -> DispatchRunner:
        """Return the dispatcher of that name; the manager's own where the name is empty.

        One that cannot be used answers with the reason. Grows with the names in MultiKueueConfigs.
        """
        wanted = name or self._default
        runner = self._runners.get(wanted)
        if runner is None:
            selection = self._dispatchers.select(wanted)
            _tell(selection)
            label = EXTERNAL if selection.notice else wanted
            runner = self._runners[wanted] = DispatchRunner(
                selection,
                now=self._now,
                on_answer=lambda seconds: self._on_answer(label, seconds),
                open_thread=self._open_thread,
                lock=self._lock,
            )
        return runner


def _tell(selection: Selection) -> None:
    if selection.problem:
        log.error("dispatcher cannot be used", error=selection.problem)
    if selection.notice:
        log.info("dispatcher is external", dispatcher=selection.name, notice=selection.notice)
