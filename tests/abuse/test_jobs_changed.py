"""Jobs that their owners change while they run, or that can never run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import evict
from multiqueue.embedded.cluster.lifecycle import STOP_SECONDS
from multiqueue.jobs.workload_wire import build_status_patch
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, PODS, WORKLOADS
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from tests.abuse.fleet import WORKERS, Fleet, Object
from tests.integration.waiting import is_true, until, until_one

TEAM = "research"
FOREVER = 3600.0


@contextlib.asynccontextmanager
async def submitted(fleet: Fleet, change: Callable[[Object], None]) -> AsyncIterator[str]:
    """A long job of the team for the length of the block, changed before it is created."""
    name = fleet.unused("changed")
    job = build_job(DemoJob(team=TEAM, name=name, pods=1, gpus_each=1, run_seconds=FOREVER))
    change(job)
    await fleet.manager.create(JOBS, job, namespace=TEAM)
    try:
        yield name
    finally:
        await fleet.manager.delete(JOBS, name, namespace=TEAM, propagation="Background")
        for worker in fleet.clients.values():
            await until(worker, PODS, lambda pods: not _of(pods, name), namespace=TEAM, seconds=60)


def _of(objects: list[Object], job: str) -> list[Object]:
    """Pods and Workloads of a job."""
    return [o for o in objects if any(r["name"] == job for r in _owners(o))]


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


async def until_job(fleet: Fleet, name: str, holds: Callable[[Object], Any]) -> Object:
    return await until_one(
        fleet.manager, JOBS, name, lambda job: bool(holds(job)), namespace=TEAM, seconds=60
    )


async def until_workload(fleet: Fleet, job: str, holds: Callable[[Object], Any]) -> Object:
    def find(objects: list[Object]) -> list[Object]:
        return [obj for obj in _of(objects, job) if holds(obj)]

    found = await until(
        fleet.manager, WORKLOADS, lambda o: bool(find(o)), namespace=TEAM, seconds=60
    )
    return find(found)[0]


def is_active(job: Object) -> bool:
    return bool((job.get("status") or {}).get("active"))


async def test_more_pods_than_were_admitted_are_refused(fleet: Fleet) -> None:
    async with submitted(fleet, lambda _: None) as name:
        await until_job(fleet, name, is_active)
        with pytest.raises(ApiError, match="cannot change while a worker cluster runs the job"):
            await fleet.manager.patch(JOBS, name, {"spec": {"parallelism": 50}}, namespace=TEAM)


async def test_a_job_that_is_suspended_with_another_size_queues_again(fleet: Fleet) -> None:
    async with submitted(fleet, lambda job: job["spec"].update(completions=4)) as name:
        await until_job(fleet, name, is_active)
        change = {"spec": {"suspend": True, "parallelism": 2}}
        await fleet.manager.patch(JOBS, name, change, namespace=TEAM)

        await until_job(fleet, name, lambda job: job["status"].get("active") == 2)
        workload = await until_workload(fleet, name, lambda obj: is_true(obj, "Admitted"))
        worker = fleet.clients[workload["status"]["clusterName"]]
        there = await worker.get(JOBS, name, namespace=TEAM)
        got = (workload["spec"]["podSets"][0]["count"], there["spec"]["parallelism"])
        assert got == (2, 2)


async def test_a_job_whose_pods_kubernetes_refuses_holds_no_quota(fleet: Fleet) -> None:
    def change(job: Object) -> None:
        job["spec"]["template"]["spec"]["priority"] = 2_000_000_000

    async with submitted(fleet, change) as name:
        async with asyncio.timeout(30):
            while True:
                code, why = await fleet.cli("why", "-n", TEAM, name)
                if "spec.priority" in why:
                    break
        assert code == 1
        assert "sets spec.priority 2000000000, but the priority of its pods is 0" in why
        assert not _of((await fleet.manager.list(WORKLOADS, namespace=TEAM)).items, name)


async def test_a_manager_that_was_away_gives_no_quota_back_while_the_job_runs(
    fleet: Fleet,
) -> None:
    """It finds an eviction that is far older than twice workerLostTimeout."""

    def change(job: Object) -> None:
        job["spec"]["template"]["metadata"]["annotations"][STOP_SECONDS] = "10"

    async with submitted(fleet, change) as name:
        await until_job(fleet, name, is_active)
        found = await until_workload(fleet, name, lambda obj: is_true(obj, "Admitted"))
        worker = fleet.clients[found["status"]["clusterName"]]
        pods = _of((await worker.list(PODS, namespace=TEAM)).items, name)
        assert len(pods) == 1
        await evict_long_ago(fleet, found)
        fleet.program.signal(signal.SIGKILL)
        await fleet.restart()
        await until_workload(fleet, name, lambda obj: not is_true(obj, "QuotaReserved"))

        left = _of((await worker.list(PODS, namespace=TEAM)).items, name)
        uids = {pod["metadata"]["uid"] for pod in left}
        assert pods[0]["metadata"]["uid"] not in uids, "the quota was released while a pod ran"


async def test_a_kubeconfig_that_becomes_garbage_and_comes_back_costs_no_job(fleet: Fleet) -> None:
    async with submitted(fleet, lambda _: None) as name:
        await until_job(fleet, name, is_active)
        found = await until_workload(fleet, name, lambda obj: is_true(obj, "Admitted"))
        worker = found["status"]["clusterName"]
        before = _of((await fleet.clients[worker].list(PODS, namespace=TEAM)).items, name)

        kubeconfig = (fleet.folder / f"{worker}.kubeconfig").read_text()
        await fleet.write_kubeconfig(f"{worker}-kubeconfig", b"\xff\xfe: [")
        refusal = await fleet.refusal(worker)
        assert "not valid YAML" in refusal["message"]
        await fleet.write_kubeconfig(f"{worker}-kubeconfig", kubeconfig)
        await until_one(
            fleet.manager, MULTIKUEUE_CLUSTERS, worker, lambda obj: is_true(obj, "Active")
        )

        workload = await until_workload(fleet, name, lambda _: True)
        assert workload["status"]["clusterName"] == worker
        assert not is_true(workload, "Evicted")
        after = {
            cluster: [pod["metadata"]["uid"] for pod in _of(pods.items, name)]
            for cluster in WORKERS
            if (pods := await fleet.clients[cluster].list(PODS, namespace=TEAM))
        }
        want = {cluster: [] for cluster in WORKERS}
        assert after == want | {worker: [pod["metadata"]["uid"] for pod in before]}


async def evict_long_ago(fleet: Fleet, found: Object) -> None:
    """Write the eviction that a manager wrote an hour ago, just before it was cut off."""
    workload = decode(Workload, found)
    moment = datetime.now(UTC) - timedelta(hours=1)
    status = evict(workload.status, "Preempted", "by an attacker", now=moment)
    await fleet.manager.patch(
        WORKLOADS,
        workload.metadata.name,
        {"status": build_status_patch(workload.status, status)},
        namespace=TEAM,
        subresource="status",
    )
