"""Four in five start within what was said, by a real engine that knows nothing of it."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit
from multiqueue.forecast.replica import Replica
from multiqueue.model.cluster_queue import ClusterQueue, LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Runtime, StartEstimate
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
)

HISTORIES = 50
WIDTH = 1.0
"""Standard deviation of the logarithm: one in ten takes 3.6 times as long as the median."""
SIZES = (1, 1, 2, 2, 4, 8)


@dataclass
class Job:
    workload: Workload
    seconds: float
    runtime: Runtime


class Cluster:
    """One queue of 32 GPUs that never idles: a real engine, and a replica that watches it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = T0
        self.engine, self.replica = Engine(), Replica()
        self.jobs: dict[str, Job] = {}
        self.started: dict[str, datetime] = {}
        self.ends: list[tuple[datetime, str]] = []
        queue = make_queue("cq", flavor_quotas("a100", gpu=32))
        self.engine.upsert_namespace(NAMESPACE, {})
        self.engine.upsert_resource_flavor(ResourceFlavor(name="a100"))
        self.replica.upsert_flavor(ResourceFlavor(name="a100"))
        self.open(queue)

    def open(self, queue: ClusterQueue) -> None:
        local_queue = LocalQueue(key=f"{NAMESPACE}/cq", cluster_queue="cq")
        for side in (self.engine, self.replica):
            side.upsert_cluster_queue(queue)
            side.upsert_local_queue(local_queue)

    def submit(self, name: str, gpus: int) -> None:
        median = math.exp(self.random.uniform(math.log(300), math.log(7200)))
        seconds = median * math.exp(self.random.gauss(0, WIDTH))
        tenth = math.exp(1.2816 * WIDTH)
        runtime = Runtime(
            expected=timedelta(seconds=median),
            low=timedelta(seconds=median / tenth),
            high=timedelta(seconds=median * tenth),
        )
        pods = [pod_set(count=gpus, gpu=1)]
        workload = make_workload(name, queue="cq", at=self.now, pod_sets=pods)
        self.jobs[workload.key] = Job(workload, seconds, runtime)
        self.engine.upsert_workload(workload, self.now)
        self.replica.upsert_workload(workload, self.now, runtime=runtime)
        self.decide()

    def decide(self) -> None:
        while (at := self.engine.next_cycle_at(self.now)) is not None:
            if at > self.now + timedelta(seconds=2):
                return
            self.now = max(self.now, at)
            for decision in self.engine.run_cycle(self.now).decisions:
                if isinstance(decision, Admit):
                    self.start(decision)

    def start(self, decision: Admit) -> None:
        job = self.jobs[decision.workload]
        workload = reserved(job.workload, decision.admission, at=self.now)
        self.engine.upsert_workload(workload, self.now)
        self.replica.upsert_workload(workload, self.now)
        self.started[decision.workload] = self.now
        end = self.now + timedelta(seconds=job.seconds)
        heapq.heappush(self.ends, (end, decision.workload))

    def run_until(self, at: datetime) -> None:
        while self.ends and self.ends[0][0] <= at:
            self.end_next()
        self.now = at

    def end_next(self) -> None:
        end, key = heapq.heappop(self.ends)
        self.now = max(self.now, end)
        self.engine.delete_workload(key, self.now)
        self.replica.delete_workload(key, self.now)
        self.decide()

    def ask_and_see(self, gpus: int) -> tuple[StartEstimate, datetime] | None:
        """Return what was said about a gang, and when it then started; None where it fits."""
        asked = make_workload(
            "asked", queue="cq", at=self.now, pod_sets=[pod_set(count=gpus, gpu=1)]
        )
        found = self.replica.forecast(asked, self.now)
        assert found is not None
        if found.start is None or found.start.at <= self.now:
            return None
        self.submit("asked", gpus)
        while asked.key not in self.started:
            self.end_next()
        return found.start, self.started[asked.key]


def play(seed: int) -> tuple[StartEstimate, datetime] | None:
    cluster = Cluster(seed)
    for index in range(50):
        cluster.submit(f"job-{index}", cluster.random.choice(SIZES))
        cluster.run_until(cluster.now + timedelta(seconds=cluster.random.expovariate(1 / 200)))
    return cluster.ask_and_see(cluster.random.choice(SIZES))


def test_four_in_five_start_within_the_interval() -> None:
    seen = [found for seed in range(HISTORIES) if (found := play(seed)) is not None]
    assert len(seen) > HISTORIES / 2
    inside = sum(said.earliest <= true <= said.latest for said, true in seen) / len(seen)
    before = sum(true < said.at for said, true in seen) / len(seen)

    assert 0.7 <= inside <= 0.9
    assert 0.4 <= before <= 0.6
