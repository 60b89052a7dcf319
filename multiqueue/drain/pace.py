"""Which Workloads leave a drained worker, in which order, how fast, and until when. Pure.

Order: The highest priority leaves first, because room elsewhere is scarce and the first take it.
Then the largest gang: each minute that it waits costs most if the worker is switched off, and small
gangs would fill the large gaps elsewhere. Then the Workload that ran for the shortest time: it
loses least, and one that has run for long may end by itself meanwhile.

Pace: A bucket holds `DrainPace.at_once` moves; one is added each `DrainPace.every`. Its whole state
is one time. A manager that finds a drain of another manager starts with an empty bucket, so any
number of restarts never makes the drain faster.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from multiqueue.api.cluster_orders import DrainPace


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A Workload that runs on a worker.

    Attributes:
        key: ``namespace/name``.
        priority: Effective priority.
        gpus: Accelerators that it holds.
        admitted_at: Since when it runs there.
        stop: How long its pods may take to stop, a checkpoint included.
    """

    key: str
    priority: int = 0
    gpus: int = 0
    admitted_at: datetime
    stop: timedelta = timedelta(seconds=30)

    def lost_gpu_seconds(self, now: datetime) -> float:
        """The most work that a stop loses now: all of it since admission."""
        return self.gpus * max(0.0, (now - self.admitted_at).total_seconds())


def sort_residents(residents: Iterable[Resident]) -> list[Resident]:
    """Return the residents in the order in which they leave."""
    return sorted(
        residents, key=lambda r: (-r.priority, -r.gpus, -r.admitted_at.timestamp(), r.key)
    )


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many moves may begin.

    Attributes:
        full_at: When the bucket is full again.
    """

    full_at: datetime

    @classmethod
    def full(cls, now: datetime) -> Bucket:
        """Return the bucket of a drain that begins."""
        return cls(now)

    @classmethod
    def empty(cls, now: datetime, pace: DrainPace) -> Bucket:
        """Return the bucket of a drain that another manager began."""
        return cls(now + pace.every * pace.at_once)

    def next_at(self, pace: DrainPace) -> datetime:
        """When the next move may begin."""
        return self.full_at - pace.every * (pace.at_once - 1)

    def has_one(self, pace: DrainPace, now: datetime) -> bool:
        """Whether a move may begin now."""
        return self.next_at(pace) <= now

    def take(self, pace: DrainPace, now: datetime) -> Bucket:
        """Return the bucket after a move began."""
        return Bucket(max(now, self.full_at) + pace.every)

    def change(self, old: DrainPace, new: DrainPace, now: datetime) -> Bucket:
        """Return the bucket at another pace; a larger `at_once` alone lets no move begin sooner.

        It is never emptier than empty: a faster pace counts from now on.
        """
        full_at = max(self.full_at, self.next_at(old) + new.every * (new.at_once - 1))
        return Bucket(min(full_at, Bucket.empty(now, new).full_at))


def estimate_begins(
    moving: Sequence[timedelta],
    leaving: Sequence[timedelta],
    *,
    bucket: Bucket,
    pace: DrainPace,
    now: datetime,
) -> list[datetime]:
    """Return when each remaining Workload begins to leave, if each takes as long as it may.

    Args:
        moving: How long each Workload that is already leaving may still take.
        leaving: How long each remaining Workload may take to stop, in order.
        bucket: When moves may begin.
        pace: The pace of the drain.
        now: The time.
    """
    ends, begins = [now + left for left in moving], []
    heapq.heapify(ends)
    for stop in leaving:
        free = heapq.heappop(ends) if len(ends) >= pace.at_once else now
        begins.append(max(now, free, bucket.next_at(pace)))
        bucket = bucket.take(pace, begins[-1])
        heapq.heappush(ends, begins[-1] + stop)
    return begins


def estimate_end(
    moving: Sequence[timedelta],
    leaving: Sequence[timedelta],
    *,
    bucket: Bucket,
    pace: DrainPace,
    now: datetime,
) -> datetime:
    """Return when the last Workload has stopped; the arguments are those of `estimate_begins`."""
    begins = estimate_begins(moving, leaving, bucket=bucket, pace=pace, now=now)
    ends = [begin + stop for begin, stop in zip(begins, leaving, strict=True)]
    return max([*ends, *(now + left for left in moving)], default=now)
