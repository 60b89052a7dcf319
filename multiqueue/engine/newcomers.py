"""Workloads that arrived a moment ago, for quota that becomes free in the same moment.

A user who ends one job and submits another expects the second to get the room of the first. The
end takes a few more requests to arrive here than the creation, which must not matter. So a
newcomer that was judged and parked just before is tried again at once, not with the next wake.
Upstream takes longer to create a Workload than to end one, so there a newcomer always sees the
freed quota.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from multiqueue.engine.queues.entry import Entry

GRACE = timedelta(milliseconds=500)
"""Time for several requests to an API server under load; wakes are batched for one second."""


class Newcomers:
    """Recent arrivals. Mutable; owned by the intake. Arrivals of the last `GRACE` by tree."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[tuple[datetime, Entry]]] = {}

    def add(self, tree: str, entry: Entry, now: datetime) -> None:
        """Remember an arrival; drop the older ones."""
        arrivals = self._arrivals.setdefault(tree, deque())
        while arrivals and arrivals[0][0] < now - GRACE:
            arrivals.popleft()
        arrivals.append((now, entry))

    def take(self, tree: str, now: datetime) -> list[Entry]:
        """Return the recent arrivals that are parked; each is returned once."""
        arrivals = self._arrivals.pop(tree, ())
        return [entry for at, entry in arrivals if at >= now - GRACE and entry.awaits_wake]
