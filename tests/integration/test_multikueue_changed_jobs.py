"""Owners change Jobs that a worker runs: what runs, what is shown and what is charged stay one."""

from __future__ import annotations

import pytest

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.workload_state import find, has_quota, is_admitted
from multiqueue.kube.resources import JOBS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, multikueue_world

RUNS = {"startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 1}


async def run_on_worker(world: MultiKueueWorld) -> None:
    """Submit a Job of one pod out of sixty, and have it run."""
    await world.hub.create(JOBS, make_gpu_job(parallelism=1, completions=60))
    assert await world.until_ready() == "worker1"
    worker = world.workers["worker1"]
    await world.until(lambda: _spec(worker, "suspend") is False, "started there", on="worker1")
    await world.set_job_status("worker1", **RUNS)
    await world.until(lambda: _status(world.hub, "active") == 1, "status back")


def _spec(cluster, field):
    return (cluster.job("train") or {}).get("spec", {}).get(field)


def _status(cluster, field):
    return (cluster.job("train") or {}).get("status", {}).get(field)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"parallelism": 5}, id="while it runs"),
        pytest.param({"parallelism": 5, "suspend": True}, id="and suspend it"),
    ],
)
async def test_a_job_that_asks_for_more_pods_stops_on_its_worker_and_queues_again(change):
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await run_on_worker(world)
        uid, worker = world.workload().metadata.uid, world.workers["worker1"]
        await world.hub.patch(JOBS, "train", {"spec": change}, namespace=NAMESPACE)

        await world.until(lambda: _spec(worker, "suspend"), "stopped there", on="worker1")
        assert has_quota(world.workload().status), "its pods run: the quota is held"
        evicted = find(world.workload().status, WorkloadCondition.EVICTED)
        assert (evicted.reason, evicted.message) == (
            "NoMatchingWorkload",
            'The job was changed: it asks for 5 "main" pods, 1 "main" were admitted',
        )
        await world.set_job_status("worker1", active=0, ready=0)

        await world.until(lambda: _spec(worker, "parallelism") == 5, "at its new size")
        assert await world.until_ready() == "worker1"
        workload = world.workload()
        got = (workload.metadata.uid, workload.spec.pod_sets[0].count, is_admitted(workload.status))
        assert got == (uid, 5, True)
        await world.until(lambda: _spec(world.hub, "suspend") is False, "let go")


async def test_a_job_that_waits_for_its_worker_follows_its_owner():
    async with multikueue_world("worker1") as world, world.manager():
        await world.hub.create(JOBS, make_gpu_job(parallelism=1, completions=60))
        await world.until(lambda: world.copy("worker1"), "offered", on="worker1")
        await world.hub.patch(JOBS, "train", {"spec": {"parallelism": 5}}, namespace=NAMESPACE)

        def has_new_size() -> bool:
            copy = world.copy("worker1")
            return copy is not None and copy.spec.pod_sets[0].count == 5

        await world.until(has_new_size, "offered at its new size", on="worker1")
