"""How often a server lets those hear of it who watch: by that silence is told from rest.

Servers send a bookmark now and then to whoever asks for them, kube-apiserver about once a minute,
and promise nothing. So what a server does is learned, and counts for the streams that are opened
from then on. Whoever is given up too soon asks again from where it was: that costs one request.
"""

from __future__ import annotations

SILENT_GAPS = 3.0
"""Bookmarks that may be missed in a row."""
LEAST_SECONDS = 150.0
"""However close two bookmarks were: more than a server with the usual minute needs for the next."""


class BookmarkRhythm:
    """What is known of one server."""

    def __init__(self) -> None:
        self._gap = 0.0

    def hear(self, gap: float) -> None:
        """Take in how many seconds lay between two bookmarks of one stream."""
        self._gap = max(self._gap, gap)

    @property
    def patience(self) -> float | None:
        """Seconds of silence after which a stream is dead; None while nothing is known."""
        return max(self._gap * SILENT_GAPS, LEAST_SECONDS) if self._gap else None
