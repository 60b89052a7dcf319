"""What dispatchers are shown beside forecasts: the worker itself, and who of ours is there."""

from __future__ import annotations

import asyncio

from multiqueue.api.names import CLUSTER_NAMES, CLUSTER_TAINTS
from multiqueue.dispatch.ask.dispatcher_view import LAST_APPLIED
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS
from multiqueue.plugins import CopyState, DispatchView, Prospect
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.integration.test_multikueue_terrain import CLUSTER_ROLES
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.recording_dispatcher import Recording
from tests.virtual_time import virtual_time

ROLE = "multikueue-manager-role"
QUEUES = {"clusterqueues", "localqueues", "cohorts", "resourceflavors"}


async def show(world: MultiKueueWorld, plugin: Recording, name: str) -> DispatchView:
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

        fleet = world.multikueue.fleet
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


def list_first_views(plugin: Recording) -> list[DispatchView]:
    """Return the first view of each Workload; now and then a dispatcher is asked twice."""
    return list({view.workload.key: view for view in reversed(plugin.views)}.values())[::-1]


@virtual_time
async def test_a_burst_does_not_see_the_same_room_twice():
    """What was nominated counts before its copy is there, and only where it may really go."""
    plugin = Recording()
    async with (
        multikueue_world("worker1", "worker2") as world,
        world.manager(make_config(dispatcher_name="recording"), dispatchers={"recording": plugin}),
    ):
        await world.until_connected()
        await asyncio.gather(*(world.hub.create(JOBS, make_gpu_job(name)) for name in "abc"))
        await world.until(lambda: len(list_first_views(plugin)) == 3, "asked about all three")
        views = list_first_views(plugin)
        rooms = [[c.queue.quotas["gpu", GPU].in_flight for c in view.clusters] for view in views]
        assert rooms == [[0, 0], [1, 0], [2, 0]]


@virtual_time
async def test_what_may_not_go_where_a_dispatcher_sends_it_takes_no_room_there():
    plugin = Recording()
    async with (
        multikueue_world("worker1", "worker2") as world,
        world.manager(make_config(dispatcher_name="recording"), dispatchers={"recording": plugin}),
    ):
        await world.until_connected()
        closed = make_gpu_job("closed")
        closed["metadata"]["annotations"] = {CLUSTER_NAMES: "worker2"}
        await world.hub.create(JOBS, closed)
        await world.until(lambda: plugin.views, "asked about it")
        assert plugin.views[0].clusters[0].unusable
        view = await show(world, plugin, "next")
        assert view.clusters[0].queue.quotas["gpu", GPU].in_flight == 0


@virtual_time
async def test_a_worker_whose_queues_may_not_be_read_is_unknown_and_tried_where_no_room_is_known():
    plugin, config = Recording(), make_config(dispatcher_name="score")
    async with multikueue_world("dark", "seen", gpus=2, real_workers=True) as world:
        role = await world.workers["dark"].client.get(CLUSTER_ROLES, ROLE)
        rules = [rule for rule in role["rules"] if not QUEUES & set(rule["resources"])]
        await world.workers["dark"].patch(CLUSTER_ROLES, ROLE, {"rules": rules})
        async with world.manager(
            make_config(dispatcher_name="recording"), dispatchers={"recording": plugin}
        ):
            await world.until_connected()
            dark, seen = (await show(world, plugin, "first")).clusters
            assert (dark.queue, dark.queue_known, dark.forecast) == (None, False, None)
            assert seen.forecast.prospect is Prospect.FITS
            assert await world.until_ready("first") == "dark", "the dispatcher may send it there"
        async with world.manager(config):
            await world.until_connected()
            for name, where in (("second", "seen"), ("third", "dark")):
                await world.hub.create(JOBS, make_gpu_job(name, gpus=2 if name == "second" else 1))
                assert await world.until_ready(name) == where
