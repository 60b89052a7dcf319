"""TrainJobs and their runtimes, through the API: a missing one is named, a changed one followed."""

from __future__ import annotations

from typing import Any

from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.trainjob.integration import CLUSTER_RUNTIME
from multiqueue.kube.resources import EVENTS
from tests.integration.queue_steps import create_queue
from tests.job_kinds import EXAMPLES, config_for, kind_cluster
from tests.queue_manager import QueueCluster

EXAMPLE = next(each for each in EXAMPLES if each.row.kind == "TrainJob")


def renamed(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {"name": "late"}}


def count_of_trainer(cluster: QueueCluster) -> int | None:
    workloads: list[Workload] = cluster.informers.workloads.store.list()
    pod_sets = workloads[0].spec.pod_sets if workloads else ()
    return next((each.count for each in pod_sets if each.name == "trainer"), None)


async def until_told(cluster: QueueCluster, words: str) -> None:
    """Wait for an Event with these words."""
    async for event in cluster.client.watch(EVENTS, resource_version="0", timeout_seconds=10):
        if words in event.raw.decode():
            return
    raise AssertionError(f"no Event says: {words}")


async def test_a_job_waits_for_its_runtime_and_follows_it() -> None:
    """J-418, J-426."""
    async with kind_cluster(EXAMPLE) as cluster, cluster.manager(config_for(EXAMPLE)):
        await create_queue(cluster, cpu="0")
        await cluster.create(EXAMPLE.resource, EXAMPLE.make(runtimeRef={"name": "late"}))

        await until_told(cluster, "runtime 'late' not found")
        await EXAMPLE.create_objects(cluster.client, renamed)
        await cluster.changes.until(lambda: count_of_trainer(cluster) == 1, "a Workload")
        await cluster.client.patch(CLUSTER_RUNTIME, "late", {"spec": {"mlPolicy": {"numNodes": 3}}})
        await cluster.changes.until(lambda: count_of_trainer(cluster) == 3, "three nodes")
