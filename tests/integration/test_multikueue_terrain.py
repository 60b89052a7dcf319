"""Topologies of workers: what is foreseen is what their own engines then do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.workload_state import is_admitted
from multiqueue.forecast.worker_forecast import WorkerForecast
from multiqueue.kube import resources
from multiqueue.kube.resources import Resource
from multiqueue.model.topology import HOSTNAME
from multiqueue.plugins import Forecast, Prospect
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.recording_dispatcher import Recording
from tests.virtual_time import virtual_time
from tests.waiting import Changes

RACK = "example.com/rack"
CONFIG = make_config(dispatcher_name="recording")
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
)


def make_node(name: str, rack: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "gpu", RACK: rack, HOSTNAME: name}},
        "status": {
            "allocatable": {GPU: "8", "cpu": "64", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_gang(name: str, pods: int, **annotations: str) -> dict[str, Any]:
    job = make_gpu_job(name, gpus=8, parallelism=pods, completions=pods, completionMode="Indexed")
    wanted = annotations or {names.PODSET_REQUIRED_TOPOLOGY: RACK}
    job["spec"]["template"]["metadata"] = {"annotations": wanted}
    return job


def make_pod(name: str, node: str) -> dict[str, Any]:
    resources_ = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    containers = [{"name": "c", "image": "i", "resources": resources_}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"nodeName": node, "containers": containers},
    }


@asynccontextmanager
async def racks() -> AsyncIterator[MultiKueueWorld]:
    """A worker with two racks of two nodes with eight GPUs each, and quota for twice as much."""
    async with multikueue_world("w", gpus=64, real_workers=True) as world:
        flavor = {"spec": {"nodeLabels": {"pool": "gpu"}, "topologyName": "racks"}}
        for cluster in (world.hub, world.workers["w"]):
            await cluster.patch(resources.RESOURCE_FLAVORS, "gpu", flavor)
        worker = world.workers["w"]
        levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
        topology = {"metadata": {"name": "racks"}, "spec": {"levels": levels}}
        kind = {"apiVersion": names.V1BETA2, "kind": "Topology"}
        await worker.create(resources.TOPOLOGIES, kind | topology)
        for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2")):
            node = make_node(name, rack)
            await worker.create(resources.NODES, node)
            status = {"status": node["status"]}
            await worker.patch(resources.NODES, name, status, subresource="status")
        yield world


async def ask(world: MultiKueueWorld, plugin: Recording, job: dict[str, Any]) -> Forecast:
    """Submit a job; return what was foreseen when its dispatcher was first asked."""
    name = job["metadata"]["name"]
    await world.hub.create(resources.JOBS, job)

    def find() -> Forecast | None:
        for view in plugin.views:
            if view.workload.key.startswith(f"{NAMESPACE}/job-{name}-"):
                return view.clusters[0].forecast
        return None

    await world.until(find, f"the dispatcher is asked about {name}")
    found = find()
    assert found is not None
    return found


def is_running(world: MultiKueueWorld, job: str) -> bool:
    copy = world.copy("w", job)
    return copy is not None and is_admitted(copy.status)


@virtual_time
async def test_gangs_are_foreseen_to_start_where_a_rack_has_room():
    plugin = Recording()
    async with racks() as world, world.manager(CONFIG, dispatchers={"recording": plugin}):
        await world.until_connected()
        worker = world.workers["w"]
        await worker.create(resources.PODS, make_pod("theirs", "a"))
        node_informers = world.multikueue.fleet.find_part("w", WorkerForecast).nodes
        await Changes(node_informers.nodes, node_informers.pods).until(
            lambda: len(node_informers.nodes.store) == 4 and node_informers.pods.store.list(),
            "nodes are seen",
        )

        async def submit(job: dict[str, Any]) -> tuple[Prospect, bool]:
            found = await ask(world, plugin, job)
            name = job["metadata"]["name"]
            if found.prospect is Prospect.FITS:
                await world.until(lambda: is_running(world, name), f"{name} runs", on="w")
            return found.prospect, is_running(world, name)

        # A pod of somebody else is on node a, so only the other rack has two whole nodes.
        assert await submit(make_gang("first", 2)) == (Prospect.FITS, True)
        assert await submit(make_gang("second", 2)) == (Prospect.WAITS, False)
        assert await submit(make_gang("third", 1)) == (Prospect.FITS, True)
        far = {names.PODSET_UNCONSTRAINED_TOPOLOGY: "true"}
        assert await submit(make_gang("fourth", 2, **far)) == (Prospect.WAITS, False)
        never = await ask(world, plugin, make_gang("never", 3))
        assert (never.prospect, never.largest) == (Prospect.NEVER, 2)
        await world.finish_job("w", "first")
        waiting = ("second", "fourth")
        await world.until(
            lambda: any(is_running(world, name) for name in waiting), "one that waited", on="w"
        )


@virtual_time
async def test_on_nodes_that_may_not_be_seen_nobody_knows_and_dispatch_goes_on():
    plugin = Recording()
    async with racks() as world:
        worker = world.workers["w"]
        role = await worker.client.get(CLUSTER_ROLES, "multikueue-manager-role")
        rules = [rule for rule in role["rules"] if "nodes" not in rule["resources"]]
        await worker.patch(CLUSTER_ROLES, "multikueue-manager-role", {"rules": rules})
        async with world.manager(CONFIG, dispatchers={"recording": plugin}):
            await world.until_connected()
            found = await ask(world, plugin, make_gang("gang", 2))
            assert (found.prospect, found.start) == (Prospect.UNKNOWN, None)
            assert "whether its nodes have the places is not known" in found.reason
            await world.until(lambda: is_running(world, "gang"), "the gang runs", on="w")
