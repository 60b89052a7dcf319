"""Whether a change made a queue that shrank worse: how long it waits, and who is stopped. Pure.

Parity: P-111. Deviates: what is compared is read from Workloads that are there. If few are left of
the same hours of the week before, the time right before the change counts instead; if few are left
of that, too, nothing is judged. Of stops, the larger number of both times counts. They are those
of the condition ``multiqueue.dev/Disrupted``, so they count only where a DisruptionPolicy governs
the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from multiqueue.api.disruptions import Stop, StopCause, parse_stops
from multiqueue.api.durations import format_duration
from multiqueue.api.v1alpha1 import WatchedQueue
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import is_active, is_finished
from multiqueue.controllers.quota_plan.propose import PlanRules
from multiqueue.controllers.transitions import queued_at
from multiqueue.views.usage import read_hold

WEEK = timedelta(days=7)
LEAST_WAITS = 10
"""Fewer Workloads do not tell which wait nine in ten of them keep."""
LEAST_RECLAIMS = 3


class QueueWait(NamedTuple):
    """One wait for quota; ``begun`` is None while it lasts, ``ended`` until the Workload ends."""

    queued: datetime
    begun: datetime | None
    ended: datetime | None = None

    def is_there(self, since: datetime, until: datetime) -> bool:
        """Whether the Workload waited or ran in some time."""
        return self.queued < until and (self.ended is None or self.ended > since)


@dataclass(slots=True)
class QueueHistory:
    """What the Workloads of one ClusterQueue tell: their last waits, and stops by Reclaim."""

    waits: list[QueueWait] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)

    def add(self, workload: Workload, *, stopped: bool = False) -> None:
        """Add what one Workload tells; it waits for no quota while its queue is stopped."""
        self.stops.extend(parse_stops(workload.status.conditions))
        if parent_of(workload) is not None:
            return  # its parent waits
        hold, queued = read_hold(workload), queued_at(workload)
        if hold is not None:
            self.waits.append(QueueWait(min(queued, hold.begun), hold.begun, hold.ended))
        elif not stopped and is_active(workload.spec) and not is_finished(workload.status):
            self.waits.append(QueueWait(queued, None))


def find_long_wait(
    waits: Iterable[QueueWait], since: datetime, until: datetime
) -> timedelta | None:
    """Return the wait that nine in ten kept of those that ended in some time or lasted at its end.

    Of those that lasted only those count that began in this time: older ones grow with the clock,
    and may wait for something else. None: there were fewer than `LEAST_WAITS`.
    """
    lengths = []
    for queued, begun, _ in waits:
        if begun is None or begun > until:
            if since <= queued < until:
                lengths.append(until - queued)
        elif begun > since:
            lengths.append(begun - queued)
    if len(lengths) < LEAST_WAITS:
        return None
    return sorted(lengths)[-(len(lengths) // 10) - 1]


def measure_before(
    histories: Mapping[str, QueueHistory], watch: timedelta, now: datetime
) -> tuple[WatchedQueue, ...]:
    """Return how queues fare before a change that begins now."""
    found = []
    for name, history in sorted(histories.items()):
        times = ((now - WEEK, now - WEEK + watch), (now - watch, now))
        lengths = (find_long_wait(history.waits, *each) for each in times)
        wait = next((each for each in lengths if each is not None), None)
        found.append(
            WatchedQueue(
                cluster_queue=name,
                wait_seconds=None if wait is None else int(wait.total_seconds()),
                reclaims=max(
                    (
                        _count(history.stops, *each, StopCause.RECLAIM, StopCause.EARLIER)
                        for each in times
                        if sum(one.is_there(*each) for one in history.waits) >= LEAST_WAITS
                    ),
                    default=None,
                ),
            )
        )
    return tuple(found)


def find_harm(
    queues: Iterable[WatchedQueue],
    histories: Mapping[str, QueueHistory],
    rules: PlanRules,
    *,
    since: datetime,
    now: datetime,
) -> str:
    """Return what got worse for some queues since a change, in words; empty if nothing did."""
    for before in queues:
        history = histories[before.cluster_queue]
        name = f'ClusterQueue "{before.cluster_queue}"'
        wait = find_long_wait(history.waits, since, now)
        if wait is not None and before.wait_seconds is not None:
            earlier = timedelta(seconds=before.wait_seconds)
            more = max(rules.wait_at_least, earlier * rules.wait_percent / 100)
            if wait - earlier >= more and wait > earlier:
                return (
                    f"nine in ten Workloads of {name} waited up to {format_duration(earlier)} "
                    f"before, and up to {format_duration(wait)} now"
                )
        reclaims = _count(history.stops, since, now, StopCause.RECLAIM)
        if before.reclaims is not None and reclaims >= max(LEAST_RECLAIMS, 2 * before.reclaims):
            return f"Reclaim stopped {reclaims} Workloads of {name}, and {before.reclaims} before"
    return ""


def _count(stops: Iterable[Stop], since: datetime, until: datetime, *causes: StopCause) -> int:
    """Count stops; those that were put together count for before, and not as harm of a change."""
    return sum(stop.number for stop in stops if stop.cause in causes and since < stop.at <= until)
