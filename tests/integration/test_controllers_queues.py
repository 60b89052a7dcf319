"""Queues that stop, go, or are in use."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.names import LOG_ADMISSION, RESOURCE_IN_USE, V1BETA2
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_evicted
from multiqueue.kube import resources
from multiqueue.kube.resources import Resource
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import complete, create_queue, running, submit
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time


def queue_condition(cluster: QueueCluster) -> tuple[str, str] | None:
    queue = cluster.informers.cluster_queues.store.get("cq")
    conditions = queue.status.conditions if queue else ()
    return (conditions[0].status, conditions[0].reason) if conditions else None


def reason_of(cluster: QueueCluster, job: str) -> tuple[str, str] | None:
    workload = cluster.workload_of(job)
    found = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    return (found.reason, found.message) if found and found.status == "False" else None


async def stop(cluster: QueueCluster, policy: str) -> None:
    await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": policy}})


@virtual_time
async def test_what_is_drained_is_told_at_once() -> None:
    """Elsewhere it may run within a second."""
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster, cluster.manager(clock=clock):
        await create_queue(cluster, gpu="a100")
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await asyncio.sleep(60)
        stopped_at = clock.now()
        await stop(cluster, "HoldAndDrain")
        await cluster.changes.until(
            lambda: (w := cluster.workload_of("train")) and not has_quota(w.status), "no quota"
        )
        assert clock.now() - stopped_at < timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "reason"),
    [
        (resources.CLUSTER_QUEUES, "cq", None, "ClusterQueueRestarted"),
        (resources.LOCAL_QUEUES, "lq", NAMESPACE, "LocalQueueRestarted"),
    ],
    ids=["ClusterQueue", "LocalQueue"],
)
@virtual_time
async def test_a_drained_queue_evicts_and_a_restarted_one_admits_again(
    kind: Resource, name: str, namespace: str | None, reason: str
) -> None:
    """E-105."""

    async def set_policy(policy: str) -> None:
        patch = {"spec": {"stopPolicy": policy}}
        await cluster.patch(kind, name, patch, namespace=namespace)

    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, gpu="a100")
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await set_policy("HoldAndDrain")
        await cluster.changes.until(
            lambda: (w := cluster.workload_of("train")) and not has_quota(w.status), "no quota"
        )
        job = cluster.job("train")
        assert job is not None
        assert job["spec"]["suspend"]
        assert "nodeSelector" not in job["spec"]["template"]["spec"]
        await set_policy("None")
        await cluster.changes.until(lambda: running(cluster, "train"), "running again")
        workload = cluster.workload_of("train")
        assert workload is not None
        requeued = find(workload.status, WorkloadCondition.REQUEUED)
        assert requeued is not None
        assert (requeued.status, requeued.reason) == ("True", reason)


@virtual_time
async def test_a_held_queue_admits_nobody_and_lets_run_what_runs() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("first"))
        await cluster.changes.until(lambda: running(cluster, "first"), "the first running")
        await stop(cluster, "Hold")
        await cluster.changes.until(
            lambda: queue_condition(cluster) == ("False", "Stopped"), "a stopped queue"
        )
        await submit(cluster, make_job("second"))
        got = await cluster.changes.until(lambda: reason_of(cluster, "second"), "a reason")
        assert got == (Reason.SUSPENDED, "ClusterQueue cq is inactive")
        assert running(cluster, "first")


@virtual_time
async def test_a_stopped_local_queue_is_told() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue())
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(stopPolicy="Hold"))
        await submit(cluster, make_job("train"))
        got = await cluster.changes.until(lambda: reason_of(cluster, "train"), "a reason")
        assert got == (Reason.SUSPENDED, "LocalQueue lq is inactive")
        await cluster.patch(
            resources.LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "None"}}, namespace=NAMESPACE
        )
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_a_queue_without_its_flavor_is_inactive_until_the_flavor_comes() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue())
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await submit(cluster, make_job("train"))
        await cluster.changes.until(
            lambda: queue_condition(cluster) == ("False", "FlavorNotFound"), "an inactive queue"
        )
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await cluster.changes.until(
            lambda: queue_condition(cluster) == ("True", "Ready"), "an active queue"
        )


@virtual_time
async def test_a_local_queue_that_leads_nowhere_says_so() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(cluster_queue="gone"))

        def condition() -> tuple[str, str] | None:
            queue = cluster.informers.local_queues.store.get(f"{NAMESPACE}/lq")
            found = queue.status.conditions if queue else ()
            return (found[0].status, found[0].reason) if found else None

        got = await cluster.changes.until(condition, "a condition")
        assert got == ("False", "ClusterQueueDoesNotExist")
        await submit(cluster, make_job("train"))
        why = await cluster.changes.until(lambda: reason_of(cluster, "train"), "a reason")
        assert why == (Reason.MISCONFIGURED, "ClusterQueue gone doesn't exist")


@virtual_time
async def test_a_queue_stays_until_nothing_holds_its_quota() -> None:
    """E-119."""
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await cluster.client.delete(resources.CLUSTER_QUEUES, "cq")
        await cluster.client.delete(resources.RESOURCE_FLAVORS, "default")
        await cluster.changes.until(
            lambda: queue_condition(cluster) == ("False", "Terminating"), "a terminating queue"
        )
        assert running(cluster, "train")
        flavor = cluster.informers.resource_flavors.store.get("default")
        assert flavor is not None
        assert RESOURCE_IN_USE in flavor.metadata.finalizers
        await complete(cluster, "train")
        await cluster.changes.until(
            lambda: cluster.informers.cluster_queues.store.get("cq") is None, "no queue"
        )
        await cluster.changes.until(
            lambda: cluster.informers.resource_flavors.store.get("default") is None, "no flavor"
        )


@virtual_time
async def test_a_burst_costs_a_queue_one_status_a_second() -> None:
    """E-193."""
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="200")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(60):
            await submit(cluster, make_job(f"job-{number}"))
        await cluster.changes.until(
            lambda: (
                (q := cluster.informers.cluster_queues.store.get("cq"))
                and q.status.admitted_workloads == 60
            ),
            "all admitted",
        )
        seconds = loop.time() - began
        statuses = [w for w in cluster.writes if w.resource == "clusterqueues"]
        # The finalizer, the first status, and one for each second that began.
        assert len(statuses) <= 3 + seconds


@virtual_time
async def test_a_status_that_somebody_else_changes_is_put_right() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(
            lambda: (
                (q := cluster.informers.cluster_queues.store.get("cq"))
                and q.status.admitted_workloads == 1
            ),
            "one admitted",
        )
        wrong = {"status": {"admittedWorkloads": 7}}
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", wrong, subresource="status")
        await cluster.changes.until(
            lambda: (
                (q := cluster.informers.cluster_queues.store.get("cq"))
                and q.status.admitted_workloads == 1
            ),
            "one admitted again",
        )


def counts(cluster: QueueCluster) -> tuple[int, ...]:
    """How many Workloads hold quota and wait, by the ClusterQueue and by the LocalQueue."""
    cluster_queue = cluster.informers.cluster_queues.store.get("cq")
    local_queue = cluster.informers.local_queues.store.get(f"{NAMESPACE}/lq")
    assert cluster_queue is not None
    assert local_queue is not None
    found = (cluster_queue.status, local_queue.status)
    return tuple(n or 0 for s in found for n in (s.reserving_workloads, s.pending_workloads))


@pytest.mark.parametrize("how", ["drained", "deactivated"])
@virtual_time
async def test_an_evicted_workload_without_a_job_holds_no_quota_and_counts_nowhere(
    how: str,
) -> None:
    by_hand = {
        "apiVersion": V1BETA2,
        "kind": "Workload",
        "metadata": {"name": "by-hand", "namespace": NAMESPACE},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 1, "template": make_template()}],
        },
    }
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await cluster.create(resources.WORKLOADS, by_hand)
        key = f"{NAMESPACE}/by-hand"
        store = cluster.informers.workloads.store
        await cluster.changes.until(
            lambda: (w := store.get(key)) and is_admitted(w.status), "an admitted Workload"
        )
        await cluster.changes.until(lambda: counts(cluster) == (1, 0, 1, 0), "its quota counts")
        if how == "drained":
            await stop(cluster, "HoldAndDrain")
        else:
            spec = {"spec": {"active": False}}
            await cluster.patch(resources.WORKLOADS, "by-hand", spec, namespace=NAMESPACE)
        await cluster.changes.until(
            lambda: (w := store.get(key)) and is_evicted(w.status) and not has_quota(w.status),
            "an evicted Workload without quota",
        )
        waits = 1 if how == "drained" else 0
        await cluster.changes.until(
            lambda: counts(cluster) == (0, waits, 0, waits), "no quota counts"
        )
        await cluster.client.delete(resources.WORKLOADS, "by-hand", namespace=NAMESPACE)
        await cluster.changes.until(lambda: store.get(key) is None, "a deleted Workload")
        await cluster.changes.until(lambda: counts(cluster) == (0, 0, 0, 0), "nothing counts")


def told(logs: list[Any], event: str) -> list[tuple[str, str]]:
    return [(line["workload"], line["message"]) for line in logs if line["event"] == event]


@pytest.mark.parametrize(
    ("resource", "name", "namespace"),
    [
        (resources.CLUSTER_QUEUES, "cq", None),
        (resources.LOCAL_QUEUES, "lq", NAMESPACE),
    ],
    ids=["ClusterQueue", "LocalQueue"],
)
@virtual_time
async def test_the_admission_log_of_a_queue_is_switched_while_the_manager_runs(
    resource: Resource, name: str, namespace: str | None
) -> None:
    async def switch(value: str | None) -> None:
        patch = {"metadata": {"annotations": {LOG_ADMISSION: value}}}
        await cluster.patch(resource, name, patch, namespace=namespace)
        await asyncio.sleep(1)

    short = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor"
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="4", gpu="a100")
        await submit(cluster, make_job("runs", cpu="3"))
        await cluster.changes.until(lambda: running(cluster, "runs"), "a running job")
        with capture_logs() as logs:
            await submit(cluster, make_job("large", cpu="2"))
            await asyncio.sleep(5)
            assert told(logs, "admission decided") == []
            await switch("true")
            await submit(cluster, make_job("larger", cpu="4"))
            await asyncio.sleep(5)
            await switch(None)
            await submit(cluster, make_job("last", cpu="3"))
            await asyncio.sleep(5)
    (decided,) = told(logs, "admission decided")
    assert decided[1] == f"{short} default, 3 more needed"
    assert "larger" in decided[0]
