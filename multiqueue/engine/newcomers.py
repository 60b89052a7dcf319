"""Workloads that arrived a moment ago, for quota that becomes free in the same moment.

A user who ends one job and submits another expects the second to find the room of the first. That
the end takes some requests more to arrive here than the beginning must not decide: a newcomer that
was judged and parked just before is looked at again at once, not with the next wake. Upstream takes
longer to make a Workload than to end one, so there a newcomer always sees what was freed with it.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from multiqueue.engine.queues.entry import Entry

GRACE = timedelta(milliseconds=500)
"""Several requests to an API server under load; wakes are batched for a whole second."""


class Newcomers:
    """Mutable; owned by the intake. Arrivals of the last `GRACE` by tree."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[tuple[datetime, Entry]]] = {}

    def add(self, tree: str, entry: Entry, now: datetime) -> None:
        """Remember an arrival; older ones are forgotten on the way."""
        arrivals = self._arrivals.setdefault(tree, deque())
        while arrivals and arrivals[0][0] < now - GRACE:
            arrivals.popleft()
        arrivals.append((now, entry))

    def take(self, tree: str, now: datetime) -> list[Entry]:
        """Return those who wait for a wake though they arrived only just now; once."""
        arrivals = self._arrivals.pop(tree, ())
        return [entry for at, entry in arrivals if at >= now - GRACE and entry.awaits_wake]
