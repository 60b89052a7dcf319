"""Usage: device-seconds by day, queue, worker and flavor, from the conditions of Workloads. Pure.

A hold is one reservation of quota by one Workload. Times are those of conditions, never of a clock
of this process, so every reader of the same objects counts the same.

All of a hold's running time counts as lost if the Workload was stopped (P-124): what a job saved
before is not known here. Where a DisruptionPolicy tells what has to be done again, the owner of the
preemptor is charged for that, and the owner of the stopped Workload is not (P-126).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.disruptions import parse_stops
from multiqueue.api.v1alpha1 import UsageReportRow
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import read_time
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import find, is_finished
from multiqueue.model.resources import CPU, is_accelerator, parse_request
from multiqueue.model.turn import count_devices

MILLI = 1000
DAY = timedelta(days=1)


class UsageOutcome(StrEnum):
    """How a hold ended."""

    OPEN = ""
    KEPT = "Kept"
    """It ended well, or its owner ended it."""
    LOST = "Lost"
    """It was stopped."""
    FAILED = "Failed"
    """It failed by itself."""


CAUSES: Mapping[str, str] = {
    Reason.IN_CLUSTER_QUEUE: "Priority",
    Reason.IN_COHORT_RECLAMATION: "Reclaim",
    Reason.IN_COHORT_RECLAIM_WHILE_BORROWING: "Reclaim",
    Reason.IN_COHORT_FAIR_SHARING: "FairShare",
    Reason.PODS_READY_TIMEOUT: "Timeout",
    Reason.ADMISSION_CHECK: "Check",
    Reason.NODE_FAILURES: "NodeFailure",
}
"""Causes by the reason of the condition Preempted, else of Evicted; others keep their reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reservation of quota.

    Attributes:
        name: The name of the Workload.
        amounts: (flavor, resource, amount): devices, or cores if it holds no device.
        begun: When quota was reserved.
        admitted: When the Workload was admitted; None: not yet.
        ready: When all pods were ready, if somebody said so.
        ended: When the quota was released; None: not yet.
        cause: Why it was stopped; empty if it was not.
        redone: Seconds on each device that have to be done again because of the stop.
        stopped_for: The namespace of the Workload for which it was stopped; empty: not known.
    """

    uid: str
    namespace: str
    name: str
    local_queue: str
    cluster_queue: str
    worker: str
    amounts: tuple[tuple[str, str, float], ...]
    begun: datetime
    admitted: datetime | None = None
    ready: datetime | None = None
    ended: datetime | None = None
    outcome: UsageOutcome = UsageOutcome.OPEN
    cause: str = ""
    redone: float = 0.0
    stopped_for: str = ""


class UsageKey(NamedTuple):
    """What a row is about."""

    day: str
    local_queue: str
    cluster_queue: str
    owner: str
    worker: str
    flavor: str
    resource: str
    cause: str
    paid_by: str


@dataclass(slots=True)
class UsageFigures:
    """The figures of a row, in device-seconds; see `UsageReportRow`.

    ``paid`` is what others have to do again because of Workloads of this owner. ``cost`` is the
    price of what is charged, and ``unpriced`` the part of it that has no price. These three are not
    stored.
    """

    holds: int = 0
    reserved: float = 0.0
    checks: float = 0.0
    starting: float = 0.0
    running: float = 0.0
    kept: float = 0.0
    lost: float = 0.0
    failed: float = 0.0
    redone: float = 0.0
    paid: float = 0.0
    cost: float = 0.0
    unpriced: float = 0.0

    @property
    def charged(self) -> float:
        """What the owner is charged for: what was reserved, but each stop to who caused it."""
        return self.reserved - self.redone + self.paid

    def add(self, other: UsageFigures) -> None:
        """Add the figures of another row."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


UsageRows = dict[UsageKey, UsageFigures]
TIMES = ("reserved", "checks", "starting", "running", "kept", "lost", "failed", "redone")
"""The figures of a stored row that are times."""


def read_hold(workload: Workload) -> Hold | None:
    """Return the hold that a Workload has, or had until it finished; None without quota.

    A variant has none: its parent tells the same reservation.
    """
    status, admission = workload.status, workload.status.admission
    reserved = find(status, WorkloadCondition.QUOTA_RESERVED)
    if admission is None or reserved is None or reserved.status != "True":
        return None
    if parent_of(workload) is not None:
        return None
    begun = read_time(reserved.last_transition_time)
    if begun is None:
        return None
    hold = Hold(
        uid=workload.metadata.uid,
        namespace=workload.metadata.namespace,
        name=workload.metadata.name,
        local_queue=workload.spec.queue_name,
        cluster_queue=admission.cluster_queue,
        worker=status.cluster_name or "",
        amounts=_read_amounts(workload),
        begun=begun,
        admitted=_since(workload, WorkloadCondition.ADMITTED),
        ready=_since(workload, WorkloadCondition.PODS_READY),
    )
    finished = find(status, WorkloadCondition.FINISHED)
    if finished is None or finished.status != "True":
        return hold
    failed = finished.reason == Reason.FAILED
    outcome = UsageOutcome.FAILED if failed else UsageOutcome.KEPT
    ended = read_time(finished.last_transition_time) or begun
    return replace(hold, ended=max(begun, ended), outcome=outcome)


def tells(workload: Workload | None, hold: Hold) -> bool:
    """Whether a hold can be read of a Workload: it has it, or finished with it."""
    if workload is None or workload.metadata.uid != hold.uid:
        return False
    told = read_hold(workload)
    return told is not None and told.begun == hold.begun


def end_hold(old: Workload, new: Workload | None, now: datetime) -> Hold | None:
    """Return the hold that ended between two states of a Workload; None if none did.

    Args:
        old: The state before.
        new: The state after; None: it was deleted.
        now: When it was deleted, if its quota was not released before.
    """
    hold = read_hold(old)
    if hold is None or hold.ended is not None:
        return None
    if new is None or new.metadata.uid != hold.uid:
        return replace(hold, ended=max(hold.begun, now), outcome=UsageOutcome.KEPT)
    after = read_hold(new)
    if after is not None and after.begun == hold.begun:
        return after if after.ended is not None else None
    released = find(new.status, WorkloadCondition.QUOTA_RESERVED)
    is_released = released is not None and released.status == "False"
    ended = (
        read_time(released.last_transition_time) if released is not None and is_released else now
    )
    evicted = find(new.status, WorkloadCondition.EVICTED)
    if evicted is None or evicted.status != "True" or is_finished(new.status):
        return replace(hold, ended=max(hold.begun, ended or now), outcome=UsageOutcome.KEPT)
    preempted = find(new.status, WorkloadCondition.PREEMPTED)
    is_preempted = evicted.reason == Reason.PREEMPTED and preempted is not None
    reason = preempted.reason if is_preempted and preempted is not None else evicted.reason
    cost, stopped_for = _last_stop(new, hold.begun) if is_preempted else (0, "")
    return replace(
        hold,
        ended=max(hold.begun, ended or now),
        outcome=UsageOutcome.LOST,
        cause=CAUSES.get(reason, reason),
        redone=cost / _count_devices(hold.amounts),
        stopped_for=stopped_for,
    )


def _last_stop(workload: Workload, since: datetime) -> tuple[int, str]:
    """Return the cost of the last stop after a time, and for which namespace it was."""
    stops = [stop for stop in parse_stops(workload.status.conditions) if stop.at >= since]
    known = [stop for stop in stops if stop.namespace]
    return (known[-1].cost, known[-1].namespace) if known else (0, "")


def _count_devices(amounts: Iterable[tuple[str, str, float]]) -> float:
    """Return the devices of a hold as the cost of a stop counts them (`count_devices`)."""
    return count_devices(
        (resource, round(amount * (MILLI if resource == CPU else 1)))
        for _, resource, amount in amounts
    )


def add_hold(
    rows: UsageRows, hold: Hold, owners: Callable[[str], str], since: datetime, until: datetime
) -> None:
    """Add what a hold used after ``since`` and until ``until``.

    How its running time is divided (kept, lost, failed) is known when it ends. So that of all its
    days counts on the day of its end.

    Args:
        rows: The rows to add to.
        hold: The hold.
        owners: Returns the owner of a namespace.
        since: What was used before is counted already.
        until: What is used later is not counted yet.
    """
    about = UsageKey(
        day="",
        local_queue=hold.local_queue,
        cluster_queue=hold.cluster_queue,
        owner=owners(hold.namespace),
        worker=hold.worker,
        flavor="",
        resource="",
        cause="",
        paid_by="",
    )
    ended = hold.ended if hold.ended is not None and hold.ended <= until else None
    stop = ended or until
    admitted = min(hold.admitted or stop, stop)
    runs = max(admitted, min(hold.ready or admitted, stop))
    for day, begin, end in _split_days(max(hold.begun, since), stop):
        figures = UsageFigures(
            reserved=_seconds(begin, end),
            checks=_seconds(begin, min(end, admitted)),
            starting=_seconds(max(begin, admitted), min(end, runs)),
            running=_seconds(max(begin, runs), end),
        )
        _add(rows, hold, about._replace(day=day), figures)
    if ended is not None and ended > since:
        ran = _seconds(max(hold.begun, runs), ended)
        figures = UsageFigures(holds=1)
        match hold.outcome:
            case UsageOutcome.LOST:
                figures.lost = ran
                figures.redone = min(ran, hold.redone)
            case UsageOutcome.FAILED:
                figures.failed = ran
            case _:
                figures.kept = ran
        paid_by = owners(hold.stopped_for) if hold.stopped_for else ""
        key = about._replace(day=_day_of(ended), cause=hold.cause, paid_by=paid_by)
        _add(rows, hold, key, figures)


def _add(rows: UsageRows, hold: Hold, about: UsageKey, figures: UsageFigures) -> None:
    for flavor, resource, amount in hold.amounts:
        key = about._replace(flavor=flavor, resource=resource)
        times = {name: getattr(figures, name) * amount for name in TIMES}
        rows.setdefault(key, UsageFigures()).add(UsageFigures(holds=figures.holds, **times))


def add_rows(rows: UsageRows, others: Mapping[UsageKey, UsageFigures]) -> None:
    """Add other rows to rows."""
    for key, figures in others.items():
        rows.setdefault(key, UsageFigures()).add(figures)


def subtract_rows(
    rows: Mapping[UsageKey, UsageFigures], others: Mapping[UsageKey, UsageFigures]
) -> UsageRows:
    """Return what rows have beyond others; no figure is less than zero."""
    left: UsageRows = {}
    for key, figures in rows.items():
        other = others.get(key, UsageFigures())
        beyond = UsageFigures()
        for name in UsageFigures.__slots__:
            setattr(beyond, name, max(0, getattr(figures, name) - getattr(other, name)))
        if beyond != UsageFigures():
            left[key] = beyond
    return left


def read_rows(rows: Iterable[UsageReportRow]) -> UsageRows:
    """Return the rows of a report."""
    return {
        UsageKey(
            row.day,
            row.local_queue,
            row.cluster_queue,
            row.owner,
            row.worker,
            row.flavor,
            row.resource,
            row.cause,
            row.paid_by,
        ): UsageFigures(row.holds, *(getattr(row, f"{name}_seconds") for name in TIMES))
        for row in rows
    }


def write_rows(rows: UsageRows) -> tuple[UsageReportRow, ...]:
    """Return the rows in the form of a report, in their order; seconds are rounded."""
    return tuple(
        UsageReportRow(
            **key._asdict(),
            holds=figures.holds,
            **{f"{name}_seconds": round(getattr(figures, name)) for name in TIMES},
        )
        for key, figures in sorted(rows.items())
    )


def _read_amounts(workload: Workload) -> tuple[tuple[str, str, float], ...]:
    """Return what a Workload holds: its devices; without any its cores."""
    admission = workload.status.admission
    assert admission is not None
    amounts: dict[tuple[str, str], float] = {}
    for pod_set in admission.pod_set_assignments:
        for resource, quantity in pod_set.resource_usage.items():
            if is_accelerator(resource) or resource == CPU:
                amount = parse_request(resource, quantity) / (MILLI if resource == CPU else 1)
                key = pod_set.flavors.get(resource, ""), resource
                amounts[key] = amounts.get(key, 0.0) + amount
    devices = [(*key, amount) for key, amount in amounts.items() if key[1] != CPU]
    return tuple(devices or [(*key, amount) for key, amount in amounts.items()])


def _split_days(begin: datetime, end: datetime) -> Iterable[tuple[str, datetime, datetime]]:
    while begin < end:
        midnight = datetime(begin.year, begin.month, begin.day, tzinfo=UTC) + DAY
        yield _day_of(begin), begin, min(end, midnight)
        begin = midnight


def _day_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


def _since(workload: Workload, type_: WorkloadCondition) -> datetime | None:
    condition = find(workload.status, type_)
    if condition is None or condition.status != "True":
        return None
    return read_time(condition.last_transition_time)
