"""The way of a job across clusters, with workers played by hand (T-17 to T-27)."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_evicted, is_finished
from multiqueue.kube import resources
from multiqueue.kube.resources import JOBS, WORKLOADS
from multiqueue.model.build_workload import build_workload
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.metric_values import read_value
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time


async def submit(world: MultiKueueWorld, name: str = "train", **spec: object) -> None:
    await world.hub.create(JOBS, make_gpu_job(name, **spec))


async def start_on(world: MultiKueueWorld, worker: str, job: str = "train") -> None:
    """Have a worker admit a job and run it, until the manager shows it."""
    await world.admit(worker, job)
    assert await world.until_ready(job) == worker
    await world.run_job(worker, job)
    await world.until(
        lambda: (world.hub.job(job) or {}).get("status", {}).get("active"), "status back"
    )


async def test_the_first_worker_to_admit_runs_the_job_and_the_other_copy_goes():
    """M-220."""
    async with multikueue_world("worker1", "worker2") as world, world.manager() as manager:
        await submit(world)
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        workload = world.workload()
        assert set(workload.status.nominated_cluster_names) == {"worker1", "worker2"}
        await world.admit("worker1")
        assert await world.until_ready() == "worker1"
        await world.until(lambda: not world.copy("worker2"), "copy gone", on="worker2")
        assert world.workers["worker2"].job("train") is None
        workload = world.workload()
        assert is_admitted(workload.status)
        assert workload.status.nominated_cluster_names == ()
        assert world.check() == ("Ready", 'The workload was admitted on "worker1"')
        metrics = manager.metrics
        assert read_value(metrics.multikueue_workloads_admitted_total.child("cq", "worker1")) == 1
        sent = [
            read_value(metrics.multikueue_workloads_dispatched_total.child("cq", name))
            for name in ("worker1", "worker2")
        ]
        assert sent == [1, 1]


async def test_the_remote_job_is_ours_suspended_and_never_deletes_itself():
    """M-148."""
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world, ttlSecondsAfterFinished=5)
        await world.admit("worker1")
        await world.until_ready()
        remote = world.workers["worker1"].job("train")
        local = world.workload()
        assert remote["metadata"]["labels"][names.MULTIKUEUE_ORIGIN] == "multikueue"
        assert remote["metadata"]["labels"][names.QUEUE_NAME] == "lq"
        named = (
            remote["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME],
            remote["metadata"]["labels"][names.PREBUILT_WORKLOAD_NAME],
        )
        assert named == (local.metadata.name, local.metadata.name)
        assert "managedBy" not in remote["spec"]
        assert "ttlSecondsAfterFinished" not in remote["spec"]
        assert remote["spec"]["suspend"] is True
        copy = world.copy("worker1")
        assert copy.metadata.labels[names.MULTIKUEUE_ORIGIN] == "multikueue"
        assert names.JOB_UID not in copy.metadata.labels


async def test_status_comes_back_and_the_end_cleans_up():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        assert not world.hub.job("train")["spec"]["suspend"]
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(
            lambda: is_finished(world.workload().status) and world.workload(), "finished"
        )
        assert find(world.workload().status, WorkloadCondition.FINISHED).reason == "Succeeded"
        status = world.hub.job("train")["status"]
        assert [c["type"] for c in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["succeeded"] == 1
        await world.until(lambda: not world.copy("worker1"), "copy gone", on="worker1")
        await world.until(
            lambda: not world.workers["worker1"].job("train"), "job gone", on="worker1"
        )


async def test_a_life_costs_five_writes_whatever_the_number_of_workers():
    """Created, reserved, dispatched, finished, released."""
    async with multikueue_world("worker1", "worker2", "worker3") as world, world.manager():
        await world.until_connected()
        await submit(world)
        await start_on(world, "worker2")
        await world.finish_job("worker2")
        await world.finish_copy("worker2")
        await world.until(lambda: is_finished(world.workload().status), "finished")
        await world.until(lambda: not world.copy("worker2"), "copy gone", on="worker2")
        await world.until(lambda: not world.workload().metadata.finalizers, "released")
        got = [
            write
            for write in world.hub.writes
            if write.resource in {"workloads", "workloads/status"}
        ]
        assert len(got) == 5, [(w.method, w.resource, w.status) for w in got]


@pytest.mark.parametrize("reason", [Reason.OUT_OF_SYNC, Reason.OWNER_NOT_FOUND])
async def test_an_out_of_sync_copy_is_deleted_and_the_workload_tried_again(reason):
    """M-87, M-221; also one whose job is gone, as its worker says."""
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        await world.finish_copy("worker1", reason=reason)
        await world.until(lambda: is_evicted(world.workload().status), "evicted")
        await world.until(lambda: not world.copy("worker1"), "copy gone", on="worker1")
        assert not is_finished(world.workload().status)
        await world.hub.until_event("Workload", world.workload().metadata.name, "MultiKueue")


async def test_an_eviction_on_the_worker_sends_the_workload_round_again():
    async with multikueue_world("worker1", "worker2") as world, world.manager() as manager:
        await submit(world)
        await start_on(world, "worker1")
        await world.evict("worker1")
        await world.set_job_status("worker1", active=0, ready=0)
        await world.until(
            lambda: (w := world.workload()) and w.status.cluster_name is None, "latch cleared"
        )
        await world.until(lambda: not world.copy("worker1"), "old copy gone", on="worker1")
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"
        family = manager.metrics.multikueue_workloads_admitted_total
        assert [read_value(family.child("cq", name)) for name in world.workers] == [1, 1]


async def test_an_eviction_here_stops_the_job_there_before_the_quota_goes():
    async with multikueue_world("worker1") as world, world.manager() as manager:
        await submit(world)
        await start_on(world, "worker1")
        await manager.client.patch(
            WORKLOADS,
            world.workload().metadata.name,
            {"spec": {"active": False}},
            namespace=NAMESPACE,
        )
        await world.until(
            lambda: find(world.copy("worker1").status, WorkloadCondition.DEACTIVATION_TARGET),
            "asked to stop",
            on="worker1",
        )
        target = find(world.copy("worker1").status, WorkloadCondition.DEACTIVATION_TARGET)
        assert target.reason == Reason.EVICTED_ON_MANAGER_CLUSTER
        assert has_quota(world.workload().status)
        await world.evict("worker1")
        await world.workers["worker1"].patch(
            JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE
        )
        await world.set_job_status("worker1", active=0, ready=0)
        await world.until(lambda: not has_quota(world.workload().status), "quota released")
        await world.until(lambda: not world.copy("worker1"), "copy gone", on="worker1")


async def test_a_deleted_job_is_deleted_on_its_worker():
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        await world.hub.client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        await world.until(
            lambda: not world.workers["worker1"].job("train"), "job gone", on="worker1"
        )
        store = world.workers["worker1"].informers.workloads.store
        await world.until(lambda: not store.keys(), "copy gone", on="worker1")


async def test_a_job_that_somebody_else_runs_is_rejected_with_the_reason():
    """M-82."""
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world, managed_by=None)
        await world.until(
            lambda: (
                (w := world.workload())
                and (e := find(w.status, WorkloadCondition.EVICTED))
                and "spec.managedBy is not set" in e.message
            ),
            "deactivated with the reason",
        )
        assert world.copy("worker1") is None


async def test_a_changed_priority_class_reaches_the_copy():
    async with multikueue_world("worker1") as world, world.manager():
        for name, value in (("low", 1), ("high", 100)):
            await world.hub.create(
                resources.WORKLOAD_PRIORITY_CLASSES,
                {
                    "apiVersion": names.V1BETA2,
                    "kind": "WorkloadPriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                },
            )
        job = make_gpu_job()
        job["metadata"]["labels"][names.PRIORITY_CLASS] = "low"
        await world.hub.create(JOBS, job)
        await world.until(
            lambda: (c := world.copy("worker1")) and c.spec.priority == 1, "copy", on="worker1"
        )
        uid = world.copy("worker1").metadata.uid
        labels = {names.PRIORITY_CLASS: "high"}
        await world.hub.patch(JOBS, "train", {"metadata": {"labels": labels}}, namespace=NAMESPACE)
        await world.until(
            lambda: (c := world.copy("worker1")) and c.spec.priority == 100,
            "priority on the copy",
            on="worker1",
        )
        assert world.copy("worker1").metadata.uid == uid


@virtual_time
async def test_nothing_is_sent_before_the_other_checks_are_ready():
    async with multikueue_world("worker1") as world, world.manager():
        await world.hub.create(
            resources.ADMISSION_CHECKS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "AdmissionCheck",
                "metadata": {"name": "budget"},
                "spec": {"controllerName": "example.com/budget"},
            },
        )
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await world.hub.patch(
            resources.ADMISSION_CHECKS,
            "budget",
            {"status": {"conditions": [active]}},
            subresource="status",
        )
        checks = [{"name": "multikueue"}, {"name": "budget"}]
        await world.hub.patch(
            resources.CLUSTER_QUEUES,
            "cq",
            {"spec": {"admissionChecksStrategy": {"admissionChecks": checks}}},
        )
        await submit(world)
        await world.until(
            lambda: (
                (w := world.workload())
                and has_quota(w.status)
                and len(w.status.admission_checks) == 2
            ),
            "quota and both checks",
        )
        await asyncio.sleep(30.0)
        assert world.workload().status.nominated_cluster_names == ()
        assert world.copy("worker1") is None
        states = [
            {
                "name": "budget",
                "state": "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
            {
                "name": "multikueue",
                "state": CheckState.PENDING,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
        ]
        await world.hub.patch(
            WORKLOADS,
            world.workload().metadata.name,
            {"status": {"admissionChecks": states}},
            namespace=NAMESPACE,
            subresource="status",
        )
        await world.until(lambda: world.copy("worker1"), "copy", on="worker1")
        assert GPU in str(world.copy("worker1").spec.pod_sets[0].template)


@virtual_time
async def test_pods_that_ended_on_one_worker_are_run_again_and_charged_on_the_next():
    """Kubernetes keeps the count of those that ended, but a job begins anew on its next worker."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world, parallelism=4, completions=4)
        await start_on(world, "worker1")
        await world.set_job_status("worker1", active=2, ready=2, succeeded=2)
        await world.until(lambda: charged(world) == 2, "half of it is charged")

        await world.evict("worker1")
        await world.until(lambda: world.copy("worker1") is None, "left", on="worker1")
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"
        await world.set_job_status("worker2", startTime="2026-01-01T01:00:00Z", active=4, ready=4)
        await world.until(lambda: world.hub.job("train")["status"].get("active") == 4, "it is back")
        assert world.hub.job("train")["status"]["succeeded"] == 2
        assert charged(world) == 4
        await world.set_job_status("worker2", active=1, ready=1, succeeded=3)
        await world.until(lambda: charged(world) == 1, "what is left is charged")


def charged(world: MultiKueueWorld) -> int:
    """GPUs that the job uses of the manager's quota."""
    workload = world.workload()
    held = build_workload(workload).reservation if workload is not None else None
    return sum(held.admission.usage().values()) if held is not None else 0
