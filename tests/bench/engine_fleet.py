"""A large fleet for the engine benchmarks: many ClusterQueues in cohorts, many shapes of gangs."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.model.cluster_queue import ClusterQueue, LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload
from tests.builders.engine import (
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
    """An engine under load.

    Shape: ``spent`` is its CPU time in seconds, ``decided`` counts decisions, ``running`` are the
    admitted workloads in the order of their admission.
    """

    queues: int
    options: EngineOptions = field(default_factory=EngineOptions)
    now: datetime = T0
    spent: float = 0.0
    decided: int = 0
    admitted: int = 0
    workloads: dict[str, Workload] = field(default_factory=dict)
    running: dict[str, None] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(7)
        self.engine = Engine(self.options)
        self.engine.upsert_namespace(NAMESPACE, {})
        for flavor in ("a100", "h100"):
            self.engine.upsert_resource_flavor(
                ResourceFlavor(name=flavor, node_labels={"gpu": flavor})
            )
        for i in range(self.queues):
            self.engine.upsert_cluster_queue(self.queue_spec(i))
            self.engine.upsert_local_queue(
                LocalQueue(key=f"{NAMESPACE}/lq-{i}", cluster_queue=f"cq-{i}")
            )

    def queue_spec(self, index: int) -> ClusterQueue:
        flavors = [flavor_quotas(name, cpu=128, memory="1Ti", gpu=32) for name in ("a100", "h100")]
        return make_queue(f"cq-{index}", group(*flavors), cohort=f"cohort-{index // COHORT_SIZE}")

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
        self.tell(made)

    def drain(self) -> None:
        """Run cycles until nothing more can be decided now, and write the admissions back."""
        self.tell(self.admissions_in(self.run_cycles()))

    def run_cycles(self) -> list[CyclePlan]:
        plans: list[CyclePlan] = []
        begun = time.process_time()
        while True:
            plans.append(self.engine.run_cycle(self.now))
            if not plans[-1].exhausted:
                break
        self.spent += time.process_time() - begun
        self.decided += sum(len(plan.decisions) for plan in plans)
        return plans

    def admissions_in(self, plans: Iterable[CyclePlan]) -> list[Workload]:
        """Return the admitted workloads as they come back after the status was written."""
        echoes = []
        for plan in plans:
            for decision in plan.decisions:
                if isinstance(decision, Admit):
                    key = decision.workload
                    self.workloads[key] = reserved(
                        self.workloads[key], decision.admission, at=self.now
                    )
                    echoes.append(self.workloads[key])
                    self.running[key] = None
        self.admitted += len(echoes)
        return echoes

    def tell(self, workloads: Iterable[Workload]) -> None:
        begun = time.process_time()
        for workload in workloads:
            self.engine.upsert_workload(workload, self.now)
        self.spent += time.process_time() - begun

    def finish(self, count: int) -> None:
        oldest = list(itertools.islice(self.running, count))
        done = []
        for key in oldest:
            del self.running[key]
            done.append(with_changes(self.workloads.pop(key), finished=True))
        self.tell(done)

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
