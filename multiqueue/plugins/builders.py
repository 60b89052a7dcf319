"""Builders for views, for tests of dispatchers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from multiqueue.model.placement import Placement
from multiqueue.plugins.forecast import Forecast, Prospect, StartEstimate
from multiqueue.plugins.view import (
    ClusterView,
    CopyState,
    DispatchView,
    FlavorView,
    PodSetView,
    QueueView,
    QuotaView,
    ReservedFlavor,
    ResourceGroupView,
    Round,
    WorkloadView,
)

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The time in every view that is built here."""
GPU = "nvidia.com/gpu"
JOB_KIND = "Job.v1.batch"


def make_workload(
    name: str = "train",
    *,
    namespace: str = "team-a",
    gpus: int = 1,
    pods: int = 1,
    alternatives: Mapping[str, int] | None = None,
    node_selector: Mapping[str, str] | None = None,
    reserved: ReservedFlavor | None = None,
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> WorkloadView:
    """Return a Workload in queue ``gpus``, with ``gpus`` per pod.

    ``alternatives`` maps hardware to the fewer pods that are enough on it.
    """
    return WorkloadView(
        key=f"{namespace}/{name}",
        uid=f"uid-{name}",
        queue="gpus",
        priority=priority,
        created_at=T0 - timedelta(minutes=1),
        labels=labels or {},
        annotations=annotations or {},
        pod_sets=(
            PodSetView(
                count=pods,
                requests={GPU: gpus},
                placement=Placement(node_selector=tuple(sorted((node_selector or {}).items()))),
                reserved={GPU: reserved} if reserved else {},
                alternatives=alternatives or {},
            ),
        ),
    )


def make_queue(
    *,
    gpus: int = 8,
    used: int = 0,
    in_flight: int = 0,
    flavor: str = "gpu",
    labels: Mapping[str, str] | None = None,
    active: bool = True,
) -> QueueView:
    """Return a queue with one flavor of GPUs."""
    return QueueView(
        name="gpus",
        active=active,
        inactive_reason="" if active else "stopped",
        groups=(ResourceGroupView(resources=(GPU,), flavors=(flavor,)),),
        flavors={flavor: FlavorView(name=flavor, node_labels=labels or {})},
        quotas={
            (flavor, GPU): QuotaView(
                nominal=gpus,
                used=used,
                in_flight=in_flight,
                available=max(0, gpus - used),
                most=gpus,
            )
        },
    )


def make_cluster(
    name: str = "worker",
    *,
    gpus: int = 8,
    used: int = 0,
    flavor: str = "gpu",
    labels: Mapping[str, str] | None = None,
    cluster_labels: Mapping[str, str] | None = None,
    starts_in: timedelta | None = None,
    copy: CopyState = CopyState.ABSENT,
    offered_at: datetime | None = None,
    avoid: str = "",
) -> ClusterView:
    """Return a connected cluster with GPUs.

    Args:
        name: Name of the cluster.
        gpus: GPUs in its queue.
        used: How many of these GPUs are in use.
        flavor: Name of the only flavor of its queue.
        labels: Node labels of that flavor.
        cluster_labels: Labels of the cluster itself.
        starts_in: If set, the cluster has no room now and would start the Workload this long
            after `T0`.
        copy: State of the Workload's copy on the cluster.
        offered_at: Since when the Workload is offered to the cluster.
        avoid: Why other clusters come first.
    """
    return ClusterView(
        name=name,
        labels=cluster_labels or {},
        forecast=None if starts_in is None else _make_wait(T0 + starts_in),
        kinds=frozenset({JOB_KIND}),
        queue=make_queue(gpus=gpus, used=used, flavor=flavor, labels=labels),
        copy=copy,
        offered_at=offered_at,
        avoid=avoid,
    )


def _make_wait(at: datetime) -> Forecast:
    return Forecast(
        prospect=Prospect.WAITS,
        reason="has no room now",
        start=StartEstimate(at=at, earliest=at, latest=at),
    )


def make_unknown_cluster(name: str = "worker") -> ClusterView:
    """Return a connected cluster whose queues the manager may not read."""
    return ClusterView(name=name, kinds=frozenset({JOB_KIND}), queue_known=False)


def make_lost_cluster(name: str = "worker") -> ClusterView:
    """Return a cluster that does not answer."""
    return ClusterView(name=name, connected=False, unusable="is not connected", queue_known=False)


def make_view(
    *,
    clusters: Sequence[ClusterView] = (),
    workload: WorkloadView | None = None,
    gpus: int = 1,
    nominated: Sequence[str] = (),
    history: Sequence[Round] = (),
    arguments: Mapping[str, object] | None = None,
    now: datetime = T0,
) -> DispatchView:
    """Return a view of the given Workload, or of one with ``gpus`` GPUs."""
    return DispatchView(
        workload=workload or make_workload(gpus=gpus),
        clusters=tuple(clusters),
        nominated=tuple(nominated),
        history=tuple(history),
        arguments=arguments or {},
        now=now,
    )
