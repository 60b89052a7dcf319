"""Elastic jobs on one cluster: slices follow the size of a job that runs (E-165 to E-169)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_finished
from multiqueue.embedded.cluster.lifecycle import EXIT_CODE, RUN_SECONDS
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import TransportError
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue, running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

GATE = {"name": names.ELASTIC_GATE}
REPLACED = ("True", "WorkloadSliceReplaced")


@asynccontextmanager
async def elastic_world(cpu: str = "6") -> AsyncIterator[QueueCluster]:
    """A queue with so many CPUs, its manager, and machines that run what is let go."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(clock=clock),
        simulation(cluster.client, "2xcpu", clock=clock),
    ):
        await create_queue(cluster, cpu=cpu)
        # What a start injects is in the job from then on, and in no slice.
        tolerations = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
        await cluster.patch(resources.RESOURCE_FLAVORS, "default", tolerations)
        yield cluster


def elastic_job(name: str = "grow", *, pods: int, run: str = "forever", **what: Any) -> Any:
    """A Job as the webhook leaves it: its pods wait at the gate."""
    defaults: dict[str, Any] = {"parallelism": pods, "completions": 100, **what}
    job = make_job(name, annotations={names.ELASTIC_JOB: "true"}, **defaults)
    template = job["spec"]["template"]
    template["metadata"] = {"annotations": {RUN_SECONDS: run}}
    template["spec"]["schedulingGates"] = [GATE]
    return job


async def scale(cluster: QueueCluster, pods: int, name: str = "grow") -> None:
    patch = {"spec": {"parallelism": pods}}
    await cluster.patch(resources.JOBS, name, patch, namespace=NAMESPACE)


def slices(cluster: QueueCluster, name: str = "grow") -> list[Workload]:
    """The Workloads of a job in the order in which they replace each other."""
    found = [
        workload
        for workload in cluster.informers.workloads.store.list()
        if any(owner.name == name for owner in workload.metadata.owner_references)
    ]
    by_replaced = {replaced_key(workload): workload for workload in found}
    chain: list[Workload] = []
    following = by_replaced.get("")
    while following is not None:
        chain.append(following)
        following = by_replaced.get(following.metadata.key)
    return chain


def sizes(cluster: QueueCluster) -> list[int]:
    """Sizes of the slices that are admitted and not finished."""
    return [
        workload.spec.pod_sets[0].count
        for workload in slices(cluster)
        if is_admitted(workload.status) and not is_finished(workload.status)
    ]


def finished(workload: Workload) -> tuple[str, str] | None:
    found = find(workload.status, WorkloadCondition.FINISHED)
    return (found.status, found.reason) if found is not None else None


async def until(cluster: QueueCluster, what: Callable[[], Any], description: str) -> Any:
    return await cluster.changes.until(what, description, seconds=3600)


async def until_size(cluster: QueueCluster, pods: int) -> None:
    await until(cluster, lambda: sizes(cluster) == [pods], f"one slice of {pods}")


async def until_ready(cluster: QueueCluster, pods: int, name: str = "grow") -> None:
    def ready() -> bool:
        job = cluster.job(name)
        return job is not None and (job.get("status") or {}).get("ready") == pods

    await until(cluster, ready, f"{pods} pods that run")


async def gated(cluster: QueueCluster) -> int:
    pods = await cluster.client.list(resources.PODS, namespace=NAMESPACE)
    return sum(GATE in (pod["spec"].get("schedulingGates") or ()) for pod in pods.items)


def reserved_cpu(cluster: QueueCluster) -> str:
    queue = cluster.informers.cluster_queues.store.get("cq")
    assert queue is not None
    flavors = queue.status.flavors_reservation  # empty until the first status is written
    return flavors[0].resources[0].total if flavors else ""


def suspensions(cluster: QueueCluster) -> int:
    """How often a Job was told to suspend; the API server counts generations of its spec."""
    job = cluster.job("grow")
    assert job is not None
    return int(job["metadata"]["generation"])


@virtual_time
async def test_a_job_that_grows_gets_a_larger_slice_and_runs_on() -> None:
    async with elastic_world() as cluster:
        await submit(cluster, elastic_job(pods=2))
        await until_ready(cluster, 2)
        before = suspensions(cluster)
        await scale(cluster, 5)
        await until_size(cluster, 5)
        await until_ready(cluster, 5)

        old, new = slices(cluster)
        assert finished(old) == REPLACED
        assert new.metadata.annotations == {
            names.ELASTIC_JOB: "true",
            names.WORKLOAD_SLICE_NAME: old.metadata.name,
            names.WORKLOAD_SLICE_REPLACEMENT_FOR: old.metadata.key,
        }
        assert old.metadata.annotations[names.WORKLOAD_SLICE_NAME] == old.metadata.name
        assert suspensions(cluster) == before + 1  # the scaling itself
        await until(cluster, lambda: reserved_cpu(cluster) == "5", "five cpus in use")
        events = await cluster.events()
        assert events.count(("Workload", old.metadata.name, "WorkloadSliceReplaced")) == 1


@virtual_time
async def test_a_larger_slice_that_does_not_fit_waits_while_the_first_runs_on() -> None:
    async with elastic_world("4") as cluster:
        await submit(cluster, elastic_job(pods=2))
        await submit(cluster, make_job("other", cpu="1"))
        await until_ready(cluster, 2)
        await until(cluster, lambda: running(cluster, "other"), "the other one running")
        await scale(cluster, 4)
        await until(cluster, lambda: _waits(cluster), "a slice that waits, and why")

        new = slices(cluster)[1]
        reserved = find(new.status, WorkloadCondition.QUOTA_RESERVED)
        assert reserved is not None
        assert "insufficient unused quota for cpu in flavor default, 1 more needed" in (
            reserved.message
        )
        assert running(cluster, "grow")
        await until(cluster, lambda: _active(cluster) == 4, "pods of the new size")
        assert await gated(cluster) == 2
        assert sizes(cluster) == [2]

        await cluster.client.delete(resources.JOBS, "other", namespace=NAMESPACE)
        await until_ready(cluster, 4)
        await until_size(cluster, 4)


def _waits(cluster: QueueCluster) -> bool:
    found = slices(cluster)
    return len(found) == 2 and find(found[1].status, WorkloadCondition.QUOTA_RESERVED) is not None


def _active(cluster: QueueCluster) -> int:
    job = cluster.job("grow")
    return int(((job or {}).get("status") or {}).get("active") or 0)


@virtual_time
async def test_a_job_that_shrinks_gives_quota_back_in_place() -> None:
    async with elastic_world("4") as cluster:
        await submit(cluster, elastic_job(pods=4))
        await until_ready(cluster, 4)
        await submit(cluster, make_job("next", cpu="2"))
        await scale(cluster, 2)
        await until(cluster, lambda: running(cluster, "next"), "the next one running")
        (only,) = slices(cluster)
        assert only.spec.pod_sets[0].count == 2
        assert is_admitted(only.status)
        assert running(cluster, "grow")
        await until_ready(cluster, 2)


@virtual_time
async def test_a_job_that_shrinks_before_its_larger_slice_fits_takes_that_back() -> None:
    async with elastic_world("4") as cluster:
        await submit(cluster, elastic_job(pods=3))
        await until_ready(cluster, 3)
        await scale(cluster, 6)
        await until(cluster, lambda: _waits(cluster), "a slice that waits")
        await scale(cluster, 5)
        await until(cluster, lambda: slices(cluster)[1].spec.pod_sets[0].count == 5, "five asked")
        await scale(cluster, 2)
        await until_size(cluster, 2)
        old, new = slices(cluster)
        assert finished(new) == ("True", "OutOfSync")
        assert finished(old) is None
        await until_ready(cluster, 2)


@virtual_time
async def test_a_job_grows_again_and_again() -> None:
    async with elastic_world() as cluster:
        await submit(cluster, elastic_job(pods=1))
        for pods in (2, 3, 1, 6):
            await scale(cluster, pods)
            await until_size(cluster, pods)
            await until_ready(cluster, pods)
        chain = slices(cluster)
        assert [finished(workload) for workload in chain[:-1]] == [REPLACED] * (len(chain) - 1)
        first = chain[0].metadata.name
        assert {w.metadata.annotations[names.WORKLOAD_SLICE_NAME] for w in chain} == {first}


@virtual_time
async def test_a_job_that_ends_ends_all_its_slices() -> None:
    async with elastic_world("2") as cluster:
        job = elastic_job(pods=2, run="60", backoffLimit=0)
        job["spec"]["template"]["metadata"]["annotations"][EXIT_CODE] = "1"
        await submit(cluster, job)
        await until_ready(cluster, 2)
        await scale(cluster, 3)
        await until(cluster, lambda: _waits(cluster), "a slice that waits")
        await until(
            cluster,
            lambda: [finished(w) for w in slices(cluster)] == [("True", "Failed")] * 2,
            "both finished",
        )
        await until(cluster, lambda: reserved_cpu(cluster) == "0", "nothing in use")


@virtual_time
async def test_a_job_that_is_deleted_takes_its_slices_along() -> None:
    async with elastic_world("2") as cluster:
        await submit(cluster, elastic_job(pods=2))
        await until_ready(cluster, 2)
        await scale(cluster, 3)
        await until(cluster, lambda: _waits(cluster), "a slice that waits")
        await cluster.client.delete(
            resources.JOBS, "grow", namespace=NAMESPACE, propagation="Background"
        )
        store = cluster.informers.workloads.store
        await until(cluster, lambda: not store.list(), "no slice")
        await until(cluster, lambda: reserved_cpu(cluster) == "0", "nothing in use")


@virtual_time
async def test_a_slice_that_is_preempted_keeps_its_quota_until_its_job_has_stopped() -> None:
    """Upstream ends it beside a larger one that waits, and its pods run on without quota."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(clock=clock),
        simulation(cluster.client, "2xcpu", clock=clock),
    ):
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        policy = {"withinClusterQueue": "LowerPriority"}
        queue = make_cluster_queue(cpu="4", preemption=policy)
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await cluster.create(
            resources.WORKLOAD_PRIORITY_CLASSES,
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await submit(cluster, elastic_job(pods=3))
        await until_ready(cluster, 3)
        await scale(cluster, 5)
        await until(cluster, lambda: _waits(cluster), "a slice that waits")
        high = make_job("high", cpu="4", labels={names.PRIORITY_CLASS: "high"})
        await submit(cluster, high)
        await until(cluster, lambda: running(cluster, "high"), "the high one running")
        assert not running(cluster, "grow")
        await until(
            cluster,
            lambda: [finished(w) for w in slices(cluster)] == [REPLACED, None],
            "the larger slice alone",
        )
        assert not has_quota(slices(cluster)[1].status)
        await scale(cluster, 4)
        await cluster.client.delete(resources.JOBS, "high", namespace=NAMESPACE)
        await until_ready(cluster, 4)


@virtual_time
async def test_pods_that_fail_are_replaced_within_the_slice() -> None:
    async with elastic_world("2") as cluster:
        await submit(cluster, elastic_job(pods=2, backoffLimit=10))
        await until_ready(cluster, 2)
        await scale(cluster, 3)
        await until(cluster, lambda: _active(cluster) == 3, "a pod that waits")
        pods = await cluster.client.list(resources.PODS, namespace=NAMESPACE)
        first = next(p for p in pods.items if not p["spec"].get("schedulingGates"))
        await cluster.client.delete(resources.PODS, first["metadata"]["name"], namespace=NAMESPACE)
        await until(cluster, lambda: _active(cluster) == 3, "three again")
        await until_ready(cluster, 2)
        assert sizes(cluster) == [2]


@virtual_time
async def test_without_the_gate_on_its_pods_a_job_is_queued_again() -> None:
    """No webhook saw it: pods of a new size would run at once, whatever the quota."""
    async with elastic_world("4") as cluster:
        job = elastic_job(pods=2)
        del job["spec"]["template"]["spec"]["schedulingGates"]
        await submit(cluster, job)
        await until_ready(cluster, 2)
        await scale(cluster, 5)
        await until(cluster, lambda: not running(cluster, "grow"), "a job that was stopped")


class Dying(KubeClient):
    """A manager that dies once it has admitted a second slice: nothing of it is written after."""

    async def patch(self, resource: Any, name: str, patch: Any, **what: Any) -> Any:
        if self._dead:
            raise TransportError("killed")
        self._admissions += "admission" in (patch.get("status") or {})
        self._dead = self._admissions == 2
        return await super().patch(resource, name, patch, **what)

    _admissions = 0
    _dead = False


@virtual_time
async def test_a_manager_that_dies_in_mid_handover_is_gone_on_from() -> None:
    """Two slices hold quota, and pods wait at the gate: the next one counts one, and ends it."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        simulation(cluster.client, "2xcpu", clock=clock),
    ):
        await create_queue(cluster, cpu="5")
        async with cluster.manager(clock=clock, client_type=Dying):
            await submit(cluster, elastic_job(pods=2))
            await until_ready(cluster, 2)
            await scale(cluster, 5)
            await until(cluster, lambda: sizes(cluster) == [2, 5], "two admitted slices")
        async with cluster.manager(clock=clock):
            await until_size(cluster, 5)
            await until_ready(cluster, 5)
            assert finished(slices(cluster)[0]) == REPLACED
            await until(cluster, lambda: reserved_cpu(cluster) == "5", "five cpus in use")


class Stumbling(KubeClient):
    """The first write that would end a slice fails."""

    async def patch(self, resource: Any, name: str, patch: Any, **what: Any) -> Any:
        conditions = (patch.get("status") or {}).get("conditions") or ()
        if not self._has_failed and any(each["type"] == "Finished" for each in conditions):
            self._has_failed = True
            raise TransportError("broken pipe")
        return await super().patch(resource, name, patch, **what)

    _has_failed = False


@virtual_time
async def test_the_end_of_a_slice_that_is_not_written_is_written_later() -> None:
    """No job looks after these: they are what a worker has of one that grows."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(clock=clock, client_type=Stumbling),
    ):
        await create_queue(cluster, cpu="5")
        store = cluster.informers.workloads.store
        await cluster.create(resources.WORKLOADS, lone_slice("old", pods=2))
        await until(
            cluster,
            lambda: [w for w in store.list() if is_admitted(w.status)],
            "the first one runs",
        )
        replaced = f"{NAMESPACE}/old"
        await cluster.create(resources.WORKLOADS, lone_slice("new", pods=5, replaces=replaced))
        await until(cluster, lambda: REPLACED in map(finished, store.list()), "its end")
        await until(cluster, lambda: reserved_cpu(cluster) == "5", "five cpus in use")


def lone_slice(name: str, *, pods: int, replaces: str = "") -> dict[str, Any]:
    annotations = {names.ELASTIC_JOB: "true", names.WORKLOAD_SLICE_NAME: "old"}
    if replaces:
        annotations[names.WORKLOAD_SLICE_REPLACEMENT_FOR] = replaces
    template = make_job("any")["spec"]["template"]
    return {
        "apiVersion": resources.WORKLOADS.api_version,
        "kind": resources.WORKLOADS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": pods, "template": template}],
        },
    }
