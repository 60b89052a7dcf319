"""Writes that fail, objects that change under a decision, names that are taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration, Duration
from multiqueue.api.config.types import ObjectRetentionPolicies, WorkloadRetention
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import find, has_quota, is_finished, requeue_at, set_requeue_at
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.framework.compose import workload_name
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Invalid, RequestTimeout, TransportError
from multiqueue.kube.resources import Resource
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE, T0
from tests.integration.queue_steps import complete, create_queue, running, submit
from tests.queue_manager import queue_cluster
from tests.virtual_time import virtual_time

Interference = Callable[[Resource, str, Any], Awaitable[None]]


def client_with(interfere: Interference) -> type[KubeClient]:
    """A client that first lets something else happen before each patch; it may raise."""

    class InterferingClient(KubeClient):
        async def patch(self, resource: Resource, name: str, patch: Any, **what: Any) -> Any:
            await interfere(resource, name, patch)
            return await super().patch(resource, name, patch, **what)

    return InterferingClient


def reserves(resource: Resource, patch: Any) -> bool:
    return resource is resources.WORKLOADS and "admission" in patch.get("status", {})


@virtual_time
async def test_an_admission_that_could_not_be_written_is_tried_again() -> None:
    failures: list[str] = []

    async def interfere(resource: Resource, name: str, patch: Any) -> None:
        if reserves(resource, patch) and not failures:
            failures.append(name)
            raise RequestTimeout("no answer")

    async with queue_cluster() as cluster, cluster.manager(client_type=client_with(interfere)):
        await create_queue(cluster, cpu="1")
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        assert failures


@virtual_time
async def test_an_admission_is_written_in_the_end_though_nothing_else_happens() -> None:
    failures: list[str] = []

    async def interfere(resource: Resource, name: str, patch: Any) -> None:
        if reserves(resource, patch) and len(failures) < 4:
            failures.append(name)
            raise TransportError("connection reset")

    async with queue_cluster() as cluster, cluster.manager(client_type=client_with(interfere)):
        await create_queue(cluster, cpu="1")
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        assert len(failures) == 4


@virtual_time
async def test_quota_that_somebody_claims_without_an_admission_is_taken_back() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="0")
        await submit(cluster, make_job("train"))

        def is_set(type_: WorkloadCondition, status: str) -> bool:
            workload = cluster.workload_of("train")
            found = find(workload.status, type_) if workload is not None else None
            return found is not None and found.status == status

        reserved = WorkloadCondition.QUOTA_RESERVED
        await cluster.changes.until(lambda: is_set(reserved, "False"), "a pending Workload")
        (workload,) = cluster.informers.workloads.store.list()
        claim = {
            "type": "QuotaReserved",
            "status": "True",
            "reason": "QuotaReserved",
            "message": "mine",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await cluster.patch(
            resources.WORKLOADS,
            workload.metadata.name,
            {"status": {"conditions": [claim]}},
            namespace=NAMESPACE,
            subresource="status",
        )
        requeued = WorkloadCondition.REQUEUED
        await cluster.changes.until(lambda: is_set(requeued, "True"), "a Workload that queues anew")
        assert is_set(reserved, "False")


@virtual_time
async def test_somebody_elses_write_in_between_costs_one_more_try() -> None:
    async with queue_cluster() as cluster:
        touched: list[str] = []

        async def interfere(resource: Resource, name: str, patch: Any) -> None:
            if reserves(resource, patch) and not touched:
                touched.append(name)
                note = {"metadata": {"annotations": {"note": "x"}}}
                await cluster.patch(resources.WORKLOADS, name, note, namespace=NAMESPACE)

        async with cluster.manager(client_type=client_with(interfere)):
            await create_queue(cluster)
            await submit(cluster, make_job("train"))
            await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
            assert 409 in [w.status for w in cluster.writes]


@virtual_time
async def test_a_status_is_decided_again_on_what_somebody_else_wrote() -> None:
    """E-192."""
    async with queue_cluster() as cluster:
        seen: list[str] = []

        async def interfere(resource: Resource, name: str, patch: Any) -> None:
            if "requeueState" in patch.get("status", {}) and len(seen) == 1:
                note = {"metadata": {"annotations": {"note": "x"}}}
                await cluster.patch(resources.WORKLOADS, name, note, namespace=NAMESPACE)

        def change(newest: Workload) -> WorkloadStatus:
            seen.append(newest.metadata.annotations.get("note", ""))
            return set_requeue_at(newest.status, T0)

        async with cluster.manager(client_type=client_with(interfere)) as context:
            await create_queue(cluster)
            await submit(cluster, make_job("train"))
            await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
            (workload,) = cluster.informers.workloads.store.list()
            written = await context.writer.update_status(workload.metadata.key, change)
        assert seen == ["", "x"]
        assert requeue_at(written.status) == T0


@virtual_time
async def test_a_workload_that_is_deactivated_under_its_admission_is_not_admitted() -> None:
    async with queue_cluster() as cluster:
        touched: list[str] = []

        async def interfere(resource: Resource, name: str, patch: Any) -> None:
            if reserves(resource, patch) and not touched:
                touched.append(name)
                off = {"spec": {"active": False}}
                await cluster.patch(resources.WORKLOADS, name, off, namespace=NAMESPACE)

        async with cluster.manager(client_type=client_with(interfere)):
            await create_queue(cluster, cpu="1")
            await submit(cluster, make_job("first"))
            await cluster.changes.until(
                lambda: (
                    (w := cluster.workload_of("first"))
                    and find(w.status, WorkloadCondition.EVICTED)
                ),
                "a deactivated workload",
            )
            await submit(cluster, make_job("second"))
            await cluster.changes.until(lambda: running(cluster, "second"), "the second running")
            first = cluster.workload_of("first")
            assert first is not None
            assert not has_quota(first.status)


@virtual_time
async def test_a_start_that_the_api_refuses_fails_for_good_and_frees_the_quota() -> None:
    async def interfere(resource: Resource, name: str, patch: Any) -> None:
        starts = resource is resources.JOBS and patch.get("spec", {}).get("suspend") is False
        if starts and name == "odd":
            raise Invalid(422, reason="Invalid", message="field is immutable")

    async with queue_cluster() as cluster, cluster.manager(client_type=client_with(interfere)):
        await create_queue(cluster, cpu="1")
        await submit(cluster, make_job("odd"))
        ended = await cluster.changes.until(
            lambda: (w := cluster.workload_of("odd")) and is_finished(w.status) and w, "its end"
        )
        finished = find(ended.status, WorkloadCondition.FINISHED)
        assert finished is not None
        assert (finished.reason, finished.message) == ("FailedToStart", "field is immutable")
        await submit(cluster, make_job("other"))
        await cluster.changes.until(lambda: running(cluster, "other"), "another running")


@virtual_time
async def test_a_name_that_is_taken_is_told_and_the_job_waits() -> None:
    async with queue_cluster() as cluster:
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        job = await cluster.changes.until(lambda: cluster.job("train"), "the job")
        name = workload_name(BatchJob.gvk, "train", job["metadata"]["uid"])
        template = BatchJob().pod_sets(job)[0].template
        await cluster.create(
            resources.WORKLOADS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "Workload",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
            },
        )
        async with cluster.manager():
            await submit(cluster, make_job("other"))
            await cluster.changes.until(lambda: running(cluster, "other"), "the other running")
            assert not running(cluster, "train")
            assert cluster.workload_of("train") is None


def keeping(**retention: int) -> Configuration:
    """A Configuration that keeps Workloads for so many seconds."""
    seconds = {key: Duration(seconds=value) for key, value in retention.items()}
    return Configuration(
        object_retention_policies=ObjectRetentionPolicies(workloads=WorkloadRetention(**seconds))
    )


@virtual_time
async def test_finished_workloads_go_when_their_time_is_over() -> None:
    async with queue_cluster() as cluster, cluster.manager(keeping(after_finished=0)):
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await complete(cluster, "train")
        await cluster.changes.until(
            lambda: cluster.workload_of("train") is None, "a workload that is gone"
        )
        assert cluster.job("train") is not None


@virtual_time
async def test_a_job_that_was_given_up_goes_when_its_time_is_over() -> None:
    config = keeping(after_deactivated_by_kueue=0)
    async with queue_cluster() as cluster, cluster.manager(config):
        await create_queue(cluster)
        limit = {names.MAX_EXEC_TIME_SECONDS: "1"}
        await submit(cluster, make_job("train", labels=limit))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await cluster.changes.until(lambda: cluster.job("train") is None, "a job that is gone")


def controller(job: dict[str, Any]) -> dict[str, Any]:
    """The reference of what this job controls."""
    metadata = job["metadata"]
    owner = {"name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {"apiVersion": "batch/v1", "kind": "Job", **owner}


@virtual_time
async def test_a_job_of_a_queued_job_runs_with_it_and_has_no_workload() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("parent"))
        parent = await cluster.changes.until(lambda: running(cluster, "parent"), "the parent")
        child = make_job("child", queue=None, suspend=False)
        child["metadata"]["ownerReferences"] = [controller(parent)]
        await submit(cluster, child)
        await submit(cluster, make_job("last"))
        await cluster.changes.until(lambda: running(cluster, "last"), "the last running")
        assert running(cluster, "child")
        assert cluster.workload_of("child") is None
        hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", hold)
        await cluster.changes.until(lambda: not running(cluster, "child"), "a suspended child")


@virtual_time
async def test_jobs_that_own_each_other_are_told_so_and_left_alone() -> None:
    """J-27: the jobs of everybody else go on."""
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("first"))
        first = await cluster.changes.until(lambda: running(cluster, "first"), "the first")
        second = make_job("second")
        second["metadata"]["ownerReferences"] = [controller(first)]
        await submit(cluster, second)
        made = await cluster.changes.until(lambda: cluster.job("second"), "the second")
        owners = {"metadata": {"ownerReferences": [controller(made)]}}
        await cluster.patch(resources.JOBS, "first", owners, namespace=NAMESPACE)
        await submit(cluster, make_job("last"))
        await cluster.changes.until(lambda: running(cluster, "last"), "the last running")
        await cluster.until_event("Job", "first", "JobNestingTooDeep")


@virtual_time
async def test_a_child_stops_with_its_parent() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await submit(cluster, make_job("parent"))
        parent = await cluster.changes.until(lambda: cluster.job("parent"), "the parent")
        child = make_job("child", queue=None, suspend=False)
        child["metadata"]["ownerReferences"] = [controller(parent)]
        await submit(cluster, child)
        await cluster.changes.until(
            lambda: (j := cluster.job("child")) and j["spec"]["suspend"], "a suspended child"
        )


@virtual_time
async def test_a_workload_whose_job_vanished_is_removed_without_a_collector() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        job = make_job("gone")
        await cluster.create(
            resources.WORKLOADS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "Workload",
                "metadata": {
                    "name": "left",
                    "namespace": NAMESPACE,
                    "finalizers": [names.RESOURCE_IN_USE],
                    "ownerReferences": [
                        {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "u-1"}
                    ],
                },
                "spec": {
                    "queueName": "lq",
                    "podSets": [{"name": "main", "count": 1, "template": job["spec"]["template"]}],
                },
            },
        )
        await cluster.changes.until(
            lambda: not cluster.informers.workloads.store.list(), "no workload"
        )
