"""When the running Workloads of a queue will end: one guess for each sample. Pure.

A guess is an absolute time, so it stays valid while time passes. A Workload that outlives one of
its guesses gets new ones, given its age. The guesses of a Workload are spread evenly over its
distribution, in an order of its own, so that few samples are enough.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.queues.entry import is_evicted
from multiqueue.forecast.curve import Curve
from multiqueue.model.workload import Reservation, Workload

SAMPLES = 31
"""Number of futures that are simulated: enough for meaningful tenths."""
FEW = 64
"""Up to so many new Workloads are inserted one by one; beyond that, everything is sorted."""
LATELY = 60.0
"""Seconds after which a new Workload triggers an update of the guesses."""

STOP_SECONDS = 30.0
"""How long a stopped Workload may take to end: the default grace period of pods."""

End = tuple[float, str]
"""Seconds since the epoch, and the Workload's key."""


_SHARES = tuple((place + 0.5) / SAMPLES for place in range(SAMPLES))


@lru_cache(maxsize=4096)
def draw_shares(key: str) -> Sequence[float]:
    """Return the quantile of a Workload's runtime in each sample, in an order of its own."""
    digest = hashlib.blake2b(key.encode(), digest_size=SAMPLES).digest()
    order = sorted(range(SAMPLES), key=digest.__getitem__)
    return [_SHARES[place] for place in order]


@dataclass(slots=True)
class RunningWorkload:
    """A Workload that holds quota.

    ``usage`` is by flavor and resource. ``since`` is in seconds since the epoch. ``ends`` has one
    value per sample. A Workload that ``is_leaving`` was told to stop.
    """

    key: str
    queue: str
    usage: tuple[tuple[FlavorResource, int], ...]
    since: float
    curve: Curve
    is_leaving: bool = False
    ends: Sequence[float] = ()

    def draw(self, now: float) -> None:
        """Guess when it ends, given that it still runs now."""
        shares = draw_shares(self.key)
        if self.is_leaving:
            self.ends = array("d", (now + share * STOP_SECONDS for share in shares))
            return
        age = max(0.0, now - self.since)
        ends = self.curve.ends(age, shares)
        self.ends = array("d", (max(now, self.since + end) for end in ends))


def build_run(workload: Workload, reservation: Reservation, curve: Curve) -> RunningWorkload:
    """Return a running Workload with the usage that it holds until it ends."""
    return RunningWorkload(
        key=workload.key,
        queue=reservation.admission.cluster_queue,
        usage=tuple(sorted(reservation.admission.usage().items())),
        since=reservation.reserved_at.timestamp(),
        curve=curve,
        is_leaving=is_evicted(workload),
    )


class Runs:
    """The running Workloads of one ClusterQueue.

    Cost of a change: its guesses, and some microseconds per sample.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, RunningWorkload] = {}
        self._sorted: list[list[End]] = [[] for _ in range(SAMPLES)]
        self._new: set[str] = set()
        self._settled_at = 0.0

    @property
    def unsettled_count(self) -> int:
        """How many Workloads `settle` would put in order."""
        return len(self._new)

    def put(self, run: RunningWorkload, now: float) -> None:
        """Add or change a running Workload."""
        run.draw(now)
        self.by_key[run.key] = run
        self._new.add(run.key)
        if self.unsettled_count > FEW or now - self._settled_at > LATELY:
            self.settle(now)  # so that a question does not have to wait for all of it

    def drop(self, key: str) -> None:
        """Remove a Workload; its guesses are removed when they pass, or when there are too many."""
        self.by_key.pop(key, None)
        self._new.discard(key)

    def settle(self, now: float) -> None:
        """Bring the guesses up to date."""
        self._settled_at = now
        self._new |= self._take_outlived(now)
        changed = [self.by_key[key] for key in sorted(self._new)]
        self._new.clear()
        for run in changed:
            if min(run.ends) < now:
                run.draw(now)
        if len(self._sorted[0]) + len(changed) > 2 * len(self.by_key) + FEW:
            for sample in range(SAMPLES):
                self._sorted[sample] = sorted(
                    (run.ends[sample], key) for key, run in self.by_key.items()
                )
        elif len(changed) > FEW:
            for sample, ends in enumerate(self._sorted):
                ends.extend((run.ends[sample], run.key) for run in changed)
                ends.sort()
        else:
            for run in changed:
                for sample, end in enumerate(run.ends):
                    insort(self._sorted[sample], (end, run.key))

    def ends(self, sample: int) -> Iterator[tuple[float, RunningWorkload]]:
        """Yield the running Workloads with their ends, in the order of one sample."""
        for end, key in self._sorted[sample]:
            run = self.by_key.get(key)
            if run is not None and run.ends[sample] == end:
                yield end, run

    def _take_outlived(self, now: float) -> set[str]:
        """Drop guesses that have passed; return the keys of Workloads that still run."""
        found: set[str] = set()
        for sample, ends in enumerate(self._sorted):
            passed = bisect_left(ends, (now, ""))
            for end, key in ends[:passed]:
                run = self.by_key.get(key)
                if run is not None and run.ends[sample] == end:
                    found.add(key)
            del ends[:passed]
        return found
