"""After all attacks, and after a flood of jobs: quota that queues tell of is what Workloads hold.

The last module: it looks at what every other one has left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from tests.abuse.fleet import Fleet
from tests.abuse.quota_sums import compare, told

ATTACKER = "research"
GPU = "nvidia.com/gpu"
FLOOD = 300
SETTLED_SECONDS = 30.0
"""Statuses follow within a second or two; a machine may be slow."""


async def list_wrong(fleet: Fleet) -> list[str]:
    """Return the queues whose status differs from what their Workloads say."""
    wrong: list[str] = []
    for cluster, client in fleet.clients.items():
        lists = [
            (await client.list(kind)).items for kind in (CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)
        ]
        wrong += [f"{cluster}: {each}" for each in compare(*lists)]
    return wrong


async def assert_sums(fleet: Fleet) -> None:
    wrong: list[str] = ["not looked at"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLED_SECONDS):
            while wrong:
                await asyncio.sleep(0.5)
                wrong = await list_wrong(fleet)
    assert not wrong, "\n".join(wrong)


@contextlib.asynccontextmanager
async def flooded(fleet: Fleet, *, jobs: int, run_seconds: float) -> AsyncIterator[list[str]]:
    """Submit jobs of one GPU each; answers their names."""
    names = [fleet.unused("flood") for _ in range(jobs)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                job = build_job(
                    DemoJob(team=ATTACKER, name=name, pods=1, gpus_each=1, run_seconds=run_seconds)
                )
                tasks.create_task(fleet.manager.create(JOBS, job, namespace=ATTACKER))
        yield names
    finally:
        await delete(fleet, names)


async def delete(fleet: Fleet, names: list[str]) -> None:
    async def delete_one(name: str) -> None:
        with contextlib.suppress(NotFound):
            await fleet.manager.delete(JOBS, name, namespace=ATTACKER, propagation="Background")

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(delete_one(name))


async def test_sums_are_right_after_all_attacks(fleet: Fleet) -> None:
    await assert_sums(fleet)


@pytest.mark.timeout(240)
async def test_sums_are_right_beside_a_flood_that_waits_and_after_it(fleet: Fleet) -> None:
    async with flooded(fleet, jobs=FLOOD, run_seconds=3600.0) as names:
        await assert_sums(fleet)
        queue = await fleet.manager.get(CLUSTER_QUEUES, ATTACKER)
        assert queue["status"]["pendingWorkloads"] > FLOOD // 2
        await delete(fleet, names[::2])
        await assert_sums(fleet)
    await assert_sums(fleet)
    queue = await fleet.manager.get(CLUSTER_QUEUES, ATTACKER)
    assert (queue["status"]["reservingWorkloads"], queue["status"]["pendingWorkloads"]) == (0, 0)


async def test_a_status_is_of_one_moment_while_jobs_come_and_go(fleet: Fleet) -> None:
    """Each job has one GPU, so that counts and amounts are the same at any moment."""
    async with flooded(fleet, jobs=FLOOD // 3, run_seconds=0.2):
        most = 0
        for _ in range(100):
            await asyncio.sleep(0.1)
            for queue in (await fleet.manager.list(CLUSTER_QUEUES)).items:
                sums = told(queue["status"])
                gpus = {
                    name: sum(n for (_, each), n in amounts.items() if each == GPU) // 1000
                    for name, amounts in (("held", sums.reservation), ("used", sums.usage))
                }
                assert gpus == {"held": sums.reserving, "used": sums.admitted}
                most = max(most, sums.reserving)
        assert most > 1
    await assert_sums(fleet)
