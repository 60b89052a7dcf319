"""What a job costs the API server from its creation to its end: the table in docs/writes.md.

Requests about the job, its pods and its Workload count, and Events about them.
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
from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.kube import resources
from tests.builders.jobs import make_gpu_job, make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import complete
from tests.least_privilege import MANAGER, REMOTE, Call, recorded_calls
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.pod_objects import PODS_ENABLED, gated, make_pod
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

TABLE = Path(__file__).parents[2] / "docs" / "writes.md"
SIZE = 8
WRITES = frozenset({"create", "update", "patch", "delete"})
OBJECTS = ("jobs", "pods", "workloads")
KINDS = ("Job", "Pod", "Workload")
QUIET_SECONDS = 30.0


class Writes:
    """What the program wrote about jobs, told in pieces."""

    def __init__(self, cluster: QueueCluster, calls: list[Call]) -> None:
        self._cluster, self._calls, self._events = cluster, calls, 0

    async def new(self, *users: ApiUser) -> str:
        """Return what these users wrote since the last question, and forget all others."""
        names_of = {user.name for user in users}
        counts = Counter(
            f"{wanted.verb} {wanted.combined}"
            for user, wanted in self._calls
            if user.name in names_of
            if wanted.verb in WRITES and wanted.resource in OBJECTS and wanted.name != RIVAL
        )
        self._calls.clear()
        if MANAGER in users:
            counts["create events"] = -self._events
            self._events = await self._count_events()
            counts["create events"] += self._events
        return ", ".join(f"{n} {what}" for what, n in sorted(counts.items()) if n) or "none"

    async def _count_events(self) -> int:
        found = (await self._cluster.client.list(resources.EVENTS)).items
        about = (event["involvedObject"] for event in found)
        return sum(1 for each in about if each["kind"] in KINDS and each["name"] != RIVAL)


class Life(ABC):
    """The life of one job in a queue of its size."""

    def __init__(self, cluster: QueueCluster, calls: list[Call]) -> None:
        self.cluster, self._writes = cluster, Writes(cluster, calls)

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

    async def spent(self) -> str:
        """Return the writes since the last question, such as ``1 create workloads``."""
        return await self._writes.new(MANAGER)


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
OWN = "Writes per stage of a job, and of a group of pods"
DISPATCH = "Writes per stage of a job that is dispatched"
"""Headings of the documentation."""
CLUSTERS = ("manager's cluster", "both workers")


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
    await life.spent()
    await create_rival(life.cluster)
    await life.until(lambda: (w := life.workload()) and not has_quota(w.status), "preemption")
    await life.rest()
    await life.submit()
    await life.rest()
    await delete_rival(life.cluster)
    await life.until_started()


async def finished(life: Life) -> None:
    await admitted_at_once(life)
    await life.spent()
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


async def dispatched(world: MultiKueueWorld, _: Writes) -> None:
    await world.hub.create(resources.JOBS, make_gpu_job())
    await world.admit("worker1")
    await world.until_ready()
    await world.run_job("worker1")
    await asyncio.sleep(QUIET_SECONDS)


async def moved(world: MultiKueueWorld, writes: Writes) -> None:
    await dispatched(world, writes)
    await writes.new(MANAGER, REMOTE)
    await world.evict("worker1")
    await world.until(lambda: world.check()[0] != CheckState.READY, "taken back")
    await world.admit("worker2")
    assert await world.until_ready() == "worker2"
    await world.run_job("worker2")
    await asyncio.sleep(QUIET_SECONDS)


async def ended_on_a_worker(world: MultiKueueWorld, writes: Writes) -> None:
    await dispatched(world, writes)
    await writes.new(MANAGER, REMOTE)
    await world.finish_job("worker1")
    await world.finish_copy("worker1")
    await world.until(lambda: (w := world.workload()) and is_finished(w.status), "the end")
    await asyncio.sleep(QUIET_SECONDS)


DISPATCH_STAGES = {
    "dispatched": dispatched,
    "moved to another worker": moved,
    "finished": ended_on_a_worker,
}


def read_table(heading: str) -> dict[tuple[str, str], str]:
    """Return the writes that a section of the documentation states, by column and stage."""
    _, _, section = TABLE.read_text().partition(f"## {heading}")
    section, _, _ = section.partition("\n## ")
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


def test_the_tables_have_all_stages() -> None:
    assert set(read_table(OWN)) == {(kind, stage) for kind in LIVES for stage in STAGES}
    assert set(read_table(DISPATCH)) == {
        (where, stage) for where in CLUSTERS for stage in DISPATCH_STAGES
    }


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", LIVES)
def test_a_stage_costs_what_the_table_says(kind: str, stage: str) -> None:
    got: list[str] = []

    @virtual_time
    async def live() -> None:
        async with a_life(kind) as life:
            await STAGES[stage](life)
            got.append(await life.spent())

    live()
    assert got == [read_table(OWN)[kind, stage]]


@pytest.mark.parametrize("stage", DISPATCH_STAGES)
def test_a_stage_of_a_dispatched_job_costs_what_the_table_says(stage: str) -> None:
    got: dict[str, str] = {}

    @virtual_time
    async def live() -> None:
        with recorded_calls() as calls:
            async with multikueue_world("worker1", "worker2") as world, world.manager():
                await world.until_connected()
                writes = Writes(world.hub, calls)
                await DISPATCH_STAGES[stage](world, writes)
                on_workers = [call for call in calls if call[0].name == REMOTE.name]
                got["manager's cluster"] = await writes.new(MANAGER)
                calls.extend(on_workers)
                got["both workers"] = await writes.new(REMOTE)

    live()
    assert got == {where: read_table(DISPATCH)[where, stage] for where in CLUSTERS}
