"""What dispatchers are shown beside forecasts: the worker itself, and who of ours is there."""

from __future__ import annotations

from multiqueue.api.names import CLUSTER_TAINTS
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS
from multiqueue.multikueue.dispatching.view import LAST_APPLIED
from multiqueue.plugins import CopyState, DispatchView
from tests.multikueue_world import World, make_config, make_gpu_job, multikueue_world
from tests.recording_dispatcher import Recording
from tests.virtual_time import virtual_time


async def show(world: World, plugin: Recording, name: str) -> DispatchView:
    """Submit a job, and return the first view of it."""
    before = len(plugin.views)
    job = make_gpu_job(name)
    job["metadata"]["annotations"] = {LAST_APPLIED: "all of it once more", "team": "vision"}
    await world.hub.create(JOBS, job)
    await world.until(lambda: len(plugin.views) > before, f"asked about {name}")
    return plugin.views[before]


@virtual_time
async def test_a_view_tells_of_the_worker_and_of_our_jobs_there():
    plugin = Recording()
    async with (
        multikueue_world("worker1", "worker2") as world,
        world.manager(make_config(dispatcher_name="recording"), dispatchers={"recording": plugin}),
    ):
        await world.until_connected()
        marks = {"labels": {"rack": "7"}, "annotations": {CLUSTER_TAINTS: "old:PreferNoSchedule"}}
        await world.hub.patch(MULTIKUEUE_CLUSTERS, "worker1", {"metadata": marks})
        view = await show(world, plugin, "first")
        assert view.workload.annotations == {"team": "vision"}
        await world.admit("worker1", "first")
        await world.until_ready("first")
        await show(world, plugin, "second")
        await world.until(lambda: world.copy("worker1", "second"), "its copy", on="worker1")

        fleet = next(part for part in world.parts if part.name == "multikueue-workers")
        health = fleet.find_health("worker1")
        for _ in range(3):
            health.note_dispatch("whatever", taken=False)
        view = await show(world, plugin, "third")
        one, other = view.clusters
        assert (one.labels["rack"], one.avoid) == ("7", "has taint old:PreferNoSchedule")
        assert (one.running, one.waiting, one.neighbours) == (1, 1, 2)
        assert one.health == health.score < 1
        assert (other.labels, other.avoid, other.health) == ({}, "", 1)
        assert (other.running, other.waiting, other.neighbours) == (0, 0, 0)
        assert (one.copy, other.copy) == (CopyState.ABSENT, CopyState.ABSENT)


@virtual_time
async def test_the_copy_of_the_job_itself_is_nobody_who_is_in_its_way():
    """Asked again, it sees what it saw at first, and itself not among its neighbours."""
    plugin = Recording()
    async with (
        multikueue_world("worker1", "worker2", gpus=1) as world,
        world.manager(make_config(dispatcher_name="recording"), dispatchers={"recording": plugin}),
    ):
        await world.until_connected()
        view = await show(world, plugin, "first")
        before = view.clusters[0].queue.quotas
        await world.until(lambda: world.copy("worker1", "first"), "its copy", on="worker1")
        await world.set_clusters("worker1")
        await world.until(lambda: len(plugin.views[-1].clusters) == 1, "asked again")
        (cluster,) = plugin.views[-1].clusters
        assert cluster.copy is CopyState.PENDING
        assert (cluster.queue.quotas, cluster.neighbours) == (before, 0)
