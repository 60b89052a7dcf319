"""Kinds whose pods are queued in groups, through the API: their Workloads, and stamps on pods.

The webhooks do not run here, so the pods come as the webhooks leave them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Integrations
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_on_hold
from multiqueue.embedded.cluster.kind_crds import build_kind_crd
from multiqueue.kube.resources import PODS, Resource, resource_of
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.job_kinds import ROWS
from tests.pod_objects import gated
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster

STATEFUL_SETS = resource_of("apps/v1", "statefulsets", "StatefulSet")
ENABLED = msgspec.structs.replace(
    CONFIG,
    integrations=Integrations(
        frameworks=("batch/job", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")
    ),
)
LWS_ROW = ROWS["leaderworkerset.x-k8s.io/leaderworkerset"]
LEADER_WORKER_SETS = resource_of(LWS_ROW.api_version, LWS_ROW.plural, LWS_ROW.kind)
TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}


@contextlib.asynccontextmanager
async def sets_cluster() -> AsyncIterator[QueueCluster]:
    crds = [crd] if (crd := build_kind_crd(LWS_ROW)) is not None else []
    async with queue_cluster(crds=crds, config=ENABLED) as cluster, cluster.manager(ENABLED):
        await create_queue(cluster, cpu="3", zone="a")
        yield cluster


def make_set(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": NAMESPACE, "labels": {names.QUEUE_NAME: "lq"}},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": TEMPLATE,
        },
    }


async def create_pod(
    cluster: QueueCluster, owner: dict[str, Any], name: str, parent: str, **labels: str
) -> None:
    """Create a pod as the webhook lets it be created: gated, without a finalizer."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    written = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": dict(labels),
            "annotations": {names.POD_SUSPENDING_PARENT: parent},
            "ownerReferences": [reference],
        },
        "spec": TEMPLATE["spec"],
    }
    pod = gated(written)
    pod["metadata"]["finalizers"] = []
    await cluster.create(PODS, pod)


def workloads(cluster: QueueCluster) -> list[Workload]:
    found = cluster.informers.workloads.store.list()
    return sorted(found, key=lambda each: each.metadata.name)


def reason_of(workload: Workload) -> str:
    reserved = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    return reserved.message if reserved else ""


def pod_of(cluster: QueueCluster, name: str) -> dict[str, Any]:
    return cluster.informers.jobs["pod"].store.get(f"{NAMESPACE}/{name}") or {}


def is_started(cluster: QueueCluster, name: str) -> bool:
    pod = pod_of(cluster, name)
    return bool(pod) and not pod["spec"].get("schedulingGates")


async def until_one(cluster: QueueCluster, check: Any, what: str) -> Workload:
    def found() -> Workload | None:
        all_of_them = workloads(cluster)
        return all_of_them[0] if len(all_of_them) == 1 and check(all_of_them[0]) else None

    return await cluster.changes.until(found, what)


async def scale(cluster: QueueCluster, resource: Resource, name: str, replicas: int) -> None:
    await cluster.patch(resource, name, {"spec": {"replicas": replicas}}, namespace=NAMESPACE)


async def test_a_stateful_set_gets_one_workload_and_its_pods_start_as_they_come() -> None:
    async with sets_cluster() as cluster:
        made = await cluster.create(STATEFUL_SETS, make_set(2))
        workload = await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")
        assert [(p.name, p.count) for p in workload.spec.pod_sets] == [("main", 2)]
        assert workload.metadata.annotations[names.JOB_OWNER_GVK] == "apps/v1, Kind=StatefulSet"
        for name in ("db-0", "db-1"):
            await create_pod(cluster, made, name, "statefulset")
            await cluster.changes.until(partial(is_started, cluster, name), "a start")
        pod = pod_of(cluster, "db-1")
        assert pod["metadata"]["annotations"][names.POD_GROUP_NAME] == workload.metadata.name
        assert pod["spec"]["nodeSelector"] == {"zone": "a"}
        owned = await until_one(
            cluster, lambda w: len(w.metadata.owner_references) == 3, "pods among the owners"
        )
        assert {owner.kind for owner in owned.metadata.owner_references} == {"StatefulSet", "Pod"}


async def test_a_set_starts_when_its_admission_gates_are_gone() -> None:
    """J-302: the gates of the object are those of its Workload."""
    gate = "example.com/budget"
    async with sets_cluster() as cluster:
        gated_set = make_set(2)
        gated_set["metadata"]["annotations"] = {names.ADMISSION_GATED_BY: gate}
        await cluster.create(STATEFUL_SETS, gated_set)
        waiting = await until_one(
            cluster, lambda w: "gated" in reason_of(w), "a set that waits for its gate"
        )
        assert waiting.metadata.annotations[names.ADMISSION_GATED_BY] == gate
        change = {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}}
        await cluster.patch(STATEFUL_SETS, "db", change, namespace=NAMESPACE)
        await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")


async def test_a_set_scaled_to_zero_gives_its_quota_back_and_returns_with_another_size() -> None:
    """J-283, J-284, J-286: sts-5."""
    async with sets_cluster() as cluster:
        await cluster.create(STATEFUL_SETS, make_set(2))
        await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")
        await scale(cluster, STATEFUL_SETS, "db", 0)
        held = await until_one(cluster, lambda w: is_on_hold(w.status), "a set on hold")
        assert not has_quota(held.status)
        await scale(cluster, STATEFUL_SETS, "db", 3)
        back = await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")
        assert back.metadata.uid == held.metadata.uid
        assert [p.count for p in back.spec.pod_sets] == [3]


async def test_a_set_that_quickly_changes_its_size_through_zero_holds_the_right_quota() -> None:
    async with sets_cluster() as cluster:
        await cluster.create(STATEFUL_SETS, make_set(1))
        await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")
        await scale(cluster, STATEFUL_SETS, "db", 3)  # as if the step through zero went unseen

        def is_resized(workload: Workload) -> bool:
            return is_admitted(workload.status) and workload.spec.pod_sets[0].count == 3

        await until_one(cluster, is_resized, "quota for three pods")


async def test_the_workload_of_a_deleted_set_goes() -> None:
    async with sets_cluster() as cluster:
        await cluster.create(STATEFUL_SETS, make_set(1))
        await until_one(cluster, lambda w: is_admitted(w.status), "an admitted set")
        await cluster.client.delete(STATEFUL_SETS, "db", namespace=NAMESPACE)
        await cluster.changes.until(lambda: not workloads(cluster), "no Workload")


def make_groups(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": LWS_ROW.api_version,
        "kind": LWS_ROW.kind,
        "metadata": {"name": "llm", "namespace": NAMESPACE, "labels": {names.QUEUE_NAME: "lq"}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE},
        },
    }


def by_index(cluster: QueueCluster) -> dict[str, bool]:
    """Whether each group is admitted, by its index."""
    key = names.COMPONENT_WORKLOAD_INDEX
    return {w.metadata.annotations[key]: is_admitted(w.status) for w in workloads(cluster)}


async def test_each_replica_of_a_leader_worker_set_is_admitted_by_itself() -> None:
    """lws-4, lws-5, lws-6: there is room for three pods, thus for one group of two."""
    async with sets_cluster() as cluster:
        owner = await cluster.create(LEADER_WORKER_SETS, make_groups(2))
        await cluster.changes.until(
            lambda: sorted(by_index(cluster).values()) == [False, True], "one admitted group"
        )
        [running] = [index for index, admitted in by_index(cluster).items() if admitted]
        [waiting] = {"0", "1"} - {running}
        for index in ("0", "1"):
            labels = {
                "leaderworkerset.sigs.k8s.io/name": "llm",
                "leaderworkerset.sigs.k8s.io/group-index": index,
            }
            for name in (f"llm-{index}", f"llm-{index}-1"):
                await create_pod(cluster, owner, name, LWS_ROW.framework, **labels)
        await cluster.changes.until(
            lambda: (
                is_started(cluster, f"llm-{running}") and is_started(cluster, f"llm-{running}-1")
            ),
            "a started group",
        )

        def is_stamped() -> bool:
            pod = pod_of(cluster, f"llm-{waiting}")
            return names.POD_GROUP_NAME in pod["metadata"]["annotations"]

        await cluster.changes.until(is_stamped, "a stamped pod")
        assert not is_started(cluster, f"llm-{waiting}")
        await scale(cluster, LEADER_WORKER_SETS, "llm", 3)
        await cluster.changes.until(lambda: len(by_index(cluster)) == 3, "a third group")
        await scale(cluster, LEADER_WORKER_SETS, "llm", 1)
        await cluster.changes.until(lambda: set(by_index(cluster)) == {"0"}, "one group")
