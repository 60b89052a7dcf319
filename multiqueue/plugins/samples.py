"""Sample views of every kind that a dispatcher meets; the contract tests use all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from multiqueue.plugins.builders import (
    GPU,
    T0,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_unknown_cluster,
    make_view,
    make_workload,
)
from multiqueue.plugins.forecast import (
    Basis,
    Forecast,
    Prospect,
    Runtime,
    StartEstimate,
    StoppedWorkload,
)
from multiqueue.plugins.view import (
    ClusterClaim,
    ClusterView,
    CopyState,
    DispatchView,
    QuotaView,
    ReservedFlavor,
    Round,
    WorkloadView,
)

HOUR = timedelta(hours=1)


def make_sample_views() -> Iterator[DispatchView]:
    """Yield views of every kind that a dispatcher meets."""
    a100 = make_cluster("a100", gpus=8, labels={"accelerator": "a100"})
    h100 = make_cluster("h100", gpus=4, labels={"accelerator": "h100"})
    full = make_cluster("full", gpus=8, used=8)
    stopped = replace(make_cluster("stopped"), queue=make_queue(active=False))
    queueless = replace(make_cluster("queueless"), queue=None)
    yield make_view()
    yield make_view(clusters=[a100])
    yield make_view(clusters=[a100, h100, full], gpus=4)
    yield make_view(clusters=[a100, h100], gpus=16)
    yield make_view(clusters=[full, make_lost_cluster("lost"), make_unknown_cluster("dark")])
    yield make_view(clusters=[stopped, queueless])
    yield make_view(clusters=[make_lost_cluster("lost")])
    yield make_view(
        workload=make_workload(gpus=2, node_selector={"accelerator": "h100"}),
        clusters=[a100, h100],
    )
    yield make_view(
        workload=make_workload(pods=8, alternatives={"h100": 4}), clusters=[full, a100, h100]
    )
    yield make_view(workload=WorkloadView(key="team-a/empty", created_at=T0), clusters=[a100, h100])
    yield make_view(
        clusters=[replace(full, copy=CopyState.PENDING), h100],
        nominated=["full"],
        history=[Round(at=T0 - timedelta(minutes=2), clusters=("full",))],
    )
    claim = ClusterClaim(key="team-b/gang", turn=T0, start=T0 + HOUR, spare=1)
    claimed = replace(full, claims=(replace(claim, key="a/b", priority=9, start=None),))
    view = make_view(clusters=[replace(a100, claims=(claim,)), claimed], gpus=2)
    yield replace(view, claim="full")
    yield make_view(clusters=[make_cluster("tainted", avoid="is tainted by a"), full], gpus=2)
    yield make_view(
        clusters=[make_lost_cluster("lost"), *(make_cluster(f"w{n}", used=8) for n in range(4))],
        nominated=["lost", "w2"],
        history=[Round(at=T0 - timedelta(minutes=7), clusters=("lost", "w2"))],
    )
    yield make_view(clusters=[make_cluster(f"w{n:03}", used=n % 9) for n in range(100)], gpus=3)
    yield from _make_unlike_views(a100, h100)
    yield from _make_foreseen_views()


def _make_unlike_views(a100: ClusterView, h100: ClusterView) -> Iterator[DispatchView]:
    """Yield views that differ in fields that only some dispatchers read."""
    priced = replace(a100, prices={"gpu": 1800}, data=frozenset({"dataset/x"}), running=3)
    dear = replace(h100, prices={"gpu": 4100}, neighbours=2, health=0.3)
    lent = QuotaView(nominal=2, used=2, available=6, most=8)
    queue = make_queue()
    borrower = replace(
        make_cluster("borrower"), queue=replace(queue, quotas={("gpu", GPU): lent}, checks=("c",))
    )
    for hour in (0, 7, 13, 23):
        for namespace in ("team-b", "research"):
            workload = replace(
                make_workload(gpus=2, priority=hour, labels={"app": "x"}),
                key=f"{namespace}/train-{hour}",
                data=frozenset({"dataset/x"}),
                speeds={"h100": 2000},
                annotations={"multiqueue.dev/deadline": "2026-01-02T00:00:00Z"},
            )
            yield make_view(
                workload=workload,
                clusters=[priced, dear, borrower],
                now=T0.replace(hour=hour) + timedelta(days=hour % 7),
            )
    yield make_view(
        workload=make_workload(gpus=4),
        clusters=[replace(a100, copy=CopyState.RESERVED), h100],
        nominated=["a100"],
        history=[Round(at=T0 - timedelta(seconds=5), clusters=("a100",))],
    )


def _make_foreseen_views() -> Iterator[DispatchView]:
    """Yield views with forecasts: every prospect, with and without start estimates."""
    pair = ("gpu", GPU)
    now = StartEstimate(at=T0, earliest=T0, latest=T0)
    later = StartEstimate(at=T0 + HOUR, earliest=T0 + HOUR / 2, latest=T0 + 9 * HOUR, ahead=3)
    stopped = (
        StoppedWorkload(key="team-b/x", queue="b", priority=-1, lost=2 * HOUR),
        StoppedWorkload(key=""),
    )
    fits = Forecast(
        prospect=Prospect.FITS, reason="fits", taken={pair: 2}, left={pair: 4}, start=now
    )
    forecasts = {
        "fits": fits,
        "lent": replace(fits, prospect=Prospect.BORROWS, borrowed={pair: 1}),
        "stops": replace(fits, prospect=Prospect.PREEMPTS, victims=stopped),
        "dark": Forecast(prospect=Prospect.UNKNOWN, reason="its Workloads cannot be read"),
        "waits": Forecast(prospect=Prospect.WAITS, reason="waits", start=later),
        "small": Forecast(prospect=Prospect.NEVER, reason="has at most 1", largest=1),
    }
    queue = replace(make_queue(), name="busy", pending=5, backlog={GPU: 12})
    clusters = [
        replace(
            make_cluster(name, cluster_labels={"zone": name[0]}, offered_at=T0 - HOUR),
            queue=queue,
            waiting=len(name),
            forecast=found,
        )
        for name, found in forecasts.items()
    ]
    shut = replace(make_cluster("shut"), cordoned=True, unusable="is cordoned")
    runtime = Runtime(expected=HOUR, low=HOUR / 4, high=6 * HOUR, basis=Basis.HISTORICAL)
    reserved = ReservedFlavor(name="a100", node_labels={"accelerator": "a100"})
    workload = replace(
        make_workload(gpus=2, reserved=reserved),
        kind="JobSet.v1alpha2.jobset.x-k8s.io",
        runtime=runtime,
        speeds={"gpu": 1500},
    )
    yield make_view(workload=workload, clusters=[*clusters, shut])
    yield make_view(workload=workload, clusters=clusters[2:])
    yield replace(
        make_view(
            workload=workload,
            clusters=clusters[4:],
            nominated=["waits"],
            history=[Round(at=T0 - HOUR, clusters=("stops",)), Round(at=T0, clusters=("waits",))],
        ),
        usual_speeds={"gpu": 1200},
    )
