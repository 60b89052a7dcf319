"""Who leaves a worker that is drained, in which order, how fast, and until when. Pure.

Order: the highest priority first, for room elsewhere is scarce and goes to those that leave first;
then the largest gang, since every minute that it waits costs most if the worker is switched off,
and large gaps elsewhere are filled first by small ones; then what ran for the shortest time, for it
loses least, and what has run for long may end by itself meanwhile.

Pace: a bucket that holds `DrainPace.at_once` moves and is filled with one each `DrainPace.every`.
Its whole state is one time. A manager that finds a drain begun by another manager starts with an
empty bucket, so that restarts, however many, never make it faster.
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
        """What is lost at most if it stops now: everything since it was admitted."""
        return self.gpus * max(0.0, (now - self.admitted_at).total_seconds())


def sort_residents(residents: Iterable[Resident]) -> list[Resident]:
    """Return them in the order in which they leave."""
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
        """Return the bucket under another pace: no move begins sooner for more at a time alone.

        Never emptier than empty: a faster pace counts from now on.
        """
        full_at = max(self.full_at, self.next_at(old) + new.every * (new.at_once - 1))
        return Bucket(min(full_at, Bucket.empty(now, new).full_at))


def estimate_end(
    moving: Sequence[timedelta],
    leaving: Sequence[timedelta],
    *,
    bucket: Bucket,
    pace: DrainPace,
    now: datetime,
) -> datetime:
    """When the last one has stopped, if every one takes as long as it may.

    Args:
        moving: How long each that is on its way out may still take.
        leaving: How long each that is still to leave may take to stop, in order.
        bucket: When moves may begin.
        pace: How fast.
        now: The time.
    """
    ends = [now + left for left in moving]
    heapq.heapify(ends)
    last = max(ends, default=now)
    for stop in leaving:
        free = heapq.heappop(ends) if len(ends) >= pace.at_once else now
        begins = max(now, free, bucket.next_at(pace))
        bucket = bucket.take(pace, begins)
        heapq.heappush(ends, begins + stop)
        last = max(last, begins + stop)
    return last
