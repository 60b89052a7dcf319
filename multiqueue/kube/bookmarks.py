"""How often a server sends bookmarks: a silent watch is told from a dead one by them.

Servers send bookmarks to clients that ask for them, without any promised interval; kube-apiserver
does so about once a minute. So the interval of each server is learned, and applies to watches that
are opened afterwards. A watch that is given up too soon resumes at the cost of one request.
"""

from __future__ import annotations

SILENT_GAPS = 3.0
"""Bookmarks that may be missed in a row."""
LEAST_SECONDS = 150.0
"""Shortest patience in seconds: longer than the usual minute between two bookmarks."""


class BookmarkRhythm:
    """The interval between bookmarks of one server."""

    def __init__(self) -> None:
        self._gap = 0.0

    def hear(self, gap: float) -> None:
        """Record the seconds between two bookmarks of one stream."""
        self._gap = max(self._gap, gap)

    @property
    def patience(self) -> float | None:
        """Seconds of silence after which a stream counts as dead; None if not learned yet."""
        return max(self._gap * SILENT_GAPS, LEAST_SECONDS) if self._gap else None
