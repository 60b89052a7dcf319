"""Turns count what jobs turned out to take, not only what they declare (P-85, P-123)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from multiqueue.api import names
from multiqueue.kube.resources import CLUSTER_QUEUES, DISRUPTION_POLICIES, JOBS, LOCAL_QUEUES
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue, make_local_queue
from tests.integration.queue_steps import admitted, complete
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time

ALL = 2
"""The GPUs of the queue, which is on the manager's own cluster."""


async def submit(world: MultiKueueWorld, name: str, runtime: str = "") -> None:
    job = make_gpu_job(name, gpus=ALL, managed_by=None)
    job["metadata"]["labels"][names.QUEUE_NAME] = "here"
    job["metadata"]["annotations"] = {names.RUNTIME: runtime} if runtime else {}
    await world.hub.create(JOBS, job)
    await world.until(lambda: world.workload(name), f"{name} is known")
    await asyncio.sleep(2)  # times have whole seconds


async def run(world: MultiKueueWorld, name: str, took: timedelta, runtime: str = "") -> None:
    """Have a job run to its end."""
    await submit(world, name, runtime)
    await world.until(lambda: admitted(world.hub, name), f"{name} has quota")
    await asyncio.sleep(took.total_seconds())
    await complete(world.hub, name)


@virtual_time
@pytest.mark.parametrize(("passing", "first"), [(100, "short-2"), (0, "liar-11")])
async def test_who_declares_too_little_again_and_again_gains_no_turn(
    passing: int, first: str
) -> None:
    """Jobs that declare 10 seconds take 100; those of the class "short" take 30, and say nothing.

    What the last one declares would give it the first turn.
    """
    async with multikueue_world("worker1") as world, world.manager():
        policy = {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "DisruptionPolicy",
            "metadata": {"name": "turns"},
            "spec": {"waiting": {"passing": passing}},
        }
        await world.hub.create(DISRUPTION_POLICIES, policy)
        queue = make_gpu_queue(ALL, name="here")
        queue["metadata"]["annotations"] = {names.DISRUPTION_POLICY: "turns"}
        await world.hub.create(CLUSTER_QUEUES, queue)
        await world.hub.create(LOCAL_QUEUES, make_local_queue("here", cluster_queue="here"))
        for number in range(10):
            await run(world, f"liar-{number}", timedelta(seconds=100), "10s")
        await run(world, "short-1", timedelta(seconds=30))
        await submit(world, "holds")
        await submit(world, "liar-11", "10s")
        await submit(world, "short-2")
        await complete(world.hub, "holds")
        waiting = ["liar-11", "short-2"]
        await world.until(lambda: any(admitted(world.hub, each) for each in waiting), "one starts")
        assert [each for each in waiting if admitted(world.hub, each)] == [first]
