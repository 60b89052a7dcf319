"""The stops of a Workload for others, as the condition ``multiqueue.dev/Disrupted`` keeps them.

The condition is written together with the eviction, so a stop that was not written did not happen.
Budgets and protection add up what these conditions say; a new leader reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from multiqueue.api.conditions import DISRUPTED, Reason, find_condition, set_condition
from multiqueue.api.v1beta2 import Condition, WorkloadStatus, format_time
from multiqueue.api.v1beta2.meta import parse_time

KEPT = 16
"""Stops that are kept one by one; older ones of `LONGEST_WINDOW` become one entry."""
MOST_IN_ONE = 10_000
"""Stops that one entry may stand for; more was written by hand."""
LONGEST_WINDOW = timedelta(hours=168)
"""The longest window of a budget; older stops count for nobody."""


class StopCause(StrEnum):
    """Why a Workload was stopped for another one."""

    QUEUE = "Queue"
    """A higher priority in its own ClusterQueue."""
    RECLAIM = "Reclaim"
    """The owner of quota that it borrowed."""
    FAIR_SHARE = "FairShare"
    """A ClusterQueue with a smaller share."""
    MIGRATION = "Migration"
    """A gang that starts sooner in its place, while it runs on another worker."""
    EARLIER = "Earlier"
    """Several old stops in one entry; they count for every cause."""


class Stop(NamedTuple):
    """One stop, or several old ones together.

    Units: ``cost`` is in device-seconds. ``cluster_queue`` and ``namespace`` are the preemptor's;
    ``-`` and empty for several.
    """

    at: datetime
    cause: StopCause
    cost: int
    cluster_queue: str
    number: int = 1
    namespace: str = ""

    def __str__(self) -> str:
        number = f"*{self.number}" if self.cause is StopCause.EARLIER else ""
        preemptor = "/".join(filter(None, (self.cluster_queue, self.namespace)))
        return f"{format_time(self.at)} {self.cause}{number} {self.cost} {preemptor}"


def parse_stops(conditions: Iterable[Condition]) -> tuple[Stop, ...]:
    """Return the stops of a Workload, oldest first; what cannot be read is left out."""
    condition = find_condition(conditions, DISRUPTED)
    if condition is None or condition.status != "True":
        return ()
    _, _, listed = condition.message.partition(": ")
    stops = (_parse_stop(part) for part in listed.split(", "))
    return tuple(sorted(stop for stop in stops if stop is not None))


def _parse_stop(text: str) -> Stop | None:
    try:
        at, kind, cost, preemptor = text.split(" ")
        cluster_queue, _, namespace = preemptor.partition("/")
        cause, _, count = kind.partition("*")
        moment = parse_time(at)
        if moment is None:
            return None
        number = min(max(1, int(count or 1)), MOST_IN_ONE)
        return Stop(moment, StopCause(cause), max(0, int(cost)), cluster_queue, number, namespace)
    except ValueError:
        return None


def add_stop(stops: Sequence[Stop], stop: Stop) -> tuple[Stop, ...]:
    """Return the stops with a new one; old ones become one entry, or are dropped."""
    known = sorted(each for each in (*stops, stop) if each.at > stop.at - LONGEST_WINDOW)
    if len(known) <= KEPT:
        return tuple(known)
    old, kept = known[:-KEPT], known[-KEPT:]
    earlier = Stop(
        at=max(each.at for each in old),
        cause=StopCause.EARLIER,
        cost=sum(each.cost for each in old),
        cluster_queue="-",
        number=sum(each.number for each in old),
    )
    return (earlier, *kept)


def say_stops(stops: Sequence[Stop]) -> str:
    """Return the message of the condition for some stops."""
    number = sum(each.number for each in stops)
    return f"{number} {'stop' if number == 1 else 'stops'}: {', '.join(map(str, stops))}"


def record_stop(status: WorkloadStatus, stop: Stop) -> WorkloadStatus:
    """Return the status with a stop in its record."""
    stops = add_stop(parse_stops(status.conditions), stop)
    conditions = set_condition(
        status.conditions,
        type_=DISRUPTED,
        status=True,
        reason=Reason.PREEMPTED,
        message=say_stops(stops),
        now=stop.at,
    )
    return msgspec.structs.replace(status, conditions=conditions)
