"""A large fleet for the engine benchmarks: many ClusterQueues in cohorts, many shapes of gangs."""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.model.cluster_queue import LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload
from tests.engine_world import (
    NAMESPACE,
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
    with_changes,
)

COHORT_SIZE = 10
SHAPES = 16


def shape(index: int) -> PodSet:
    gpus = 2 ** (index % 4)
    return pod_set(count=1 + index // 8, cpu=4 * gpus, memory=f"{32 * gpus}Gi", gpu=gpus)


@dataclass
class Fleet:
    """An engine under load; ``spent`` is its CPU time in seconds, ``decided`` counts decisions."""

    queues: int
    engine: Engine = field(default_factory=Engine)
    now: datetime = T0
    spent: float = 0.0
    decided: int = 0
    admitted: int = 0
    workloads: dict[str, Workload] = field(default_factory=dict)
    running: deque[str] = field(default_factory=deque)
    made: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(7)
        self.engine.upsert_namespace(NAMESPACE, {})
        for flavor in ("a100", "h100"):
            self.engine.upsert_resource_flavor(
                ResourceFlavor(name=flavor, node_labels={"gpu": flavor})
            )
        for i in range(self.queues):
            flavors = [
                flavor_quotas(name, cpu=128, memory="1Ti", gpu=32) for name in ("a100", "h100")
            ]
            queue = make_queue(f"cq-{i}", group(*flavors), cohort=f"cohort-{i // COHORT_SIZE}")
            self.engine.upsert_cluster_queue(queue)
            self.engine.upsert_local_queue(
                LocalQueue(key=f"{NAMESPACE}/lq-{i}", cluster_queue=f"cq-{i}")
            )

    def submit(self, count: int) -> None:
        made = []
        for _ in range(count):
            i = self.made = self.made + 1
            made.append(
                make_workload(
                    f"wl-{i}",
                    queue=f"lq-{i % self.queues}",
                    at=T0 + seconds(i / 100),
                    priority=100 * (i % 3),
                    pod_sets=[shape(self.random.randrange(SHAPES))],
                )
            )
        self.workloads.update((workload.key, workload) for workload in made)
        begun = time.process_time()
        for workload in made:
            self.engine.upsert_workload(workload, self.now)
        self.spent += time.process_time() - begun

    def drain(self) -> None:
        """Run cycles until nothing more can be decided now, and write the admissions back."""
        plans: list[CyclePlan] = []
        begun = time.process_time()
        while True:
            plans.append(self.engine.run_cycle(self.now))
            if not plans[-1].exhausted:
                break
        self.spent += time.process_time() - begun
        echoes = []
        for plan in plans:
            self.decided += len(plan.decisions)
            for decision in plan.decisions:
                if isinstance(decision, Admit):
                    key = decision.workload
                    self.workloads[key] = reserved(self.workloads[key], decision.admission)
                    echoes.append(self.workloads[key])
                    self.running.append(key)
        self.admitted += len(echoes)
        begun = time.process_time()
        for workload in echoes:
            self.engine.upsert_workload(workload, self.now)
        self.spent += time.process_time() - begun

    def finish(self, count: int) -> None:
        done = [
            with_changes(self.workloads.pop(self.running.popleft()), finished=True)
            for _ in range(min(count, len(self.running)))
        ]
        begun = time.process_time()
        for workload in done:
            self.engine.upsert_workload(workload, self.now)
        self.spent += time.process_time() - begun

    def churn(self, *, rounds: int, finished: int) -> None:
        """Let jobs finish and others take their place, second by second."""
        for _ in range(rounds):
            self.finish(finished)
            self.submit(finished)
            self.now += seconds(1)
            self.drain()

    def reset(self) -> None:
        """Begin to measure anew, with everything so far out of the garbage collector's sight."""
        self.spent, self.decided, self.admitted = 0.0, 0, 0
        gc.collect()
        gc.freeze()

    @property
    def per_decision(self) -> float:
        """Seconds in the engine per decision, events included."""
        return self.spent / self.decided
