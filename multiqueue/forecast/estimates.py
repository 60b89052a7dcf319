"""Cache start estimates for a while. Pure.

An estimate that is an hour away is still good a minute later, unless another Workload came to wait
meanwhile: each Workload of a burst must see those before it. A decision covers many workers and
must be quick. If its budget is spent, an older estimate is used. It is corrected for the Workloads
that came since, as if each waited as long as the earlier ones on average. If there is none, the
estimate of a gang of similar size is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from multiqueue.model.workload import Shape
from multiqueue.plugins.forecast import StartEstimate

KEPT = timedelta(seconds=1)
SHARE = 0.02
"""How long an estimate is valid: at least `KEPT`, or this share of the wait."""
STALE = 25
"""Factor by which an estimate is valid longer if there is no budget for a new one."""
MOST = 1000
"""Most questions that are cached."""
ALIKE = 4
"""Factor by which the sizes of gangs may differ if one's estimate is used for the other."""


@dataclass(slots=True)
class Budget:
    """What one decision may still spend on estimates, over all workers.

    Unit: tries, as in `timeline.TRIES`; each takes a microsecond or two.
    """

    left: int = 800


class StartQuestion(NamedTuple):
    """The question when a gang would start.

    Attributes:
        queue: Key of its LocalQueue.
        size: How much it needs of the scarce resource.
        shape: All its needs, and its priority.
        own: Its key, if it already waits there.
        runs: The seconds that it says it runs, on which its turn depends; 0 if it does not say.
    """

    queue: str
    size: int
    shape: Shape
    own: str = ""
    runs: int = 0


@dataclass(frozen=True, slots=True)
class KnownEstimate:
    """A cached answer.

    Attributes:
        found: The estimate.
        arrivals: The count of arrivals when it was made.
        made_at: When it was made.
        quick: Whether it is a quick one: `find` ignores it, `find_stale` may use it.
    """

    found: StartEstimate
    arrivals: int
    made_at: datetime
    quick: bool


class Estimates:
    """Cached answers by question."""

    def __init__(self) -> None:
        self._known: dict[StartQuestion, KnownEstimate] = {}

    def find(self, question: StartQuestion, arrivals: int, now: datetime) -> StartEstimate | None:
        """Return a cached answer that is still valid."""
        known = self._known.get(question)
        if known is None or known.quick or known.arrivals != arrivals:
            return None
        return self._use(known, arrivals, now, 1)

    def find_stale(
        self, question: StartQuestion, arrivals: int, now: datetime
    ) -> StartEstimate | None:
        """Return an older answer, for use if there is no budget for a new one."""
        known = self._known.get(question) or self._find_alike(question)
        return self._use(known, arrivals, now, STALE) if known is not None else None

    def _find_alike(self, question: StartQuestion) -> KnownEstimate | None:
        alike = [
            (abs(other.size - question.size), other.size, other)
            for other in self._known
            if other.queue == question.queue
            and not other.own
            and other.size <= ALIKE * question.size
            and question.size <= ALIKE * other.size
        ]
        return self._known[min(alike, key=lambda entry: entry[:2])[2]] if alike else None

    def _use(
        self, known: KnownEstimate, arrivals: int, now: datetime, patience: int
    ) -> StartEstimate | None:
        wait = known.found.at - known.made_at
        longest = max(KEPT, wait * SHARE) * patience
        if not timedelta() <= now - known.made_at <= longest:
            return None
        return _later(known.found, wait * (arrivals - known.arrivals), now)

    def keep(
        self,
        question: StartQuestion,
        arrivals: int,
        now: datetime,
        found: StartEstimate | None,
        *,
        quick: bool,
    ) -> None:
        """Cache an answer."""
        if len(self._known) >= MOST:
            self._known.clear()
        if found is not None:
            self._known[question] = KnownEstimate(found, arrivals, now, quick)

    def clear(self) -> None:
        """Clear the cache, since the quota has grown or shrunk."""
        self._known.clear()


def _later(found: StartEstimate, waits: timedelta, now: datetime) -> StartEstimate:
    """Return an estimate for a Workload that comes later, and not before now."""
    if not waits and found.earliest >= now:
        return found
    more = waits / (found.ahead + 1)
    return replace(
        found,
        at=max(now, found.at + more),
        earliest=max(now, found.earliest + more),
        latest=max(now, found.latest + more),
    )
