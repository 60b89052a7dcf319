"""What a dispatcher of a hundred busy workers is asked, one Workload after another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from multiqueue.plugins import (
    ClusterView,
    DispatchView,
    FlavorView,
    Forecast,
    PodSetView,
    Prospect,
    QueueView,
    QuotaView,
    ReservedFlavor,
    ResourceGroupView,
    Runtime,
    StartEstimate,
    WorkloadView,
)
from multiqueue.plugins.testing import T0, make_view, make_workload

GPU = "nvidia.com/gpu"
FLAVORS = ("a100", "h100")
EACH = {"cpu": 8000, "memory": 64 << 30, GPU: 1}
"""What goes with a GPU, on workers as in jobs."""
MOST, LENT = 256, 512
CHANGED = 5
"""Workers whose queues changed between two questions."""


def make_views(count: int, workers: int, *, seed: int = 0) -> Iterator[DispatchView]:
    """Yield views: all workers are new objects in each, and every forecast is another one."""
    draw, now = random.Random(seed), T0
    queues = [make_queue_view(number, draw.randrange(MOST)) for number in range(workers)]
    for index in range(count):
        now += timedelta(seconds=0.2)
        for number in draw.sample(range(workers), CHANGED):
            queues[number] = make_queue_view(number, draw.randrange(MOST))
        workload = make_asking(f"job-{index}", draw)
        clusters = [make_worker(number, queues[number], draw, now) for number in range(workers)]
        view = make_view(clusters=clusters, workload=workload, now=now)
        yield replace(view, usual_speeds={"a100": 900, "h100": 1600})


def make_asking(name: str, draw: random.Random) -> WorkloadView:
    """A gang of equal pods that the manager reserved A100s for."""
    reserved = ReservedFlavor(name="a100", node_labels={"accelerator": "a100"})
    gpus, hour = draw.choice((1, 2, 4, 8)), timedelta(hours=1)
    pods = PodSetView(
        count=draw.choice((1, 2, 4)),
        requests={resource: each * gpus for resource, each in EACH.items()},
        reserved=dict.fromkeys(EACH, reserved),
    )
    return replace(
        make_workload(name),
        pod_sets=(pods,),
        runtime=Runtime(expected=hour, low=hour / 6, high=hour * 4),
    )


def make_queue_view(number: int, used: int) -> QueueView:
    quotas = {
        resource: QuotaView(
            nominal=MOST * each,
            used=used * each,
            available=(MOST - used) * each,
            most=LENT * each,
        )
        for resource, each in EACH.items()
    }
    return QueueView(
        name="gpus",
        groups=(ResourceGroupView(resources=tuple(EACH), flavors=FLAVORS),),
        flavors={
            name: FlavorView(name=name, node_labels={"accelerator": name, "zone": f"z{number % 3}"})
            for name in FLAVORS
        },
        quotas={(flavor, name): quota for flavor in FLAVORS for name, quota in quotas.items()},
        pending=number % 7,
        backlog={GPU: number},
    )


def make_worker(number: int, queue: QueueView, draw: random.Random, now: datetime) -> ClusterView:
    """A worker with a forecast of its own for this question; every other one is full."""
    waits = number % 2 == 1
    minute = timedelta(minutes=1)
    start = StartEstimate(
        at=now + draw.randrange(1, 120) * minute,
        earliest=now + minute,
        latest=now + 240 * minute,
        ahead=number % 5,
    )
    forecast = Forecast(
        prospect=Prospect.WAITS if waits else Prospect.FITS,
        reason=f"{number} of {MOST} {GPU} free in a100, 24 asked",
        taken={} if waits else {("a100", name): each * 8 for name, each in EACH.items()},
        left={} if waits else {("a100", name): each * number for name, each in EACH.items()},
        start=start,
    )
    return ClusterView(
        name=f"worker-{number:03}",
        labels={"region": f"r{number % 4}", "environment": "production"},
        kinds=frozenset({"Job.v1.batch", "JobSet.v1alpha2.jobset.x-k8s.io"}),
        queue=queue,
        running=number,
        waiting=number % 4,
        neighbours=number % 3,
        forecast=forecast,
        prices={"a100": 1800 + number, "h100": 4100 + number},
        data=frozenset({"dataset/x"} if number % 5 == 0 else ()),
    )
