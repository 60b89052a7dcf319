"""Estimates that are good for a while. Pure.

One that is an hour away is as good a minute later, unless somebody came to wait meanwhile: a burst
must see the queue that it makes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime, timedelta

from multiqueue.plugins.forecast import StartEstimate

KEPT = timedelta(seconds=1)
SHARE = 0.02
"""For how much of the wait, or how long at least, an estimate is good."""
MOST = 1000
"""Questions that are remembered."""


class Estimates:
    """Answers by question."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[StartEstimate, int, datetime]] = {}

    def find(self, question: Hashable, arrivals: int, now: datetime) -> StartEstimate | None:
        """Return an answer that is still good."""
        known = self._known.get(question)
        if known is None or known[1] != arrivals:
            return None
        found, _, made_at = known
        if not timedelta() <= now - made_at <= max(KEPT, (found.at - made_at) * SHARE):
            return None
        if found.earliest >= now:
            return found
        return replace(
            found,
            at=max(now, found.at),
            earliest=now,
            latest=max(now, found.latest),
        )

    def keep(
        self, question: Hashable, arrivals: int, now: datetime, found: StartEstimate | None
    ) -> None:
        """Remember an answer."""
        if len(self._known) >= MOST:
            self._known.clear()
        if found is not None:
            self._known[question] = (found, arrivals, now)

    def clear(self) -> None:
        """Forget all: there is more or less quota now."""
        self._known.clear()
