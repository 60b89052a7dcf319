"""Two-phase admission, deactivation, and what users may change on the way."""

from __future__ import annotations

import re
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_checks import set_check_state
from multiqueue.api.workload_state import (
    eviction_reason,
    find,
    has_quota,
    is_admitted,
    is_finished,
)
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_check, make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, T0
from tests.integration.queue_steps import create_queue, running, submit
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time


async def make_checked_queue(cluster: QueueCluster) -> None:
    await cluster.create(resources.ADMISSION_CHECKS, make_check())
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "ok"}
    active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await cluster.patch(
        resources.ADMISSION_CHECKS,
        "check",
        {"status": {"conditions": [active]}},
        subresource="status",
    )
    strategy = {"admissionChecks": [{"name": "check"}]}
    await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
    await cluster.create(
        resources.CLUSTER_QUEUES, make_cluster_queue(admissionChecksStrategy=strategy)
    )
    await cluster.create(resources.LOCAL_QUEUES, make_local_queue())


def holding(cluster: QueueCluster, job: str) -> Workload | None:
    workload = cluster.workload_of(job)
    return workload if workload is not None and has_quota(workload.status) else None


async def answer(cluster: QueueCluster, workload: Workload, state: CheckState, **what: Any) -> None:
    writer = WorkloadWriter(cluster.client, cluster.informers.workloads)
    await writer.update_status(
        workload.metadata.key,
        lambda newest: set_check_state(
            newest.status, "check", state, message="so says the test", now=T0, **what
        ),
    )


@virtual_time
async def test_a_job_waits_for_its_check() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await make_checked_queue(cluster)
        await submit(cluster, make_job("train"))
        workload = await cluster.changes.until(lambda: holding(cluster, "train"), "quota")
        assert [(c.name, c.state) for c in workload.status.admission_checks] == [
            ("check", "Pending")
        ]
        assert not is_admitted(workload.status)
        assert not running(cluster, "train")
        await answer(cluster, workload, CheckState.READY)
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        writes = [w.method for w in cluster.writes if w.resource == "workloads"]
        assert writes == ["POST", "PATCH", "PATCH"]


@virtual_time
async def test_a_check_that_says_later_sends_the_job_back() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await make_checked_queue(cluster)
        await submit(cluster, make_job("train"))
        first = await cluster.changes.until(lambda: holding(cluster, "train"), "quota")
        await answer(cluster, first, CheckState.RETRY)

        def again() -> Workload | None:
            workload = holding(cluster, "train")
            requeued = workload and find(workload.status, WorkloadCondition.REQUEUED)
            return workload if requeued and requeued.reason == "BackoffFinished" else None

        workload = await cluster.changes.until(again, "quota again")
        (check,) = workload.status.admission_checks
        assert (check.state, check.retry_count) == ("Pending", 1)
        assert check.message == "Reset to Pending after eviction. Previously: Retry"


@virtual_time
async def test_a_check_that_says_no_gives_the_job_up_until_it_is_activated_again() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await make_checked_queue(cluster)
        await submit(cluster, make_job("train"))
        workload = await cluster.changes.until(lambda: holding(cluster, "train"), "quota")
        await answer(cluster, workload, CheckState.REJECTED)
        given_up = await cluster.changes.until(
            lambda: (w := cluster.workload_of("train")) and not has_quota(w.status) and w,
            "given up",
        )
        assert not given_up.spec.active
        assert eviction_reason(given_up.status) == "DeactivatedDueToAdmissionCheck"
        await cluster.patch(
            resources.WORKLOADS,
            given_up.metadata.name,
            {"spec": {"active": True}},
            namespace=NAMESPACE,
        )
        await cluster.changes.until(lambda: holding(cluster, "train"), "quota again")


@virtual_time
async def test_a_user_deactivates_and_reactivates() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        workload = cluster.workload_of("train")
        assert workload is not None
        name = workload.metadata.name
        for active in (False, True):
            await cluster.patch(
                resources.WORKLOADS, name, {"spec": {"active": active}}, namespace=NAMESPACE
            )
            await cluster.changes.until(
                lambda active=active: bool(running(cluster, "train")) is active,  # type: ignore[misc]
                f"active: {active}",
            )


@virtual_time
async def test_a_workload_that_a_user_deletes_is_made_again() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        old = cluster.workload_of("train")
        assert old is not None
        await cluster.client.delete(resources.WORKLOADS, old.metadata.name, namespace=NAMESPACE)
        await cluster.changes.until(
            lambda: (
                (w := cluster.workload_of("train"))
                and w.metadata.uid != old.metadata.uid
                and is_admitted(w.status)
            ),
            "another workload",
        )
        await cluster.changes.until(lambda: running(cluster, "train"), "running again")


@virtual_time
async def test_another_priority_class_and_another_value_reach_the_workload() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        for name, value in (("low", 1), ("high", 100)):
            await cluster.create(
                resources.WORKLOAD_PRIORITY_CLASSES,
                {
                    "apiVersion": names.V1BETA2,
                    "kind": "WorkloadPriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                },
            )
        await submit(cluster, make_job("train", labels={names.PRIORITY_CLASS: "low"}))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")

        def priority() -> int | None:
            workload = cluster.workload_of("train")
            return workload.spec.priority if workload else None

        assert priority() == 1
        await cluster.patch(
            resources.JOBS,
            "train",
            {"metadata": {"labels": {names.PRIORITY_CLASS: "high"}}},
            namespace=NAMESPACE,
        )
        await cluster.changes.until(lambda: priority() == 100, "the priority of the other class")
        await cluster.patch(resources.WORKLOAD_PRIORITY_CLASSES, "high", {"value": 50})
        await cluster.changes.until(lambda: priority() == 50, "the new value of the class")


@virtual_time
async def test_a_job_waits_for_its_priority_class() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train", labels={names.PRIORITY_CLASS: "late"}))
        await submit(cluster, make_job("other"))
        await cluster.changes.until(lambda: running(cluster, "other"), "the other running")
        assert cluster.workload_of("train") is None
        await cluster.create(
            resources.WORKLOAD_PRIORITY_CLASSES,
            {
                "apiVersion": names.V1BETA2,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": "late"},
                "value": 3,
            },
        )
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_a_job_that_the_api_refuses_a_workload_for_is_told_and_left_alone() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        job = make_job("train")
        no_slice = {names.PODSET_SLICE_REQUIRED_TOPOLOGY: "rack", names.PODSET_SLICE_SIZE: "0"}
        job["spec"]["template"]["metadata"] = {"annotations": no_slice}
        await submit(cluster, job)
        await submit(cluster, make_job("other"))
        await cluster.changes.until(lambda: running(cluster, "other"), "the other running")
        assert cluster.workload_of("train") is None
        posts = [w for w in cluster.writes if (w.method, w.resource) == ("POST", "workloads")]
        assert [w.status for w in posts].count(422) == 1
        await cluster.patch(
            resources.JOBS,
            "train",
            {"spec": {"template": {"metadata": {"annotations": dict.fromkeys(no_slice)}}}},
            namespace=NAMESPACE,
        )
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_negative_requests_are_explained_and_admitted_nowhere() -> None:
    """Without a webhook such a Workload gets as far as the queue."""
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        job = make_job("train")
        container = job["spec"]["template"]["spec"]["containers"][0]
        pod_set = {
            "name": "main",
            "count": 1,
            "template": {
                "spec": {
                    "containers": [{**container, "resources": {"requests": {"cpu": "-1"}}}],
                    "restartPolicy": "Never",
                }
            },
        }
        await cluster.create(
            resources.WORKLOADS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "Workload",
                "metadata": {"name": "odd", "namespace": NAMESPACE},
                "spec": {"queueName": "lq", "podSets": [pod_set]},
            },
        )

        def reason() -> str | None:
            workload = cluster.informers.workloads.store.get(f"{NAMESPACE}/odd")
            found = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            return found.reason if found else None

        assert await cluster.changes.until(reason, "a reason") == "Misconfigured"
        await submit(cluster, job)
        await cluster.changes.until(lambda: running(cluster, "train"), "others are not disturbed")


@virtual_time
async def test_a_remote_job_runs_under_the_workload_that_came_before_it() -> None:
    """What a manager elsewhere does on a worker: first the Workload, then the Job that names it."""
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, gpu="h100")
        origin = {names.MULTIKUEUE_ORIGIN: "manager"}
        job = make_job("train", labels=origin, annotations={names.PREBUILT_WORKLOAD_NAME: "pre"})
        # The manager's Job has its defaults, and so has the Workload made for it.
        defaulted = await cluster.client.create(resources.JOBS, job, dry_run=True)
        template = BatchJob().pod_sets(defaulted)[0].template
        pod_set = {"name": "main", "count": 1, "template": template}
        await cluster.create(
            resources.WORKLOADS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "Workload",
                "metadata": {"name": "pre", "namespace": NAMESPACE, "labels": origin},
                "spec": {"queueName": "lq", "podSets": [pod_set]},
            },
        )
        await cluster.changes.until(
            lambda: (
                (w := cluster.informers.workloads.store.get(f"{NAMESPACE}/pre"))
                and is_admitted(w.status)
            ),
            "an admitted workload",
        )
        await submit(cluster, job)
        started = await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        assert started["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "h100"}
        workloads = cluster.informers.workloads.store.list()
        assert [(w.metadata.name, is_finished(w.status)) for w in workloads] == [("pre", False)]
        assert workloads[0].metadata.owner_references[0].name == "train"


@virtual_time
async def test_events_tell_the_story() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        want = {
            ("Job", "CreatedWorkload"),
            ("Job", "Started"),
            ("Workload", "Admitted"),
        }
        seen: set[tuple[str, str]] = set()
        async for event in follow_events(cluster):
            seen.add((event["involvedObject"]["kind"], event["reason"]))
            assert seen <= want
            if event["reason"] == "Admitted":
                assert re.fullmatch(
                    r"Admitted by ClusterQueue cq, wait time since reservation was 0s; "
                    r"Quota reserved in ClusterQueue cq, wait time since queued was \d+s",
                    event["message"],
                )
            if seen == want:
                return


async def follow_events(cluster: QueueCluster) -> Any:
    import orjson

    async for event in cluster.client.watch(
        resources.EVENTS, resource_version="0", timeout_seconds=10
    ):
        if event.type == "ADDED":
            yield orjson.loads(event.raw)
