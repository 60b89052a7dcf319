"""The Workloads that a Workload waits for, and the one that preempted it, by name. Pure.

The conditions name other Workloads only by uid, as upstream's do; this module finds their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multiqueue.api import workload_state
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Condition, Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.ages import format_age
from multiqueue.views.workloads import view_workload

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects

_PREEMPTOR = re.compile(
    r"workload \(UID: (?P<uid>[^,)]+), JobUID: [^)]*\) due to (?P<why>[^;]+)"
    r"(?:; preemptor path: (?P<path>[^;\s]+))?"
)
"""The form of Preempted's message."""
_UNREADY = frozenset({Reason.WAITING_FOR_PODS_READY, Reason.WAITING})
_FOR_OTHERS = _UNREADY | {Reason.WAITING_FOR_PREEMPTED_WORKLOADS, Reason.PENDING}
"""Reasons of Workloads that may wait for others; older tools know only ``Pending``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalRow:
    """Another Workload that this one waits for.

    Attributes:
        cluster_queue: The ClusterQueue whose quota it holds, or held.
        since: When it began to leave, or got its quota; as on the wire.
        state: What must happen with it.
    """

    workload: str
    job: str
    cluster_queue: str
    priority: int
    since: str
    state: str


def waits_for_others(workload: Workload, reason: str) -> bool:
    """Whether other Workloads must be read to explain one.

    Args:
        workload: The Workload to explain.
        reason: Why it waits, if the manager says so.
    """
    if _preempted(workload) is not None:
        return True
    reserved = workload_state.find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    written = reserved.reason if reserved is not None and reserved.status != "True" else ""
    return not _FOR_OTHERS.isdisjoint({reason, written})


def list_rivals(objects: QueueObjects, workload: Workload) -> tuple[RivalRow, ...]:
    """Return the Workloads that this one preempted, or whose pods it waits for."""
    if workload_state.has_quota(workload.status) or workload_state.is_finished(workload.status):
        return ()
    reserved = workload_state.find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    if reserved is not None and reserved.reason in _UNREADY:
        return tuple(_unready(objects))
    return tuple(_victims(objects, workload.metadata.uid))


def explain_preemption(objects: QueueObjects, workload: Workload) -> str:
    """Return which Workload preempted it, when, and what follows; empty if none did."""
    preempted = _preempted(workload)
    if preempted is None:
        return ""
    found = _PREEMPTOR.search(preempted.message)
    if found is None:
        return preempted.message
    age = format_age(parse_time(preempted.last_transition_time), objects.now)
    other = _name(objects, found["uid"], found["path"] or "")
    told = f"preempted {age} ago for {other}, because of {found['why']}"
    if workload_state.has_quota(workload.status):
        return f"{told}; it queues again, at its old place, when its pods have ended"
    return f"{told}; it queues again, at its old place"


def _victims(objects: QueueObjects, uid: str) -> Iterable[RivalRow]:
    for other in _sorted(objects):
        preempted = _preempted(other)
        found = _PREEMPTOR.search(preempted.message) if preempted is not None else None
        if preempted is None or found is None or found["uid"] != uid:
            continue
        holds = workload_state.has_quota(other.status)
        state = "preempted, its pods still stop" if holds else "preempted, has left"
        yield _row(objects, other, since=preempted.last_transition_time, state=state)


def _unready(objects: QueueObjects) -> Iterable[RivalRow]:
    for other in _sorted(objects):
        status = other.status
        reserved = workload_state.find(status, WorkloadCondition.QUOTA_RESERVED)
        ready = workload_state.find(status, WorkloadCondition.PODS_READY)
        is_ready = ready is not None and ready.status == "True"
        if reserved is None or reserved.status != "True" or is_ready or status.cluster_name:
            continue
        if workload_state.is_admitted(status):
            state = f"pods not ready: {ready.message}" if ready is not None else "pods not ready"
        else:
            state = f"not admitted yet: {view_workload(other).why}".removesuffix(": ")
        yield _row(objects, other, since=reserved.last_transition_time, state=state)


def _row(objects: QueueObjects, other: Workload, *, since: str, state: str) -> RivalRow:
    view = view_workload(other)
    return RivalRow(
        workload=view.key,
        job=view.job,
        cluster_queue=objects.cluster_queue_of(other),
        priority=view.priority,
        since=since,
        state=state,
    )


def _sorted(objects: QueueObjects) -> list[Workload]:
    """Return all unfinished Workloads, by key."""
    return [
        objects.workloads[key]
        for key in sorted(objects.workloads)
        if not workload_state.is_finished(objects.workloads[key].status)
    ]


def _preempted(workload: Workload) -> Condition | None:
    condition = workload_state.find(workload.status, WorkloadCondition.PREEMPTED)
    return condition if condition is not None and condition.status == "True" else None


def _name(objects: QueueObjects, uid: str, path: str) -> str:
    of = f"of ClusterQueue {path.rpartition('/')[2]}" if path else "of an unknown ClusterQueue"
    for other in objects.workloads.values():
        if other.metadata.uid == uid:
            view = view_workload(other)
            return f"{view.key} ({view.job}, priority {view.priority}) {of}"
    return f"a workload {of} that is gone or hidden from you (UID {uid})"
