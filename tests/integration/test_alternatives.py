"""A gang that needs fewer pods on some hardware, on one cluster, with pods that run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.embedded.cluster.nodes import ACCELERATOR_LABEL
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import submit
from tests.integration.waiting import simulation
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

QUOTAS = {"h100": "2", "a100": "4"}
"""CPUs, one a pod; the first is tried first."""
RANK = {
    "apiVersion": names.V1BETA2,
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent"},
    "value": 10,
}


@asynccontextmanager
async def two_kinds() -> AsyncIterator[QueueCluster]:
    """A cluster with two kinds of machines, and a queue with a flavor for each."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(clock=clock),
        simulation(cluster.client, *QUOTAS, clock=clock),
    ):
        for name in QUOTAS:
            spec = {"nodeLabels": {ACCELERATOR_LABEL: name}}
            flavor = {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}
            await cluster.create(
                resources.RESOURCE_FLAVORS, {"apiVersion": names.V1BETA2, **flavor}
            )
        flavors = [
            {"name": name, "resources": [{"name": "cpu", "nominalQuota": quota}]}
            for name, quota in QUOTAS.items()
        ]
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        body = {"kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": queue}
        await cluster.create(resources.CLUSTER_QUEUES, {"apiVersion": names.V1BETA2, **body})
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await cluster.create(resources.WORKLOAD_PRIORITY_CLASSES, RANK)
        yield cluster


def make_gang() -> dict[str, Any]:
    """Four pods, or two with an H100 each."""
    annotations = {
        names.ALTERNATIVES: "h100=2",
        names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true",
    }
    job = make_job(
        "train", annotations=annotations, parallelism=4, completions=4, completionMode="Indexed"
    )
    job["spec"]["template"]["metadata"] = {"annotations": {RUN_SECONDS: "forever"}}
    return job


def make_rival(name: str) -> dict[str, Any]:
    """More urgent, and only with an H100."""
    rival = make_job(name, labels={names.PRIORITY_CLASS: "urgent"})
    template = rival["spec"]["template"]
    template["metadata"] = {"annotations": {RUN_SECONDS: "forever"}}
    template["spec"]["nodeSelector"] = {ACCELERATOR_LABEL: "h100"}
    return rival


async def until_ready(cluster: QueueCluster, pods: int, *, of: int = 2) -> None:
    """So many pods of the gang run, of as many as its hardware needs."""

    def is_ready() -> bool:
        job = cluster.job("train")
        return job is not None and (job.get("status") or {}).get("ready") == pods

    await cluster.changes.until(is_ready, f"{pods} ready pods")
    spec = cluster.job("train")["spec"]  # type: ignore[index]
    assert (spec["parallelism"], spec["completions"]) == (of, of)


async def until_used(cluster: QueueCluster, **want: str) -> None:
    def used() -> dict[str, str]:
        queue = cluster.informers.cluster_queues.store.get("cq")
        usage = queue.status.flavors_usage if queue is not None else ()
        return {flavor.name: str(flavor.resources[0].total) for flavor in usage}

    await cluster.changes.until(lambda: used() == want, f"usage of {want}")


async def end_pod(cluster: QueueCluster) -> None:
    """Have one pod of the gang succeed."""
    pods = await cluster.client.list(resources.PODS, namespace=NAMESPACE)
    name = min(pod["metadata"]["name"] for pod in pods.items)
    change = {"metadata": {"annotations": {RUN_SECONDS: "0"}}}
    await cluster.client.patch(resources.PODS, name, change, namespace=NAMESPACE)


@virtual_time
async def test_what_ended_gives_back_quota_of_the_number_that_runs() -> None:
    """It has to leave, and goes on elsewhere with another number; one rank of those is done."""
    async with two_kinds() as cluster:
        await submit(cluster, make_gang())
        await until_ready(cluster, 2)
        await until_used(cluster, h100="2", a100="0")
        await end_pod(cluster)
        await until_used(cluster, h100="1", a100="0")

        await submit(cluster, make_rival("first"))
        await submit(cluster, make_rival("second"))
        await until_ready(cluster, 3, of=4)
        await until_used(cluster, h100="2", a100="3")


@virtual_time
async def test_without_its_workload_it_asks_for_what_its_user_wrote() -> None:
    """Whoever took the Workload away, finalizer and all: it is no gang of two pods now."""
    async with two_kinds() as cluster:
        await submit(cluster, make_gang())
        await until_ready(cluster, 2)
        gone = cluster.workload_of("train").metadata  # type: ignore[union-attr]
        released = {"metadata": {"finalizers": None}}
        await cluster.patch(resources.WORKLOADS, gone.name, released, namespace=NAMESPACE)
        await cluster.client.delete(resources.WORKLOADS, gone.name, namespace=NAMESPACE)

        def asked() -> int:
            workload = cluster.workload_of("train")
            is_new = workload is not None and workload.metadata.uid != gone.uid
            return workload.spec.pod_sets[0].count if is_new and workload is not None else 0

        assert await cluster.changes.until(asked, "another Workload") == 4
        await until_ready(cluster, 2)
        await until_used(cluster, h100="2", a100="0")
