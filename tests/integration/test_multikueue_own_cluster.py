"""The manager's own API server, registered as a worker: refused before anything is done there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.kube.resources import JOBS, Resource
from tests.builders.jobs import make_gpu_job
from tests.least_privilege import REMOTE_TOKEN, documents, kubeconfig_of
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.tcp_gate import Gate, gate_to

CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
)
COLLECTS = make_config(gc_interval=timedelta(seconds=0.1))
OURS = {names.MULTIKUEUE_ORIGIN: "multikueue"}


def kubeconfig_of_hub(world: MultiKueueWorld, gate: Gate) -> dict[str, Any]:
    config: dict[str, Any] = world.hub.server.kubeconfig()
    config["clusters"][0]["cluster"] = gate.cluster
    return config


async def create_left_over(world: MultiKueueWorld) -> None:
    """A Job of the manager's cluster that looks like one that a worker is to get rid of."""
    job = make_gpu_job("precious", managed_by=None)
    job["metadata"]["labels"] = OURS
    job["metadata"]["annotations"] = {names.PREBUILT_WORKLOAD_NAME: "gone"}
    await world.hub.create(JOBS, job)


async def assert_refused(world: MultiKueueWorld) -> None:
    message = await world.until_cluster("self", reason="BadKubeConfig")
    assert "leads to the manager's own cluster" in message
    assert world.hub.job("precious") is not None


async def test_the_managers_own_cluster_is_refused_at_any_address() -> None:
    async with (
        multikueue_world("worker1") as world,
        gate_to(world.hub.server.url) as gate,
        world.manager(COLLECTS),
    ):
        await world.until_connected()
        await create_left_over(world)
        await world.add_worker("self", kubeconfig=kubeconfig_of_hub(world, gate))
        await assert_refused(world)
        await world.hub.create(JOBS, make_gpu_job())
        await world.admit("worker1")
        assert await world.until_ready() == "worker1"


async def test_it_is_refused_after_a_restart_too() -> None:
    async with multikueue_world("worker1") as world, gate_to(world.hub.server.url) as gate:
        await create_left_over(world)
        await world.add_worker("self", kubeconfig=kubeconfig_of_hub(world, gate))
        async with world.manager(COLLECTS):
            await assert_refused(world)


async def test_a_worker_whose_kubeconfig_comes_to_lead_here_is_refused() -> None:
    async with (
        multikueue_world("worker1") as world,
        gate_to(world.hub.server.url) as gate,
        world.manager(COLLECTS),
    ):
        await world.until_connected()
        await create_left_over(world)
        await world.put_secret("worker1", kubeconfig_of_hub(world, gate))
        message = await world.until_cluster("worker1", reason="BadKubeConfig")
        assert "leads to the manager's own cluster" in message
        assert world.hub.job("precious") is not None
        await world.put_secret("worker1", world.kubeconfig("worker1"))
        await world.until_cluster("worker1", reason="Active")


async def test_without_the_right_to_ask_it_is_known_by_what_it_shows() -> None:
    """A role from before the worker role had `get` on kube-system."""
    async with multikueue_world("worker1") as world, gate_to(world.hub.server.url) as gate:
        await create_left_over(world)
        (role,) = (o for o in documents("worker-role/role.yaml") if o["kind"] == "ClusterRole")
        rules = [rule for rule in role["rules"] if rule.get("resourceNames") != ["kube-system"]]
        for cluster in (world.hub, world.workers["worker1"]):
            await cluster.patch(CLUSTER_ROLES, role["metadata"]["name"], {"rules": rules})
        config = kubeconfig_of(kubeconfig_of_hub(world, gate), REMOTE_TOKEN)
        async with world.manager(COLLECTS):
            await world.until_connected()
            await world.add_worker("self", kubeconfig=config)
            await assert_refused(world)
            assert world.cluster_condition("worker1")[0] == "True"
