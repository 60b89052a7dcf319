"""Topologies end to end: nodes are watched, pods are told their domain, nodes fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import Configuration, build_configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.kube import resources
from multiqueue.model.topology import HOSTNAME
from multiqueue.model.topology_encoding import decode_topology
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import submit
from tests.integration.waiting import simulation, until
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

RACK = "example.com/rack"
POOLS = ("2xcpu,example.com/rack=r1", "2xcpu,example.com/rack=r2")
INDEX = "batch.kubernetes.io/job-completion-index"
WANTED = {names.PODSET_REQUIRED_TOPOLOGY: RACK, RUN_SECONDS: "forever"}


@asynccontextmanager
async def topology_cluster(config: Configuration = CONFIG) -> AsyncIterator[QueueCluster]:
    """Two racks of two nodes with 16 CPUs each, and a queue over them."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(config, clock=clock),
        simulation(cluster.client, *POOLS, clock=clock),
    ):
        levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
        topology = {"metadata": {"name": "racks"}, "spec": {"levels": levels}}
        await cluster.create(
            resources.TOPOLOGIES, {"apiVersion": names.V1BETA2, "kind": "Topology"} | topology
        )
        flavor = make_flavor()
        flavor["spec"] = {"nodeLabels": {"multiqueue.dev/sim-pool": "cpu"}, "topologyName": "racks"}
        await cluster.create(resources.RESOURCE_FLAVORS, flavor)
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue(cpu="64"))
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


def gang(name: str, *, pods: int, cpu: str, **annotations: str) -> dict[str, Any]:
    job = make_job(
        name, cpu=cpu, parallelism=pods, completions=pods, completionMode="Indexed", backoffLimit=9
    )
    job["spec"]["template"]["metadata"] = {"annotations": {**WANTED, **annotations}}
    return job


async def running_pods(cluster: QueueCluster, count: int) -> list[dict[str, Any]]:
    """Wait until so many pods run, and return them by rank."""

    def alive(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            pod
            for pod in pods
            if pod["status"].get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        ]

    pods = await until(
        cluster.client,
        resources.PODS,
        lambda pods: len(alive(pods)) == count,
        namespace=NAMESPACE,
        seconds=120,
    )
    return sorted(alive(pods), key=lambda pod: pod["metadata"]["labels"][INDEX])


def hosts(workload: Workload | None) -> list[str]:
    """Where a Workload is placed: a host for each pod."""
    admission = workload.status.admission if workload is not None else None
    wire = admission.pod_set_assignments[0].topology_assignment if admission else None
    if wire is None:
        return []
    return [d.values[-1] for d in decode_topology(wire).domains for _ in range(d.count)]


@virtual_time
async def test_a_gang_runs_in_one_rack_in_the_order_of_its_ranks() -> None:
    async with topology_cluster() as cluster:
        await submit(cluster, gang("train", pods=4, cpu="8"))
        assert "informer pods" in {task.get_name() for task in asyncio.all_tasks()}
        pods = await running_pods(cluster, 4)
        nodes = [pod["spec"]["nodeName"] for pod in pods]
        assert nodes == hosts(cluster.workload_of("train"))
        assert nodes == sorted(nodes)
        assert len(set(nodes)) == 2
        assert len({rack_of(node) for node in nodes}) == 1
        for pod in pods:
            assert pod["spec"]["nodeSelector"][HOSTNAME] == pod["spec"]["nodeName"]
            assert not pod["spec"].get("schedulingGates")


@virtual_time
async def test_without_the_gate_nobody_looks_at_nodes() -> None:
    gates = {"TopologyAwareScheduling": False}
    config = build_configuration({"namespace": CONFIG.namespace, "featureGates": gates})
    async with topology_cluster(config) as cluster:
        await submit(cluster, make_job("train", queue="lq"))
        await cluster.changes.until(lambda: cluster.workload_of("train"), "a Workload")
        names_of_tasks = {task.get_name() for task in asyncio.all_tasks()}
        assert not {"informer pods", "informer nodes"} & names_of_tasks


@virtual_time
async def test_a_gang_that_fits_no_rack_waits() -> None:
    async with topology_cluster() as cluster:
        await submit(cluster, gang("wide", pods=6, cpu="8"))

        def refusal() -> str:
            workload = cluster.workload_of("wide")
            conditions = workload.status.conditions if workload is not None else ()
            return next((c.message for c in conditions if c.type == "QuotaReserved"), "")

        message = await cluster.changes.until(refusal, "a reason")
        assert 'topology "racks" allows to fit only 4 out of 6 pod(s)' in message


@virtual_time
async def test_pods_without_a_topology_take_their_place() -> None:
    async with topology_cluster() as cluster:
        plain = make_job("plain", queue=None, cpu="12", suspend=False)
        plain["spec"]["template"]["metadata"] = {"annotations": {RUN_SECONDS: "forever"}}
        await submit(cluster, plain)
        (pod,) = await until(
            cluster.client,
            resources.PODS,
            lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running"],
            namespace=NAMESPACE,
        )
        await submit(cluster, gang("train", pods=1, cpu="16"))
        await cluster.changes.until(lambda: hosts(cluster.workload_of("train")), "a place")
        assert pod["spec"]["nodeName"] not in hosts(cluster.workload_of("train"))


@virtual_time
async def test_a_node_that_is_gone_is_replaced_in_its_rack() -> None:
    async with topology_cluster() as cluster:
        await submit(cluster, gang("train", pods=2, cpu="8"))
        before = [pod["spec"]["nodeName"] for pod in await running_pods(cluster, 2)]
        assert len(set(before)) == 1
        lost = before[0]
        await lose(cluster, lost)
        placed = await cluster.changes.until(
            lambda: (
                (workload := cluster.workload_of("train"))
                and is_admitted(workload.status)
                and lost not in hosts(workload)
                and workload
            ),
            "another node",
        )
        assert placed.status.unhealthy_nodes == ()
        after = [pod["spec"]["nodeName"] for pod in await running_pods(cluster, 2)]
        assert after == hosts(cluster.workload_of("train"))
        assert {rack_of(name) for name in after} == {rack_of(lost)}


def rack_of(node: str) -> str:
    """The rack of a simulated node: two to each, numbered through."""
    return f"r{1 + int(node.partition('-')[2]) // 2}"


async def lose(cluster: QueueCluster, node: str) -> None:
    await cluster.client.delete(resources.NODES, node)
    for pod in (await cluster.client.list(resources.PODS, namespace=NAMESPACE)).items:
        if pod["spec"].get("nodeName") == node:
            name = pod["metadata"]["name"]
            await cluster.client.delete(resources.PODS, name, namespace=NAMESPACE, grace_seconds=0)
