"""Estimates that are good for a while. Pure.

One that is an hour away is as good a minute later, unless somebody came to wait meanwhile: a burst
must see the queue that it makes. A decision looks at many workers and may not take long; so where
its budget is spent, an older estimate is put right by as many as came since, as if each had to wait
as long as those before it on average.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from multiqueue.plugins.forecast import StartEstimate

KEPT = timedelta(seconds=1)
SHARE = 0.02
"""For how much of the wait, or how long at least, an estimate is good."""
STALE = 5
"""How many times as long it does where there is no time for another one."""
MOST = 1000
"""Questions that are remembered."""


@dataclass(slots=True)
class Budget:
    """What one decision may still spend on estimates, over all workers.

    Units: tries of `timeline.TRIES`; a microsecond or two each.
    """

    left: int = 4000


@dataclass(frozen=True, slots=True)
class Known:
    """An answer.

    Attributes:
        found: It.
        arrivals: Who had come to wait until then, counted.
        made_at: When.
        quick: It was only to do for the moment.
    """

    found: StartEstimate
    arrivals: int
    made_at: datetime
    quick: bool


class Estimates:
    """Answers by question."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Known] = {}

    def find(
        self, question: Hashable, arrivals: int, now: datetime, *, stale: bool = False
    ) -> StartEstimate | None:
        """Return an answer that is still good, or one that does where there is no time."""
        known = self._known.get(question)
        if known is None or (not stale and (known.quick or known.arrivals != arrivals)):
            return None
        wait = known.found.at - known.made_at
        longest = max(KEPT, wait * SHARE) * (STALE if stale else 1)
        if not timedelta() <= now - known.made_at <= longest:
            return None
        return _later(known.found, wait * (arrivals - known.arrivals), now)

    def keep(
        self,
        question: Hashable,
        arrivals: int,
        now: datetime,
        found: StartEstimate | None,
        *,
        quick: bool,
    ) -> None:
        """Remember an answer."""
        if len(self._known) >= MOST:
            self._known.clear()
        if found is not None:
            self._known[question] = Known(found, arrivals, now, quick)

    def clear(self) -> None:
        """Forget all: there is more or less quota now."""
        self._known.clear()


def _later(found: StartEstimate, waits: timedelta, now: datetime) -> StartEstimate:
    """Return an estimate for who comes later, and not before now."""
    if not waits and found.earliest >= now:
        return found
    more = waits / (found.ahead + 1)
    return replace(
        found,
        at=max(now, found.at + more),
        earliest=max(now, found.earliest + more),
        latest=max(now, found.latest + more),
    )
