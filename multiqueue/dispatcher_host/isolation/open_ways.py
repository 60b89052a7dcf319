"""Tells what this machine cannot keep dispatchers' processes away from."""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("multiqueue.dispatcher_host.isolation")


class OpenWays:
    """Logs it once for each dispatcher, whose process is begun anew now and then.

    Args:
        on_count: Gets the dispatcher's name, and how many ways out there are.
    """

    def __init__(self, on_count: Callable[[str, int], None]) -> None:
        self._on_count = on_count
        self._known: dict[str, tuple[str, ...]] = {}

    def note(self, dispatcher: str, ways: tuple[str, ...]) -> None:
        """Take in what a new process of a dispatcher says."""
        if self._known.get(dispatcher, ()) != ways:
            log.warning(
                "a dispatcher's process is not shut in", dispatcher=dispatcher, open_ways=ways
            )
        self._known[dispatcher] = ways
        self._on_count(dispatcher, len(ways))
