"""What a job costs the API server from its creation to its end: the table in docs/writes.md.

Requests about the job, its pods and its Workload count. Events have a budget of their own
(tests/bench/test_writes_bench.py).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import complete
from tests.least_privilege import Call, recorded_calls
from tests.pod_objects import PODS_ENABLED, gated, make_pod
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

TABLE = Path(__file__).parents[2] / "docs" / "writes.md"
SIZE = 8
WRITES = frozenset({"create", "update", "patch", "delete"})
OBJECTS = ("jobs", "pods", "workloads")
QUIET_SECONDS = 30.0


class Life(ABC):
    """The life of one job in a queue of its size."""

    def __init__(self, cluster: QueueCluster, calls: list[Call]) -> None:
        self.cluster, self._calls, self._seen = cluster, calls, 0

    @abstractmethod
    async def submit(self) -> None:
        """Create the job, or create it anew after its pods were deleted."""

    @abstractmethod
    def has_started(self) -> bool: ...

    @abstractmethod
    async def end(self) -> None:
        """Let the job succeed."""

    def workload(self) -> Workload | None:
        found = self.cluster.informers.workloads.store.list()
        return next((each for each in found if each.metadata.name != RIVAL), None)

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        await self.cluster.changes.until(condition, what, seconds=3600.0)

    async def until_started(self) -> None:
        await self.until(self.has_started, "a started job")
        await self.rest()

    async def rest(self) -> None:
        """Wait until nothing more is written."""
        await asyncio.sleep(QUIET_SECONDS)

    def spent(self) -> str:
        """Return the writes since the last question, such as ``1 create workloads``."""
        new, self._seen = self._calls[self._seen :], len(self._calls)
        counts = Counter(
            f"{wanted.verb} {wanted.combined}"
            for _, wanted in new
            if wanted.verb in WRITES and wanted.resource in OBJECTS and wanted.name != RIVAL
        )
        return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


class BatchJobLife(Life):
    async def submit(self) -> None:
        if self.cluster.job("job") is None:
            await self.cluster.create(resources.JOBS, make_job(cpu=str(SIZE)))

    def has_started(self) -> bool:
        job = self.cluster.job("job")
        return job is not None and not job["spec"]["suspend"]

    async def end(self) -> None:
        await complete(self.cluster, "job")


class PodGroupLife(Life):
    generation = 0

    def _names(self) -> list[str]:
        return [f"p{self.generation}-{number}" for number in range(SIZE)]

    async def submit(self) -> None:
        self.generation += 1
        for name in self._names():
            await self.cluster.create(resources.PODS, gated(make_pod(name, group="g", total=SIZE)))

    def has_started(self) -> bool:
        pods = self.cluster.informers.jobs["pod"].store
        mine = [pods.get(f"{NAMESPACE}/{name}") for name in self._names()]
        return all(pod is not None and not pod["spec"].get("schedulingGates") for pod in mine)

    async def end(self) -> None:
        for name in self._names():
            status = {"status": {"phase": "Succeeded"}}
            await self.cluster.patch(
                resources.PODS, name, status, namespace=NAMESPACE, subresource="status"
            )


LIVES: dict[str, type[Life]] = {"Job": BatchJobLife, "group of 8 pods": PodGroupLife}
RIVAL = "rival"


async def create_rival(cluster: QueueCluster) -> None:
    """Create a Workload that takes the whole queue from the job."""
    pod_set = {"name": "main", "count": 1, "template": make_template(cpu=str(SIZE))}
    await cluster.create(
        resources.WORKLOADS,
        {
            "apiVersion": names.V1BETA2,
            "kind": "Workload",
            "metadata": {"name": RIVAL, "namespace": NAMESPACE},
            "spec": {"queueName": "lq", "podSets": [pod_set], "priority": 10},
        },
    )


async def delete_rival(cluster: QueueCluster) -> None:
    await cluster.client.delete(resources.WORKLOADS, RIVAL, namespace=NAMESPACE)


async def admitted_at_once(life: Life) -> None:
    await life.submit()
    await life.until_started()


async def waited(life: Life) -> None:
    await create_rival(life.cluster)
    await life.rest()
    await life.submit()
    await life.rest()
    await delete_rival(life.cluster)
    await life.until_started()


async def preempted(life: Life) -> None:
    await admitted_at_once(life)
    life.spent()
    await create_rival(life.cluster)
    await life.until(lambda: (w := life.workload()) and not has_quota(w.status), "preemption")
    await life.rest()
    await life.submit()
    await life.rest()
    await delete_rival(life.cluster)
    await life.until_started()


async def finished(life: Life) -> None:
    await admitted_at_once(life)
    life.spent()
    await life.end()
    await life.until(lambda: (w := life.workload()) and is_finished(w.status), "the end")
    await life.rest()


STAGES = {
    "admitted at once": admitted_at_once,
    "waited, then admitted": waited,
    "preempted, then admitted again": preempted,
    "finished": finished,
}


@asynccontextmanager
async def a_life(kind: str) -> AsyncIterator[Life]:
    with recorded_calls() as calls:
        async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
            await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
            preemption = {"withinClusterQueue": "LowerPriority"}
            queue = make_cluster_queue(cpu=str(SIZE), preemption=preemption)
            await cluster.create(resources.CLUSTER_QUEUES, queue)
            await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
            yield LIVES[kind](cluster, calls)


def read_table() -> dict[tuple[str, str], str]:
    """Return the writes that the documentation states, by kind and stage."""
    _, _, section = TABLE.read_text().partition("## Writes per stage of a job")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ")
    ]
    (_, *kinds), *stages = rows
    return {
        (kind, stage): writes
        for stage, *cells in stages
        for kind, writes in zip(kinds, cells, strict=True)
    }


def test_the_table_has_all_stages_of_all_kinds() -> None:
    assert set(read_table()) == {(kind, stage) for kind in LIVES for stage in STAGES}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", LIVES)
def test_a_stage_costs_what_the_table_says(kind: str, stage: str) -> None:
    got: list[str] = []

    @virtual_time
    async def live() -> None:
        async with a_life(kind) as life:
            await STAGES[stage](life)
            got.append(life.spent())

    live()
    assert got == [read_table()[kind, stage]]
