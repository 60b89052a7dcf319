"""Which worker gets a job: with workers that run this program, and with plugins that misbehave."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from multiqueue.api.workload_state import is_finished
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, RESOURCE_FLAVORS
from multiqueue.plugins import DispatchView, Nomination
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue
from tests.multikueue_world import (
    CHECK,
    MultiKueueWorld,
    make_config,
    multikueue_world,
    record_warnings,
)

SCORE = make_config(dispatcher_name="score")


async def submit(world: MultiKueueWorld, name: str = "train", **constraints: object) -> None:
    await world.hub.create(JOBS, make_gpu_job(name, **constraints))


async def resize(world: MultiKueueWorld, worker: str, gpus: int) -> None:
    """Give a worker another quota."""
    queue = make_gpu_queue(gpus)
    await world.workers[worker].patch(CLUSTER_QUEUES, "cq", {"spec": queue["spec"]})


async def end(world: MultiKueueWorld, worker: str, job: str) -> None:
    await world.finish_job(worker, job)
    await world.until(lambda: is_finished(world.workload(job).status), f"{job} finished")


async def test_score_sends_one_copy_to_the_worker_where_the_least_is_left_over():
    async with multikueue_world("big", "small", real_workers=True) as world, world.manager(SCORE):
        await resize(world, "small", 4)
        await world.until_connected()
        await submit(world, gpus=4)
        assert await world.until_ready() == "small"
        assert "big" not in world.workload().status.nominated_cluster_names
        assert world.copy("big") is None
        await submit(world, "next", gpus=4)
        assert await world.until_ready("next") == "big"


async def test_score_gives_a_burst_to_workers_that_hold_it():
    async with multikueue_world("w1", "w2", real_workers=True) as world, world.manager(SCORE):
        await world.until_connected()
        names = [f"job{number}" for number in range(4)]
        for name in names:
            await submit(world, name, gpus=4)
        got = [await world.until_ready(name) for name in names]
        assert sorted(got) == ["w1", "w1", "w2", "w2"]


async def test_a_start_here_and_one_on_the_worker_do_not_get_in_each_others_way():
    """The worker is often faster: its status waits until the job has its flavors here."""
    async with multikueue_world("w", real_workers=True) as world, world.manager(SCORE):
        await resize(world, "w", 20)
        await world.until_connected()
        jobs = [f"job{number}" for number in range(20)]
        for name in jobs:
            await submit(world, name)
        for name in jobs:
            await world.until(
                lambda job=name: not world.hub.job(job)["spec"]["suspend"], f"{name} started"
            )
        got = [(w.method, w.resource, w.status) for w in world.hub.writes if "jobs" in w.resource]
        assert [each for each in got if each[0] == "PATCH"] == [("PATCH", "jobs", 200)] * len(jobs)


async def test_a_job_goes_where_its_hardware_is():
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager(SCORE):
        for worker, label in (("a", "a100"), ("b", "h100")):
            cluster = world.workers[worker]
            await cluster.patch(
                RESOURCE_FLAVORS,
                "gpu",
                {"spec": make_gpu_flavor("gpu", accelerator=label)["spec"]},
            )
        await world.until_connected()
        await submit(world, node_selector={"accelerator": "h100"})
        assert await world.until_ready() == "b"


async def test_what_has_to_wait_goes_where_room_comes_first():
    async with multikueue_world("w1", "w2", real_workers=True) as world, world.manager(SCORE):
        await world.until_connected()
        for name in ("one", "two"):
            await submit(world, name, gpus=8)
        where = {name: await world.until_ready(name) for name in ("one", "two")}
        await submit(world, "late", gpus=8)
        await world.until(
            lambda: "in the global queue" in world.check("late")[1], "a place in the global queue"
        )
        assert world.workload("late").status.nominated_cluster_names == ()
        assert [world.copy(name, "late") for name in ("w1", "w2")] == [None, None]
        await end(world, where["two"], "two")
        assert await world.until_ready("late") == where["two"]


async def test_those_in_line_come_up_in_the_order_of_their_turns():
    """A gang lets pass what takes less, and gets what that gives back."""
    async with multikueue_world("w", real_workers=True) as world, world.manager(SCORE):
        await world.until_connected()
        await submit(world, "first", gpus=8)
        await world.until_ready("first")
        await submit(world, "gang", gpus=8)
        await world.until(
            lambda: "in the global queue" in world.check("gang")[1], "a place in the global queue"
        )
        assert 'kept for it on "w"' in world.check("gang")[1]
        await submit(world, "small", gpus=1)
        await world.until(
            lambda: "in the global queue" in world.check("small")[1], "a place in the global queue"
        )
        await end(world, "w", "first")
        assert await world.until_ready("small") == "w"
        assert world.workload("gang").status.cluster_name is None
        await end(world, "w", "small")
        assert await world.until_ready("gang") == "w"


async def test_a_gang_that_a_lost_worker_might_hold_waits_and_says_so():
    async with multikueue_world("a", "b", real_workers=True) as world, world.manager(SCORE):
        world.gates["b"].cut()
        await world.until_cluster("b", reason="ClientConnectionFailed")
        await submit(world, gpus=16)
        await world.until(lambda: "b is not connected" in world.check()[1], "the reason")
        assert world.check()[0] == "Pending"
        assert "a has at most 8 nvidia.com/gpu, 16 asked" in world.check()[1]


async def test_a_cluster_added_to_the_configuration_is_offered_what_waits():
    """T-35."""
    async with multikueue_world("w1", "w2") as world, world.manager():
        await world.set_clusters("w1")
        await world.until_connected()
        await submit(world)
        await world.until(lambda: world.copy("w1"), "copy on w1", on="w1")
        assert world.copy("w2") is None
        await world.set_clusters("w1", "w2")
        await world.until(lambda: world.copy("w2"), "copy on w2", on="w2")


async def test_an_unknown_dispatcher_stops_nothing_and_is_named_on_the_check():
    config = make_config(dispatcher_name="nobody")
    async with multikueue_world("w1") as world, world.manager(config):
        await submit(world)
        await world.until(
            lambda: 'dispatcher "nobody" is not installed' in world.check()[1],
            "the reason",
        )
        assert "all-at-once" in world.check()[1]
        assert world.check()[0] == "Pending"


@dataclass
class Misbehaving:
    """Hangs, raises or lies, as the annotation of the Workload's name says."""

    name: str = "misbehaving"
    released: threading.Event = field(default_factory=threading.Event)

    def nominate(self, view: DispatchView) -> Nomination:
        if "hang" in view.workload.key:
            self.released.wait(30)
        if "raise" in view.workload.key:
            raise ValueError("no idea")
        if "lie" in view.workload.key:
            return Nomination(clusters=("atlantis", "w1"))
        return Nomination(clusters=("w1",))


MISBEHAVING = make_config(dispatcher_name="misbehaving")


async def test_a_dispatcher_that_raises_fails_for_that_workload_only():
    plugin = Misbehaving()
    place = f"test_multikueue_dispatch.py, line {plugin.nominate.__code__.co_firstlineno + 4}"
    words = f'dispatcher "misbehaving" failed: ValueError: no idea ({place})'
    async with (
        multikueue_world("w1") as world,
        world.manager(MISBEHAVING, dispatchers={"misbehaving": plugin}) as context,
    ):
        warnings = record_warnings(context)
        await world.until_connected()
        await submit(world, "raise")
        await submit(world, "good")
        await world.until(lambda: world.check("raise")[1] == words, "the reason")
        await world.until(lambda: world.copy("w1", "good"), "the other job", on="w1")
        assert warnings == [words]


async def test_unknown_names_are_dropped_and_reported_and_the_rest_is_used():
    plugin = Misbehaving()
    async with (
        multikueue_world("w1") as world,
        world.manager(MISBEHAVING, dispatchers={"misbehaving": plugin}),
    ):
        await world.until_connected()
        await submit(world, "lie")
        await world.until(lambda: world.copy("w1", "lie"), "the known one is used", on="w1")
        message = world.check("lie")[1]
        assert (
            'atlantis is no cluster of this check, but dispatcher "misbehaving" named it' in message
        )
        assert world.workload("lie").status.nominated_cluster_names == ("w1",)


async def test_a_dispatcher_that_hangs_leaves_workloads_pending_and_the_manager_at_work():
    plugin = Misbehaving()
    try:
        async with (
            multikueue_world("w1") as world,
            world.manager(MISBEHAVING, dispatchers={"misbehaving": plugin}),
        ):
            await world.until_connected()
            await submit(world, "good")
            await world.admit("w1", "good")
            await world.until_ready("good")
            await submit(world, "hang")
            await world.until(
                lambda: "did not answer within 1 s" in world.check("hang")[1], "the reason"
            )
            await world.run_job("w1", "good")
            await world.until(
                lambda: world.hub.job("good").get("status", {}).get("active"), "status still comes"
            )
            assert world.check("hang")[0] == "Pending"
            assert world.workload("hang").status.admission_checks[0].name == CHECK
    finally:
        plugin.released.set()
