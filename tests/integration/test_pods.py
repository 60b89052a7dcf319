"""The life of pods and groups of pods, through the API (Part E 37 and 38).

The webhooks do not run here; the pods are created as these leave them.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_finished
from multiqueue.kube.resources import PODS, WORKLOADS
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.pod_objects import PODS_ENABLED, READY, gated, make_pod
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time


def pods_of(cluster: QueueCluster) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.informers.jobs["pod"].store.list()}


def workload(cluster: QueueCluster, name: str = "g") -> Workload | None:
    return cluster.informers.workloads.store.get(f"{NAMESPACE}/{name}")


def started(cluster: QueueCluster) -> set[str]:
    return {
        name for name, pod in pods_of(cluster).items() if not pod["spec"].get("schedulingGates")
    }


async def create(cluster: QueueCluster, *pod_names: str, total: int, **what: Any) -> None:
    for name in pod_names:
        await cluster.create(PODS, gated(make_pod(name, group="g", total=total, **what)))


async def set_phase(cluster: QueueCluster, name: str, phase: str) -> None:
    status = {"phase": phase, "conditions": [READY] if phase == "Running" else []}
    await cluster.patch(PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status")


async def until(cluster: QueueCluster, condition: Any, what: str) -> Any:
    return await cluster.changes.until(condition, what)


def condition(cluster: QueueCluster, type_: WorkloadCondition) -> str:
    found = workload(cluster)
    known = find(found.status, type_) if found is not None else None
    return known.status if known is not None else ""


@virtual_time
async def test_a_group_starts_as_a_whole_and_ends_as_a_whole() -> None:
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="4", zone="a")
        await create(cluster, "p0", "p1", total=3)
        await until(cluster, lambda: len(pods_of(cluster)) == 2, "two pods")
        assert workload(cluster) is None
        assert started(cluster) == set()
        await create(cluster, "p2", total=3)
        await until(cluster, lambda: len(started(cluster)) == 3, "three started pods")
        for pod in pods_of(cluster).values():
            assert pod["spec"]["nodeSelector"] == {"zone": "a"}
        for name in ("p0", "p1", "p2"):
            await set_phase(cluster, name, "Running")
        await set_phase(cluster, "p0", "Succeeded")
        await until(cluster, lambda: workload(cluster).status.reclaimable_pods, "quota back")
        for name in ("p1", "p2"):
            await set_phase(cluster, name, "Succeeded")
        await until(cluster, lambda: is_finished(workload(cluster).status), "the end")
        await until(
            cluster,
            lambda: not any(p["metadata"].get("finalizers") for p in pods_of(cluster).values()),
            "released pods",
        )


@virtual_time
async def test_a_group_that_does_not_fit_stays_gated() -> None:
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="1")
        await create(cluster, "p0", "p1", total=2)

        def waits() -> bool:
            return condition(cluster, WorkloadCondition.QUOTA_RESERVED) == "False"

        await until(cluster, waits, "a refusal")
        assert started(cluster) == set()


@virtual_time
async def test_pods_beyond_the_size_go_and_failed_ones_are_replaced() -> None:
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="4")
        await create(cluster, "p0", "p1", total=2)
        await until(cluster, lambda: len(started(cluster)) == 2, "started pods")
        await create(cluster, "p2", total=2)
        await until(cluster, lambda: set(pods_of(cluster)) == {"p0", "p1"}, "no third pod")
        await set_phase(cluster, "p0", "Failed")
        kind = WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS
        await until(cluster, lambda: condition(cluster, kind) == "True", "a question")
        await create(cluster, "p3", total=2)
        await until(cluster, lambda: "p3" in started(cluster), "a started replacement")
        await until(cluster, lambda: condition(cluster, kind) == "False", "an answer")
        assert not pods_of(cluster)["p0"]["metadata"].get("finalizers")
        events = await cluster.events()
        assert ("Pod", "p2", "ExcessPodDeleted") in events


@virtual_time
async def test_an_evicted_group_is_deleted_and_comes_back_as_new_pods() -> None:
    """group-15."""
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="4")
        await create(cluster, "p0", "p1", total=2)
        await until(cluster, lambda: len(started(cluster)) == 2, "started pods")
        await cluster.patch(WORKLOADS, "g", {"spec": {"active": False}}, namespace=NAMESPACE)
        await until(cluster, lambda: not has_quota(workload(cluster).status), "released quota")
        leaving = pods_of(cluster).values()
        assert all(pod["metadata"].get("deletionTimestamp") for pod in leaving)
        await cluster.patch(WORKLOADS, "g", {"spec": {"active": True}}, namespace=NAMESPACE)
        await create(cluster, "p2", "p3", total=2)
        await until(cluster, lambda: started(cluster) == {"p2", "p3"}, "new pods")
        assert is_admitted(workload(cluster).status)


@virtual_time
async def test_nothing_is_left_of_a_group_whose_workload_is_deleted() -> None:
    """J-261."""
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="1")
        await create(cluster, "p0", "p1", total=2)
        await until(cluster, lambda: workload(cluster), "a Workload")
        await cluster.client.delete(WORKLOADS, "g", namespace=NAMESPACE)
        await until(cluster, lambda: not pods_of(cluster), "no pods")
        await until(cluster, lambda: workload(cluster) is None, "no Workload")


@virtual_time
async def test_nothing_is_left_of_a_deleted_pod() -> None:
    """pod-12."""
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="0")
        await cluster.create(PODS, gated(make_pod("solo")))
        workloads = cluster.informers.workloads.store
        await until(cluster, workloads.list, "a Workload")
        await cluster.client.delete(PODS, "solo", namespace=NAMESPACE)
        await until(cluster, lambda: not pods_of(cluster), "no pod")
        await until(cluster, lambda: not list(workloads.list()), "no Workload")


@virtual_time
async def test_pods_without_our_label_are_not_even_watched() -> None:
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="4")
        stranger = make_pod("stranger")
        await cluster.create(PODS, stranger)
        await cluster.create(PODS, gated(make_pod("solo")))
        await until(cluster, lambda: started(cluster) == {"solo"}, "a started pod")
        assert set(pods_of(cluster)) == {"solo"}
        found = await cluster.client.get(PODS, "stranger", namespace=NAMESPACE)
        assert found["metadata"]["labels"] == {names.QUEUE_NAME: "lq"}


@virtual_time
async def test_a_pod_waits_for_its_admission_gate() -> None:
    """E-188: so do the pods of a Deployment whose pod template has the annotation."""
    gate = {names.ADMISSION_GATED_BY: "example.com/budget"}
    async with queue_cluster(config=PODS_ENABLED) as cluster, cluster.manager(PODS_ENABLED):
        await create_queue(cluster, cpu="4", zone="a")
        await cluster.create(PODS, gated(make_pod("p0", annotations=gate)))

        def waits() -> bool:
            found = cluster.informers.workloads.store.list()
            known = [find(w.status, WorkloadCondition.QUOTA_RESERVED) for w in found]
            return any(each is not None and "gated" in each.message for each in known)

        await until(cluster, waits, "a Workload that waits for its gate")
        without = {"metadata": {"annotations": dict.fromkeys(gate)}}
        await cluster.patch(PODS, "p0", without, namespace=NAMESPACE)
        await until(cluster, lambda: started(cluster) == {"p0"}, "a started pod")
