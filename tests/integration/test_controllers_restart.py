"""A manager is killed between two writes; the next one goes on from what the API server says."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.workload_state import (
    complete_eviction,
    evict,
    has_quota,
    is_admitted,
    preempt,
    set_pending,
    target_deactivation,
)
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE, T0
from tests.integration.queue_steps import complete, create_queue, running, submit
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time


async def admit_one(cluster: QueueCluster, **job: Any) -> None:
    """A job that was admitted by a manager that is gone."""
    async with cluster.manager():
        await create_queue(cluster, gpu="a100")
        await submit(cluster, make_job("train", **job))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


def writer_of(cluster: QueueCluster) -> WorkloadWriter:
    return WorkloadWriter(cluster.client, cluster.informers.workloads)


@virtual_time
async def test_a_job_without_workload_gets_one() -> None:
    async with queue_cluster() as cluster:
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        async with cluster.manager():
            await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_an_admitted_workload_starts_its_job() -> None:
    """Killed after the admission, before the job was started."""
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        template = cluster.job("train")["spec"]["template"]  # type: ignore[index]
        await cluster.patch(
            resources.JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE
        )
        await cluster.changes.until(lambda: not running(cluster, "train"), "a suspended job")
        async with cluster.manager():
            job = await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        assert job["spec"]["template"] == template


@virtual_time
async def test_quota_that_was_given_stays_given() -> None:
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        async with cluster.manager():
            await submit(cluster, make_job("big", cpu="4"))
            await cluster.changes.until(
                lambda: (w := cluster.workload_of("big")) and w.status.conditions, "a reason"
            )
            assert not running(cluster, "big")
            await complete(cluster, "train")
            await cluster.changes.until(lambda: running(cluster, "big"), "the big one running")


@virtual_time
async def test_a_finished_job_ends_its_workload() -> None:
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        await complete(cluster, "train")
        async with cluster.manager():
            await cluster.changes.until(
                lambda: (
                    (w := cluster.workload_of("train"))
                    and any(c.type == "Finished" for c in w.status.conditions)
                ),
                "a finished workload",
            )


@pytest.mark.parametrize("writes_done", [0, 1, 2])
@virtual_time
async def test_an_eviction_is_carried_through(writes_done: int) -> None:
    """Killed after the eviction was written, or after so many writes of the stop."""
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        now = "2026-01-01T00:00:00Z"
        await cluster.patch(
            resources.JOBS,
            "train",
            {"status": {"startTime": now}},
            namespace=NAMESPACE,
            subresource="status",
        )
        workload = cluster.workload_of("train")
        assert workload is not None
        await writer_of(cluster).update_status(
            workload.metadata.key,
            lambda newest: evict(newest.status, Reason.CLUSTER_QUEUE_STOPPED, "stop", now=T0),
        )
        steps: list[tuple[dict[str, Any], str | None]] = [
            (
                {"spec": {"suspend": True}, "metadata": {"annotations": {names.STOPPING: "true"}}},
                None,
            ),
            ({"status": {"startTime": None}}, "status"),
        ]
        for patch, subresource in steps[:writes_done]:
            await cluster.patch(
                resources.JOBS, "train", patch, namespace=NAMESPACE, subresource=subresource
            )
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        async with cluster.manager():
            await cluster.changes.until(
                lambda: (w := cluster.workload_of("train")) and not has_quota(w.status),
                "a released quota",
            )
            job = cluster.job("train")
            assert job is not None
            assert job["spec"]["suspend"] is True
            assert names.STOPPING not in (job["metadata"].get("annotations") or {})
            assert "nodeSelector" not in job["spec"]["template"]["spec"]
            await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
            await cluster.changes.until(lambda: running(cluster, "train"), "running again")


@virtual_time
async def test_a_preempted_workload_queues_again() -> None:
    """Killed between the two halves of a preemption: evicted, but the quota not yet released."""
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        workload = cluster.workload_of("train")
        assert workload is not None
        await writer_of(cluster).update_status(
            workload.metadata.key,
            lambda newest: preempt(newest.status, Reason.IN_CLUSTER_QUEUE, "for another", now=T0),
        )
        async with cluster.manager():
            again = await cluster.changes.until(
                lambda: (
                    (w := cluster.workload_of("train"))
                    and any(c.type == "Requeued" for c in w.status.conditions)
                    and is_admitted(w.status)
                    and w
                ),
                "admitted again",
            )
        conditions = {c.type: (c.status, c.reason) for c in again.status.conditions}
        assert conditions["Evicted"] == ("False", "QuotaReserved")
        assert conditions["Preempted"] == ("False", "QuotaReserved")


@virtual_time
async def test_a_backoff_that_ended_while_nobody_looked_is_over() -> None:
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        workload = cluster.workload_of("train")
        assert workload is not None
        await cluster.patch(
            resources.JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE
        )
        await writer_of(cluster).update_status(
            workload.metadata.key,
            lambda newest: complete_eviction(
                evict(newest.status, Reason.ADMISSION_CHECK, "retry", now=T0), now=T0
            ),
        )
        async with cluster.manager():
            await cluster.changes.until(lambda: running(cluster, "train"), "running again")


@virtual_time
async def test_a_deactivation_that_was_only_asked_for_is_done() -> None:
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        workload = cluster.workload_of("train")
        assert workload is not None
        await writer_of(cluster).update_status(
            workload.metadata.key,
            lambda newest: target_deactivation(newest.status, "AdmissionCheck", "no", now=T0),
        )
        async with cluster.manager():
            await cluster.changes.until(
                lambda: (
                    (w := cluster.workload_of("train"))
                    and not w.spec.active
                    and not has_quota(w.status)
                ),
                "a deactivated workload",
            )
            assert not running(cluster, "train")


@virtual_time
async def test_a_workload_whose_job_went_meanwhile_goes_too() -> None:
    async with queue_cluster() as cluster:
        await admit_one(cluster)
        await cluster.client.delete(
            resources.JOBS, "train", namespace=NAMESPACE, propagation="Orphan"
        )
        await cluster.changes.until(lambda: cluster.job("train") is None, "no job")
        assert cluster.informers.workloads.store.list()
        async with cluster.manager():
            await cluster.changes.until(
                lambda: all(
                    any(c.type == "Finished" for c in w.status.conditions)
                    for w in cluster.informers.workloads.store.list()
                ),
                "no workload that holds anything",
            )


@virtual_time
async def test_what_another_manager_wrote_last_is_kept() -> None:
    """A pending condition from before is replaced by the admission, not the other way round."""
    async with queue_cluster() as cluster:
        await create_queue(cluster)
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        async with cluster.manager():
            await submit(cluster, make_job("train"))
            await cluster.changes.until(
                lambda: (w := cluster.workload_of("train")) and w.status.conditions,
                "an explanation",
            )
        workload = cluster.workload_of("train")
        assert workload is not None
        await writer_of(cluster).update_status(
            workload.metadata.key,
            lambda newest: set_pending(newest.status, reason="Pending", message="old", now=T0),
        )
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        async with cluster.manager():
            await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
