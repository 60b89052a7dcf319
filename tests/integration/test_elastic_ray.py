"""Elastic Ray clusters on one cluster: slices with several pod sets follow their sizes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.slices import counts_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_admitted, is_evicted, is_finished
from multiqueue.jobs.ray.cluster import RAY_CLUSTERS
from multiqueue.kube import resources
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.integration.waiting import simulation, until
from tests.job_kinds import EXAMPLES, KindExample, config_for, kind_cluster
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

BY_KIND = {each.row.kind: each for each in EXAMPLES}
CLUSTER, JOB = BY_KIND["RayCluster"], BY_KIND["RayJob"]
ELASTIC = {names.ELASTIC_JOB: "true"}
GATE = {"name": names.ELASTIC_GATE}


@asynccontextmanager
async def ray_world(cpu: str, **node_labels: str) -> AsyncIterator[QueueCluster]:
    """A queue with so many CPUs, and a manager that knows RayClusters and RayJobs."""
    async with (
        kind_cluster(CLUSTER, JOB) as cluster,
        cluster.manager(config_for(CLUSTER, JOB)),
    ):
        await create_queue(cluster, cpu=cpu, **node_labels)
        yield cluster


def elastic_cluster(name: str = "job", *, workers: int) -> dict[str, Any]:
    """A RayCluster as the webhook leaves it."""
    job = CLUSTER.make(name)
    job["metadata"]["annotations"] = dict(ELASTIC)
    job["spec"]["workerGroupSpecs"][0]["replicas"] = workers
    gated: dict[str, Any] = CLUSTER.kind.integration.gated(job)  # type: ignore[attr-defined]
    return gated


async def scale(cluster: QueueCluster, workers: int, name: str = "job") -> None:
    """Change the number of workers, as users and autoscalers do."""
    job = await cluster.client.get(RAY_CLUSTERS, name, namespace=NAMESPACE)
    group = {**job["spec"]["workerGroupSpecs"][0], "replicas": workers}
    await cluster.patch(
        RAY_CLUSTERS, name, {"spec": {"workerGroupSpecs": [group]}}, namespace=NAMESPACE
    )


def live(cluster: QueueCluster) -> list[Workload]:
    """The slices that are not finished."""
    found = cluster.informers.workloads.store.list()
    return [workload for workload in found if not is_finished(workload.status)]


def running(cluster: QueueCluster) -> list[Mapping[str, int]]:
    """The sizes of the slices that run."""
    return [counts_of(w.spec.pod_sets) for w in live(cluster) if is_admitted(w.status)]


async def until_size(cluster: QueueCluster, **size: int) -> None:
    await cluster.changes.until(lambda: running(cluster) == [size], f"one slice of {size}")


def find(cluster: QueueCluster, example: KindExample, name: str = "job") -> dict[str, Any]:
    job = cluster.informers.jobs[example.row.framework].store.get(f"{NAMESPACE}/{name}")
    assert job is not None
    return job


async def until_released(cluster: QueueCluster, count: int) -> None:
    """Wait until so many pods of RayClusters may start."""

    def released(pods: list[dict[str, Any]]) -> bool:
        return sum(GATE not in (pod["spec"].get("schedulingGates") or ()) for pod in pods) == count

    await until(cluster.client, resources.PODS, released, namespace=NAMESPACE)


@virtual_time
async def test_a_cluster_grows_and_shrinks_while_it_runs() -> None:
    """raycluster-15, raycluster-16, J-341: new pods wait until their slice is admitted."""
    async with ray_world("4") as cluster, simulation(cluster.client, "2xcpu"):
        await cluster.create(RAY_CLUSTERS, elastic_cluster(workers=1))
        await until_size(cluster, head=1, workers=1)

        def is_ready() -> bool:
            return bool(find(cluster, CLUSTER).get("status", {}).get("state") == "ready")

        await cluster.changes.until(is_ready, "a cluster that is ready")
        await scale(cluster, 3)
        await until_size(cluster, head=1, workers=3)

        # One more than there is room for: the cluster runs on, and one pod waits.
        await scale(cluster, 4)

        def waits() -> bool:
            return sorted(has_quota(w.status) for w in live(cluster)) == [False, True]

        await cluster.changes.until(waits, "a slice that waits")
        assert running(cluster) == [{"head": 1, "workers": 3}]
        await scale(cluster, 2)
        await until_size(cluster, head=1, workers=2)
        assert len(live(cluster)) == 1
        assert find(cluster, CLUSTER)["spec"]["suspend"] is False


@virtual_time
async def test_a_group_that_is_added_is_another_job() -> None:
    """raycluster-17, J-341."""
    async with ray_world("9") as cluster:
        await cluster.create(RAY_CLUSTERS, elastic_cluster(workers=1))
        await until_size(cluster, head=1, workers=1)
        (first,) = live(cluster)
        groups = find(cluster, CLUSTER)["spec"]["workerGroupSpecs"]
        more = {**groups[0], "groupName": "more"}
        await cluster.patch(
            RAY_CLUSTERS,
            "job",
            {"spec": {"workerGroupSpecs": [*groups, more]}},
            namespace=NAMESPACE,
        )
        await until_size(cluster, head=1, workers=1, more=1)
        assert [w.metadata.uid for w in live(cluster)] != [first.metadata.uid]


@virtual_time
async def test_a_preempted_cluster_is_as_its_user_wrote_it() -> None:
    """A larger slice shows what the start added; a stop leaves that out of the cluster."""
    async with ray_world("9", zone="a") as cluster:
        written = await cluster.create(RAY_CLUSTERS, elastic_cluster(workers=1))
        await until_size(cluster, head=1, workers=1)
        await scale(cluster, 2)
        await until_size(cluster, head=1, workers=2)
        (second,) = live(cluster)
        template = second.spec.pod_sets[0].template
        assert template["metadata"]["labels"][names.PODSET] == "head"
        assert "nodeSelector" not in template["spec"]
        await cluster.patch(
            resources.WORKLOADS,
            second.metadata.name,
            {"apiVersion": names.V1BETA2, "spec": {"active": False}},
            namespace=NAMESPACE,
        )

        def is_stopped() -> bool:
            (workload,) = live(cluster)
            return is_evicted(workload.status) and bool(find(cluster, CLUSTER)["spec"]["suspend"])

        await cluster.changes.until(is_stopped, "a cluster that is stopped")
        stopped = find(cluster, CLUSTER)["spec"]
        assert stopped["headGroupSpec"] == written["spec"]["headGroupSpec"]
        (group,) = written["spec"]["workerGroupSpecs"]
        assert stopped["workerGroupSpecs"] == [{**group, "replicas": 2}]


@virtual_time
async def test_a_job_grows_with_its_cluster() -> None:
    """rayjob-17, raycluster-19, J-324, J-325, J-332: its pods are those of its RayCluster."""
    async with ray_world("6") as cluster:
        job = JOB.make(submissionMode="HTTPMode")
        job["metadata"]["annotations"] = dict(ELASTIC)
        job["spec"]["rayClusterSpec"] |= {
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"resources": {"requests": {"cpu": "1"}}},
        }
        created = await cluster.create(JOB.resource, job)
        await until_size(cluster, head=1, workers=1)
        await make_child(cluster, created["metadata"]["uid"])

        def annotation() -> str | None:
            return find(cluster, JOB)["metadata"]["annotations"].get(names.RAY_CLUSTER_GENERATION)

        await cluster.changes.until(lambda: annotation() == "1", "the child's generation")
        for number in range(3):
            await cluster.create(resources.PODS, gated_pod(find(cluster, CLUSTER, "child"), number))
        await until_released(cluster, 1)
        await scale(cluster, 3, "child")
        await until_size(cluster, head=1, workers=3)
        await cluster.changes.until(lambda: annotation() == "2", "the child's new generation")
        assert not find(cluster, CLUSTER, "child")["spec"].get("suspend")

        await until_released(cluster, 3)
        owners = {o.kind for w in live(cluster) for o in w.metadata.owner_references}
        assert owners == {"RayJob"}


async def make_child(cluster: QueueCluster, owner: str) -> None:
    """Make the RayCluster of the RayJob, as KubeRay does."""
    child = elastic_cluster("child", workers=1)
    child["spec"]["enableInTreeAutoscaling"] = True
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "name": "job",
            "uid": owner,
            "controller": True,
        }
    ]
    await cluster.create(RAY_CLUSTERS, child)
    status = {"jobDeploymentStatus": "Running", "rayClusterName": "child"}
    await cluster.patch(
        JOB.resource, "job", {"status": status}, namespace=NAMESPACE, subresource="status"
    )


def gated_pod(child: dict[str, Any], number: int) -> dict[str, Any]:
    """A worker of a RayCluster, as KubeRay makes it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"child-workers-{number}",
            "namespace": NAMESPACE,
            "labels": {"ray.io/cluster": "child", names.PODSET: "workers"},
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": "child",
                    "uid": child["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "w", "image": "w"}], "schedulingGates": [GATE]},
    }
