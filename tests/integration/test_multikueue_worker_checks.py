"""What a manager waits for while its workers do it: nodes that are provisioned, and places in a
topology. T-66 to T-68, T-111 to T-114, G-21.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CheckState
from multiqueue.api.crd.autoscaling import provisioning_request_crd
from multiqueue.api.v1beta2 import PodSetAssignment
from multiqueue.api.workload_state import has_quota
from multiqueue.kube import resources
from multiqueue.model.topology_encoding import decode_topology
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU, make_gpu_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.provisioning_steps import CHECK as PROVISIONING
from tests.integration.provisioning_steps import make_config as make_provisioning_config
from tests.integration.provisioning_steps import make_provisioning_check
from tests.integration.waiting import until
from tests.multikueue_world import CHECK, MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

BLOCK, HOST = "example.com/block", "kubernetes.io/hostname"
Json = dict[str, Any]


# ---------------------------------------------------------------- provisioning


async def provision_first(cluster: QueueCluster) -> None:
    """Have a worker's queue ask for nodes before it admits."""
    await cluster.create(resources.CRDS, provisioning_request_crd())
    await cluster.create(resources.PROVISIONING_REQUEST_CONFIGS, make_provisioning_config())
    await cluster.create(resources.ADMISSION_CHECKS, make_provisioning_check())
    await cluster.client.patch(
        resources.CLUSTER_QUEUES, "cq", make_gpu_queue(8, checks=(PROVISIONING,))
    )


async def list_requests(cluster: QueueCluster) -> list[Json]:
    return list((await cluster.client.list(resources.PROVISIONING_REQUESTS)).items)


async def provision(cluster: QueueCluster) -> None:
    """Play the autoscaler for one request."""
    [request] = await until(
        cluster.client, resources.PROVISIONING_REQUESTS, bool, namespace=NAMESPACE
    )
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "r",
            "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("Accepted", "Provisioned")
    ]
    await cluster.client.patch(
        resources.PROVISIONING_REQUESTS,
        request["metadata"]["name"],
        {"status": {"conditions": conditions}},
        namespace=NAMESPACE,
        subresource="status",
    )


@contextlib.asynccontextmanager
async def provisioning_world(
    *workers: str, dispatcher: str, **arguments: int
) -> AsyncIterator[MultiKueueWorld]:
    async with multikueue_world(*workers) as world, contextlib.AsyncExitStack() as stack:
        for name in workers:
            await provision_first(world.workers[name])
            await stack.enter_async_context(world.workers[name].manager())
        config = make_config(dispatcher_name=dispatcher, dispatcher_arguments=arguments)
        await stack.enter_async_context(world.manager(config))
        await world.until_connected()
        yield world


async def until_reserved(world: MultiKueueWorld, worker: str) -> None:
    await world.until(
        lambda: (c := world.copy(worker)) and has_quota(c.status), "quota there", on=worker
    )


@virtual_time
async def test_the_manager_waits_until_the_worker_has_nodes():
    """T-66, T-67."""
    async with provisioning_world("w1", "w2", dispatcher="all-at-once") as world:
        await world.hub.create(resources.JOBS, make_gpu_job())
        for name in ("w1", "w2"):
            await until_reserved(world, name)
            await until(
                world.workers[name].client,
                resources.PROVISIONING_REQUESTS,
                lambda requests: len(requests) == 1,
                namespace=NAMESPACE,
            )
        assert world.check()[0] == CheckState.PENDING

        await provision(world.workers["w1"])
        assert await world.until_ready() == "w1"
        await world.until(lambda: world.copy("w2") is None, "the loser goes", on="w2")
        await until(
            world.workers["w2"].client,
            resources.PROVISIONING_REQUESTS,
            lambda requests: not requests,
            namespace=NAMESPACE,
        )


async def test_score_asks_one_worker_for_nodes():
    """M-190: nobody pays twice."""
    async with provisioning_world("w1", "w2", dispatcher="score") as world:
        await world.hub.create(resources.JOBS, make_gpu_job())
        await world.until(
            lambda: (w := world.workload()) and w.status.nominated_cluster_names, "nominated"
        )
        (chosen,) = world.workload().status.nominated_cluster_names
        await until_reserved(world, chosen)
        await provision(world.workers[chosen])
        assert await world.until_ready() == chosen
        other = {"w1": "w2", "w2": "w1"}[chosen]
        assert await list_requests(world.workers[other]) == []


@virtual_time
async def test_as_many_as_are_told_to_race_for_nodes_and_the_first_to_have_them_wins():
    async with provisioning_world("w1", "w2", "w3", dispatcher="score", race=2) as world:
        await world.hub.create(resources.JOBS, make_gpu_job())
        for name in ("w1", "w2"):
            await until_reserved(world, name)
        assert world.workload().status.nominated_cluster_names == ("w1", "w2")
        await provision(world.workers["w2"])
        assert await world.until_ready() == "w2"
        await world.until(lambda: world.copy("w1") is None, "the loser goes", on="w1")
        assert await list_requests(world.workers["w3"]) == []


# ---------------------------------------------------------------- topology


async def use_topology(cluster: QueueCluster, *, checks: tuple[str, ...] = ()) -> None:
    levels = [{"nodeLabel": BLOCK}, {"nodeLabel": HOST}]
    await cluster.create(
        resources.TOPOLOGIES,
        {
            "apiVersion": names.V1BETA2,
            "kind": "Topology",
            "metadata": {"name": "blocks"},
            "spec": {"levels": levels},
        },
    )
    await cluster.create(
        resources.RESOURCE_FLAVORS,
        {
            "apiVersion": names.V1BETA2,
            "kind": "ResourceFlavor",
            "metadata": {"name": "tas"},
            "spec": {"nodeLabels": {"pool": "tas"}, "topologyName": "blocks"},
        },
    )
    queue = make_gpu_queue(8, flavor="tas", checks=checks)
    await cluster.client.patch(resources.CLUSTER_QUEUES, "cq", {"spec": queue["spec"]})


async def add_node(cluster: QueueCluster, block: str, host: str, gpus: int) -> None:
    amount = {GPU: str(gpus), "cpu": "8", "memory": "8Gi", "pods": "20"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host, "labels": {"pool": "tas", BLOCK: block, HOST: host}},
        "status": {
            "allocatable": amount,
            "capacity": amount,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await cluster.create(resources.NODES, node)
    await cluster.client.patch(
        resources.NODES, host, {"status": node["status"]}, subresource="status"
    )


def assignment(world: MultiKueueWorld, worker: str | None = None) -> PodSetAssignment:
    workload = world.workload() if worker is None else world.copy(worker)
    assert workload is not None
    assert workload.status.admission is not None
    return workload.status.admission.pod_set_assignments[0]


@contextlib.asynccontextmanager
async def topology_world(**nodes: tuple[str, int]) -> AsyncIterator[MultiKueueWorld]:
    """A manager without nodes and a worker with these: block and GPUs by name."""
    async with multikueue_world("w1") as world, contextlib.AsyncExitStack() as stack:
        await use_topology(world.hub, checks=(CHECK,))
        worker = world.workers["w1"]
        await use_topology(worker)
        for host, (block, gpus) in nodes.items():
            await add_node(worker, block, host, gpus)
        await stack.enter_async_context(worker.manager())
        await stack.enter_async_context(world.manager())
        await world.until_connected()
        yield world


def make_gang(pods: int, **annotations: str) -> Json:
    job = make_gpu_job(gpus=2, parallelism=pods, completions=pods)
    if annotations:
        job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


@pytest.mark.parametrize(
    "annotations",
    [{names.PODSET_REQUIRED_TOPOLOGY: BLOCK}, {}],
    ids=["asked for", "implied by the flavor"],
)
@virtual_time
async def test_the_topology_is_the_worker_s_and_the_manager_learns_that_it_is_there(
    annotations: dict[str, str],
):
    """T-68, T-111, T-112: M-191."""
    async with topology_world(n1=("b1", 2), n2=("b2", 2), n3=("b2", 2)) as world:
        await world.hub.create(resources.JOBS, make_gang(2, **annotations))
        await world.until_ready()
        theirs, ours = assignment(world, "w1"), assignment(world)
        assert theirs.topology_assignment is not None
        assert (ours.topology_assignment, ours.delayed_topology_request) == (None, "Ready")
        hosts = decode_topology(theirs.topology_assignment).nodes()
        assert hosts == ("n2", "n3") if annotations else len(hosts) == 2


@virtual_time
async def test_a_gang_that_fits_no_block_of_the_worker_waits_for_one():
    async with topology_world(n1=("b1", 2), n2=("b2", 2)) as world:
        gang = make_gang(2, **{names.PODSET_REQUIRED_TOPOLOGY: BLOCK})
        await world.hub.create(resources.JOBS, gang)
        await world.until(lambda: world.copy("w1"), "copy", on="w1")
        await world.until(
            lambda: (w := world.workload()) and has_quota(w.status), "quota of the manager"
        )
        assert assignment(world).delayed_topology_request == "Pending"
        await add_node(world.workers["w1"], "b2", "n3", 2)
        await world.until_ready()
        assert assignment(world).delayed_topology_request == "Ready"


@virtual_time
async def test_places_are_found_once_nodes_were_provisioned():
    """G-21: upstream names it and has no test."""
    async with multikueue_world("w1") as world, contextlib.AsyncExitStack() as stack:
        worker = world.workers["w1"]
        await use_topology(world.hub, checks=(CHECK,))
        await use_topology(worker)
        await worker.create(resources.CRDS, provisioning_request_crd())
        await worker.create(resources.PROVISIONING_REQUEST_CONFIGS, make_provisioning_config())
        await worker.create(resources.ADMISSION_CHECKS, make_provisioning_check())
        queue = make_gpu_queue(8, flavor="tas", checks=(PROVISIONING,))
        await worker.client.patch(resources.CLUSTER_QUEUES, "cq", {"spec": queue["spec"]})
        await stack.enter_async_context(worker.manager())
        await stack.enter_async_context(world.manager())
        await world.until_connected()
        gang = make_gang(2, **{names.PODSET_REQUIRED_TOPOLOGY: BLOCK})
        await world.hub.create(resources.JOBS, gang)
        await until_reserved(world, "w1")
        assert assignment(world, "w1").topology_assignment is None
        for host in ("n1", "n2"):
            await add_node(worker, "b1", host, 2)
        await provision(worker)
        await world.until_ready()
        assert assignment(world, "w1").topology_assignment is not None
        assert assignment(world).delayed_topology_request == "Ready"
