"""Rows of queue listings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiqueue.api import names
from multiqueue.cli.views.inactive import explain_local_queue
from multiqueue.cli.views.workloads import WorkloadView, view_workload
from multiqueue.multikueue.phase import ENDED, State

if TYPE_CHECKING:
    from multiqueue.cli.mirror import Mirror

_WAITING = frozenset({State.QUEUED, State.EVICTED, State.MOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One Workload of a queue; ``position`` counts from 1, None for those that do not wait."""

    view: WorkloadView
    position: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
        return {"position": self.position, **self.view.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """One LocalQueue in numbers; ``gpus`` are those of Workloads that hold quota."""

    namespace: str
    name: str
    cluster_queue: str
    pending: int
    reserving: int
    gpus: int
    is_active: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
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
    mirror: Mirror, *, cluster_queue: str = "", local_queue: str = "", ended: bool = False
) -> list[QueueRow]:
    """Return the Workloads of a queue: those that hold quota by age, then the waiting in order."""
    rows = []
    for key, workload in mirror.workloads.items():
        own = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
        if local_queue and own != local_queue:
            continue
        if cluster_queue and mirror.cluster_queue_of(workload) != cluster_queue:
            continue
        view = view_workload(workload, mirror.job_of(workload))
        if view.state in ENDED and not ended:
            continue
        place = mirror.place_of(key)
        position = None
        if place is not None:
            position = (
                place.position_in_local_queue if local_queue else place.position_in_cluster_queue
            )
        rows.append(QueueRow(view=view, position=None if position is None else position + 1))
    return sorted(rows, key=_row_order)


def summarize(mirror: Mirror, namespace: str | None) -> list[QueueSummary]:
    """Return all LocalQueues of a namespace, or of all; those too that are only asked for."""
    views: dict[str, list[WorkloadView]] = {key: [] for key in mirror.local_queues}
    for workload in mirror.workloads.values():
        view = view_workload(workload, mirror.job_of(workload))
        if view.state not in ENDED:
            key = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
            views.setdefault(key, []).append(view)
    return [
        _summarize(mirror, key, views[key])
        for key in sorted(views)
        if namespace in {None, names.split_key(key)[0]}
    ]


def _summarize(mirror: Mirror, key: str, views: list[WorkloadView]) -> QueueSummary:
    namespace, name = names.split_key(key)
    queue = mirror.local_queues.get(key)
    state = mirror.engine.local_queue_state(names.LocalQueueKey(key))
    is_active = state is not None and state.active
    why = explain_local_queue(mirror, key)
    return QueueSummary(
        namespace=namespace,
        name=name,
        cluster_queue=queue.spec.cluster_queue if queue else "",
        # Not the engine's number: it does not count where there is no ClusterQueue to wait in.
        pending=sum(view.state in _WAITING for view in views),
        reserving=state.reserving if state else 0,
        gpus=sum(view.gpus for view in views if view.cluster_queue),
        is_active=is_active,
        why="" if is_active else why or (state.message if state else ""),
    )


def _row_order(row: QueueRow) -> tuple[int, int, str, str]:
    stage = 2 if row.view.state in ENDED else 1 if row.view.state in _WAITING else 0
    created = row.view.created.isoformat() if row.view.created else ""
    return (stage, row.position or 0, created, row.view.key)
