"""Rows of queue listings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiqueue.api import names
from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.cli.views.inactive import explain_local_queue
from multiqueue.cli.visibility import QueuePosition
from multiqueue.views.phase import ENDED, PhaseState
from multiqueue.views.workloads import WorkloadRow, view_workload

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects

NOTHING: Mapping[str, Any] = {}
_WAITING = frozenset({PhaseState.QUEUED, PhaseState.EVICTED, PhaseState.MOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One Workload of a queue.

    Attributes:
        position: From 1; None if it does not wait.
        why: What prevents the next stage, as the manager tells it; else from the condition.
        start: When it is expected to start, as the manager tells it; None if it does not.
    """

    view: WorkloadRow
    position: int | None
    why: str
    start: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the row for ``-o json``."""
        why = self.why or None
        return {"position": self.position, **self.view.to_dict(), "why": why, "start": self.start}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """One LocalQueue in numbers; ``gpus`` are those of Workloads that hold quota.

    ``is_active`` and ``why`` come from the conditions that the manager wrote.
    """

    namespace: str
    name: str
    cluster_queue: str
    pending: int
    reserving: int
    gpus: int
    is_active: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for ``-o json``."""
        return {
            "namespace": self.namespace,
            "localQueue": self.name,
            "clusterQueue": self.cluster_queue,
            "pending": self.pending,
            "running": self.reserving,
            "gpus": self.gpus,
            "active": self.is_active,
            "why": self.why or None,
        }


def list_rows(
    objects: QueueObjects,
    places: Mapping[str, QueuePosition],
    *,
    cluster_queue: str = "",
    local_queue: str = "",
    ended: bool = False,
    standings: Mapping[str, Mapping[str, Any]] = NOTHING,
) -> list[QueueRow]:
    """Return a queue's Workloads: those that hold quota by age, then waiting ones in order.

    Args:
        objects: The cluster's objects.
        places: The positions of waiting Workloads, from the manager.
        cluster_queue: Only Workloads of this ClusterQueue.
        local_queue: Only Workloads in this LocalQueue, with their positions in it.
        ended: Whether to include those that have ended.
        standings: What the manager says of each Workload; empty if it does not.
    """
    rows = []
    for key, workload in objects.workloads.items():
        own = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
        if local_queue and own != local_queue:
            continue
        if cluster_queue and objects.cluster_queue_of(workload) != cluster_queue:
            continue
        view = view_workload(workload, objects.job_of(workload))
        if view.state in ENDED and not ended:
            continue
        place = places.get(key)
        position = None
        if place is not None:
            position = place.in_local_queue if local_queue else place.in_cluster_queue
        told = standings.get(key, NOTHING)
        if told.get("phase") != view.state:  # it was read at another moment
            told = NOTHING
        why = view.why
        if view.state is PhaseState.QUEUED and told.get("code"):
            why = f"{told['code']}: {told['why']}"
        rows.append(QueueRow(view=view, position=position, why=why, start=told.get("start")))
    return sorted(rows, key=_row_order)


def summarize(objects: QueueObjects, namespace: str | None) -> list[QueueSummary]:
    """Return all LocalQueues of a namespace, or of all; also missing ones that jobs name."""
    members: dict[str, list[Workload]] = {key: [] for key in objects.local_queues}
    for workload in objects.workloads.values():
        if not is_finished(workload.status):
            key = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
            members.setdefault(key, []).append(workload)
    return [
        _summarize(objects, key, members[key])
        for key in sorted(members)
        if namespace in {None, names.split_key(key)[0]}
    ]


def _summarize(objects: QueueObjects, key: str, members: list[Workload]) -> QueueSummary:
    namespace, name = names.split_key(key)
    queue = objects.local_queues.get(key)
    active = find_condition(queue.status.conditions, ACTIVE) if queue else None
    why = explain_local_queue(objects, key)
    if queue is not None and not why and active is None:
        why = "no manager has looked at it yet"
    elif active is not None and active.status != "True":
        why = why or active.message
    views = [view_workload(workload, objects.job_of(workload)) for workload in members]
    return QueueSummary(
        namespace=namespace,
        name=name,
        cluster_queue=queue.spec.cluster_queue if queue else "",
        pending=sum(view.state in _WAITING for view in views),
        reserving=sum(has_quota(workload.status) for workload in members),
        gpus=sum(view.gpus for view in views if view.cluster_queue),
        is_active=active is not None and active.status == "True" and not why,
        why=why,
    )


def _row_order(row: QueueRow) -> tuple[int, int, str, str]:
    stage = 2 if row.view.state in ENDED else 1 if row.view.state in _WAITING else 0
    created = row.view.created.isoformat() if row.view.created else ""
    return (stage, row.position or 0, created, row.view.key)
