"""Report which restrictions of dispatchers' processes this machine does not support."""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("multiqueue.dispatcher_host.isolation")


class MissingRestrictions:
    """Logs missing restrictions once per dispatcher, although its process may restart.

    Args:
        on_count: Gets the dispatcher's name and the number of missing restrictions.
    """

    def __init__(self, on_count: Callable[[str, int], None]) -> None:
        self._on_count = on_count
        self._known: dict[str, tuple[str, ...]] = {}

    def note(self, dispatcher: str, ways: tuple[str, ...]) -> None:
        """Record what a new process of a dispatcher reports."""
        if self._known.get(dispatcher, ()) != ways:
            log.warning(
                "a dispatcher's process is not shut in", dispatcher=dispatcher, open_ways=ways
            )
        self._known[dispatcher] = ways
        self._on_count(dispatcher, len(ways))
