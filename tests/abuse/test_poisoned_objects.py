"""Objects of every kind that the manager reads, with values that nobody expects (row 13)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.kube import resources as kinds
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, NotFound, ServerError
from multiqueue.kube.resources import Resource
from tests.abuse.fleet import MANAGER, WORKERS, Fleet, Object

TEAM = "research"
HUGE = "1e400"
LONG = "9" * 5_000
GPU = "nvidia.com/gpu"
LABELS = {f"example.com/label-{number}": "x" * 63 for number in range(500)}


def quotas(flavor: str, nominal: Any, **limits: Any) -> Object:
    resource = {"name": GPU, "nominalQuota": nominal, **limits}
    flavors = [{"name": flavor, "resources": [resource]}]
    return {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]}


def pod_sets(count: int, request: Any) -> list[Object]:
    container = {"name": "c", "image": "i", "resources": {"requests": {GPU: request}}}
    spec = {"containers": [container], "restartPolicy": "Never"}
    return [{"name": "main", "count": count, "template": {"spec": spec}}]


POISONED: dict[str, tuple[Resource, Object]] = {
    "a LimitRange of huge and endless quantities": (
        kinds.LIMIT_RANGES,
        {
            "spec": {
                "limits": [
                    {"type": "Container", "default": {"cpu": HUGE}, "max": {"memory": LONG}},
                    {"type": "Pod", "min": {GPU: "-1"}},
                ]
            }
        },
    ),
    "a Node of absurd labels, taints and capacity": (
        kinds.NODES,
        {
            "metadata": {"labels": LABELS},
            "spec": {"taints": [{"key": "k" * 63, "effect": "NoSchedule", "value": ""}]},
            "status": {"allocatable": {GPU: HUGE, "cpu": LONG}, "capacity": {GPU: HUGE}},
        },
    ),
    "a Namespace of 500 labels": (kinds.NAMESPACES, {"metadata": {"labels": LABELS}}),
    "a Secret of nothing that is read": (
        kinds.SECRETS,
        {"data": {"kubeconfig": "//79"}, "type": "x/y"},
    ),
    "a PriorityClass beyond all others": (
        kinds.PRIORITY_CLASSES,
        {"value": -(2**31), "globalDefault": False},
    ),
    "a WorkloadPriorityClass of the largest value": (
        kinds.WORKLOAD_PRIORITY_CLASSES,
        {"value": 2**31 - 1},
    ),
    "a ResourceFlavor of endless labels": (
        kinds.RESOURCE_FLAVORS,
        {"spec": {"nodeLabels": {"a": "x" * 63}, "topologyName": "nowhere"}},
    ),
    "a Topology of one level that no node has": (
        kinds.TOPOLOGIES,
        {"spec": {"levels": [{"nodeLabel": "example.com/nobody"}]}},
    ),
    "a Topology of the same level twice": (
        kinds.TOPOLOGIES,
        {"spec": {"levels": [{"nodeLabel": "a"}, {"nodeLabel": "a"}]}},
    ),
    "a Cohort that is its own parent": (kinds.COHORTS, {"spec": {"parentName": "NAME"}}),
    "a Cohort of huge quota and weight": (
        kinds.COHORTS,
        {"spec": {**quotas("a100", HUGE), "fairSharing": {"weight": HUGE}}},
    ),
    "a ClusterQueue of huge quota": (kinds.CLUSTER_QUEUES, {"spec": quotas("a100", HUGE)}),
    "a ClusterQueue of an endless quantity": (
        kinds.CLUSTER_QUEUES,
        {"spec": quotas("a100", LONG)},
    ),
    "a ClusterQueue of a flavor and a check that are not there": (
        kinds.CLUSTER_QUEUES,
        {
            "spec": {
                **quotas("nowhere", "1"),
                "admissionChecksStrategy": {"admissionChecks": [{"name": "nowhere"}]},
            }
        },
    ),
    "a LocalQueue that leads nowhere": (kinds.LOCAL_QUEUES, {"spec": {"clusterQueue": "nowhere"}}),
    "an AdmissionCheck of a configuration that is not there": (
        kinds.ADMISSION_CHECKS,
        {
            "spec": {
                "controllerName": names.MULTIKUEUE_CONTROLLER,
                "parameters": {
                    "apiGroup": names.GROUP,
                    "kind": "MultiKueueConfig",
                    "name": "nowhere",
                },
            }
        },
    ),
    "a MultiKueueConfig of workers that are not there": (
        kinds.MULTIKUEUE_CONFIGS,
        {"spec": {"clusters": [f"nowhere-{number}" for number in range(20)]}},
    ),
    "a MultiKueueCluster whose Secret is not there": (
        kinds.MULTIKUEUE_CLUSTERS,
        {
            "metadata": {"annotations": {names.SPEEDS: "{" * 1000, names.PRICES: LONG}},
            "spec": {
                "clusterSource": {"kubeConfig": {"locationType": "Secret", "location": "none"}}
            },
        },
    ),
    "a DispatchProfile of nonsense": (
        kinds.DISPATCH_PROFILES,
        {
            "spec": {
                "dispatcher": "nobody",
                "arguments": {"a": [[[[[[1e308, {"b": LONG}]]]]]]},
                "timeBudget": "10000000h",
            }
        },
    ),
    "a Workload of two thousand million pods": (
        kinds.WORKLOADS,
        {"spec": {"queueName": TEAM, "podSets": pod_sets(2**31 - 1, HUGE)}},
    ),
    "a Workload of an endless quantity": (
        kinds.WORKLOADS,
        {"spec": {"queueName": TEAM, "podSets": pod_sets(1, LONG)}},
    ),
    "a Job of huge requests": (
        kinds.JOBS,
        {
            "metadata": {"labels": {names.QUEUE_NAME: TEAM}},
            "spec": {
                "suspend": True,
                "parallelism": 2**31 - 1,
                "template": pod_sets(1, HUGE)[0]["template"],
            },
        },
    ),
}


def build(resource: Resource, name: str, fields: Object) -> Object:
    """The whole object; the text NAME in it stands for its own name."""
    metadata = {**fields.get("metadata", {}), "name": name}
    if resource.namespaced:
        metadata["namespace"] = TEAM
    body = _named(fields, name)
    return {
        **body,
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
    }


def _named(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, name) for each in value]
    return name if value == "NAME" else value


@contextlib.asynccontextmanager
async def poisoned(
    fleet: Fleet, cluster: str, resource: Resource, fields: Object
) -> AsyncIterator[bool]:
    """Write an object for the length of the block; whether the API server took it."""
    client, name = fleet.clients[cluster], fleet.unused("poison")
    namespace = TEAM if resource.namespaced else None
    obj = build(resource, name, fields)
    status = obj.pop("status", None)
    try:
        await client.create(resource, obj, namespace=namespace)
    except ServerError:
        raise  # a refusal is an answer, this is none
    except ApiError:
        yield False
        return
    try:
        if status is not None:
            await write_status(client, resource, name, namespace, status)
        yield True
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(resource, name, namespace=namespace, propagation="Background")


async def write_status(
    client: KubeClient, resource: Resource, name: str, namespace: str | None, status: Object
) -> None:
    await client.patch(
        resource, name, {"status": status}, namespace=namespace, subresource="status"
    )


@pytest.mark.parametrize("cluster", [MANAGER, WORKERS[0]])
async def test_poisoned_objects_of_each_kind_harm_nobody_else(fleet: Fleet, cluster: str) -> None:
    restarts = await fleet.program.component_restarts()
    async with contextlib.AsyncExitStack() as stack:
        taken = {
            what: await stack.enter_async_context(poisoned(fleet, cluster, resource, fields))
            for what, (resource, fields) in POISONED.items()
        }
        assert sum(taken.values()) >= 10, taken  # or the rest proves nothing
        await fleet.assert_unharmed()
        assert await fleet.program.component_restarts() == restarts
    await fleet.assert_unharmed()


async def test_a_manager_starts_beside_all_of_them(fleet: Fleet) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for cluster in (MANAGER, *WORKERS):
            for resource, fields in POISONED.values():
                await stack.enter_async_context(poisoned(fleet, cluster, resource, fields))
        await fleet.restart()
        await fleet.assert_unharmed()
        assert await fleet.program.component_restarts() == {}


async def test_cohorts_in_a_circle_stop_their_queues_only(fleet: Fleet) -> None:
    first, second, queue = (fleet.unused("circle") for _ in range(3))
    cohorts = [{"spec": {"parentName": second}}, {"spec": {"parentName": first}}]
    for name, fields in zip((first, second), cohorts, strict=True):
        await fleet.manager.create(kinds.COHORTS, build(kinds.COHORTS, name, fields))
    spec = {**quotas("a100", "1"), "cohortName": first, "namespaceSelector": {}}
    body = build(kinds.CLUSTER_QUEUES, queue, {"spec": spec})
    await fleet.manager.create(kinds.CLUSTER_QUEUES, body)
    try:
        refusal = await fleet.refusal(queue, resource=kinds.CLUSTER_QUEUES)
        assert f'cohort "{first}" is part of a cycle' in refusal["message"]
        await fleet.assert_unharmed()
    finally:
        await fleet.manager.delete(kinds.CLUSTER_QUEUES, queue)
        for name in (first, second):
            await fleet.manager.delete(kinds.COHORTS, name)


async def test_a_status_that_lies_harms_nobody_else(fleet: Fleet) -> None:
    """A worker's owner writes what it likes about quota that is used there."""
    worker = fleet.clients[WORKERS[0]]
    before = (await worker.get(kinds.CLUSTER_QUEUES, WORKERS[0]))["status"]
    for total in (HUGE, LONG, "-5", "1e-400"):
        usage = [{"name": "a100", "resources": [{"name": GPU, "total": total, "borrowed": total}]}]
        with contextlib.suppress(ApiError):
            await write_status(
                worker,
                kinds.CLUSTER_QUEUES,
                WORKERS[0],
                None,
                {"flavorsReservation": usage, "flavorsUsage": usage, "reservingWorkloads": 2**31},
            )
        await fleet.program.until_ready()
    await write_status(worker, kinds.CLUSTER_QUEUES, WORKERS[0], None, before)
    await fleet.assert_unharmed()
