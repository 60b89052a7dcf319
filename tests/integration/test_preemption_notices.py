"""Notices of preemption through the API: told, saved, stopped, rescinded; on a virtual clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import PREEMPTION_NOTICE, find_condition
from multiqueue.api.notices import Notice, parse_notice
from multiqueue.api.v1beta2 import Condition
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import is_evicted
from multiqueue.kube import resources
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import running, submit
from tests.integration.test_disruption_policies import (
    governed_cluster,
    make_policy,
    ranked,
    record,
    until,
    until_waiting,
)
from tests.queue_manager import CONFIG, QueueCluster
from tests.virtual_time import LoopClock, virtual_time

SAVES = {"checkpoint-on": "Notice", "checkpoint-seconds": "90", "restart": "2m"}
POLICY = make_policy(notice={"longest": "5m"})


def notice_of(cluster: QueueCluster, name: str) -> Notice | None:
    workload = cluster.workload_of(name)
    return workload and parse_notice(workload.status.conditions)


def condition_of(cluster: QueueCluster, name: str) -> Condition | None:
    workload = cluster.workload_of(name)
    return workload and find_condition(workload.status.conditions, PREEMPTION_NOTICE)


def is_stopping(cluster: QueueCluster, name: str) -> bool:
    workload = cluster.workload_of(name)
    return workload is not None and is_evicted(workload.status)


async def annotation(cluster: QueueCluster, name: str) -> str:
    job = await cluster.client.get(resources.JOBS, name, namespace=NAMESPACE)
    return str(job["metadata"].get("annotations", {}).get(names.CHECKPOINT_BY, ""))


async def pod_annotations(cluster: QueueCluster, name: str) -> list[str]:
    selector = f"batch.kubernetes.io/job-name={name}"
    pods = await cluster.client.list(resources.PODS, namespace=NAMESPACE, label_selector=selector)
    notes = [pod["metadata"].get("annotations") or {} for pod in pods.items]
    return [each.get(names.CHECKPOINT_BY, "") for each in notes]


async def noticed(cluster: QueueCluster, *, pods: int = 2, **notes: str) -> Notice:
    """Let a job run for an hour, and another one of a higher priority want its room."""
    await submit(cluster, ranked("low", "low", pods=pods, **(notes or SAVES)))
    await until(cluster, lambda: running(cluster, "low"), "the job running")
    await asyncio.sleep(3600)
    await submit(cluster, ranked("high", "high"))
    found: Notice = await until(cluster, lambda: notice_of(cluster, "low"), "low was told")
    return found


async def events_of(cluster: QueueCluster, reason: str) -> list[str]:
    await asyncio.sleep(2)
    listed = (await cluster.client.list(resources.EVENTS, namespace=NAMESPACE)).items
    return [event["message"] for event in listed if event["reason"] == reason]


async def report_save(cluster: QueueCluster, clock: LoopClock) -> None:
    report = {"metadata": {"annotations": {names.LAST_CHECKPOINT: format_time(clock.now())}}}
    await cluster.patch(resources.JOBS, "low", report, namespace=NAMESPACE)


@virtual_time
async def test_a_job_that_saves_in_time_is_stopped_then_and_loses_little() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock) as manager,
    ):
        notice = await noticed(cluster)
        assert notice.by - notice.given_at == 150
        assert running(cluster, "low")
        pending = await until_waiting(cluster, "high", "Pending the preemption of 1 workload")
        assert pending.reason == "WaitingForPreemptedWorkloads"
        await asyncio.sleep(40)
        assert running(cluster, "low")
        by = datetime.fromtimestamp(notice.by, UTC)
        assert await annotation(cluster, "low") == format_time(by)
        assert sorted(await pod_annotations(cluster, "low")) == ["", format_time(by)]
        began = clock.now()
        await report_save(cluster, clock)
        await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
        assert clock.now() - began < timedelta(seconds=2)
        over = condition_of(cluster, "low")
        assert over is not None
        assert (over.status, over.reason) == ("False", "Saved")
        await until(cluster, lambda: running(cluster, "high"), "high running")
        assert await annotation(cluster, "low") == ""
        assert record(cluster, "low").endswith(f"Z Queue 120 cq/{NAMESPACE}")
        (told,) = await events_of(cluster, "PreemptionNotice")
        assert told.startswith("will be stopped at 2026-01-01T01:02:3")
        (stopped,) = await events_of(cluster, "Preempted")
        assert stopped.count("device-seconds") == 1
        assert "; 120 device-seconds have to be done again" in stopped
        labels = {"cluster_queue": "cq", "result": "Saved", "replica_role": "standalone"}
        registry = manager.metrics.registry
        assert registry.get_sample_value("multiqueue_notices_total", labels) == 1


@virtual_time
async def test_a_job_that_never_answers_is_stopped_when_its_time_is_over() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        notice = await noticed(cluster)
        await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
        assert 0 <= clock.now().timestamp() - notice.by <= 1
        over = condition_of(cluster, "low")
        assert over is not None
        assert (over.status, over.reason) == ("False", "TimedOut")


@virtual_time
async def test_a_job_that_ends_by_itself_is_not_stopped() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await submit(cluster, ranked("low", "low", run="100", pods=2, **SAVES))
        await until(cluster, lambda: running(cluster, "low"), "the job running")
        await asyncio.sleep(50)
        await submit(cluster, ranked("high", "high"))
        await until(cluster, lambda: notice_of(cluster, "low"), "low was told")
        await until(cluster, lambda: running(cluster, "high"), "high running")
        assert not is_stopping(cluster, "low")
        assert record(cluster, "low") == ""


@virtual_time
async def test_a_notice_ends_when_the_pods_have_failed() -> None:
    """P-52 (c): the job saves its work its own way, and its pods exit."""
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        notice = await noticed(cluster)
        await asyncio.sleep(10)
        assert not is_stopping(cluster, "low")
        selector = "batch.kubernetes.io/job-name=low"
        pods = await cluster.client.list(
            resources.PODS, namespace=NAMESPACE, label_selector=selector
        )
        assert len(pods.items) == 2
        for pod in pods.items:
            failed = {"status": {"phase": "Failed"}}
            await cluster.client.patch(
                resources.PODS,
                pod["metadata"]["name"],
                failed,
                namespace=NAMESPACE,
                subresource="status",
            )
        await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
        assert clock.now().timestamp() < notice.by - 100
        over = condition_of(cluster, "low")
        assert over is not None
        assert (over.status, over.reason) == ("False", "Ended")
        assert record(cluster, "low").endswith(f"Z Queue 0 cq/{NAMESPACE}")
        await until(cluster, lambda: running(cluster, "high"), "high running")


@virtual_time
async def test_a_notice_is_taken_back_if_its_preemptor_is_deleted() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await noticed(cluster)
        await asyncio.sleep(30)
        assert await annotation(cluster, "low") != ""
        await cluster.client.delete(resources.JOBS, "high", namespace=NAMESPACE)
        await until(cluster, lambda: notice_of(cluster, "low") is None, "low may stay")
        over = condition_of(cluster, "low")
        assert over is not None
        assert (over.status, over.reason) == ("False", "Rescinded")
        assert over.message == "goes on: the workload that it was to leave for is gone"
        await asyncio.sleep(600)
        assert running(cluster, "low")
        assert await annotation(cluster, "low") == ""
        assert await pod_annotations(cluster, "low") == ["", ""]
        assert record(cluster, "low") == ""
        assert await events_of(cluster, "PreemptionRescinded") == [over.message]


@virtual_time
async def test_a_notice_is_taken_back_if_more_quota_makes_it_unnecessary() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await noticed(cluster)
        more = {"flavors": [{"name": "default", "resources": [QUOTA_OF_FOUR]}]}
        group = {"resourceGroups": [{"coveredResources": ["cpu"], **more}]}
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": group})
        await until(cluster, lambda: running(cluster, "high"), "high running")
        await until(cluster, lambda: notice_of(cluster, "low") is None, "low may stay")
        assert running(cluster, "low")


QUOTA_OF_FOUR = {"name": "cpu", "nominalQuota": "4"}


@virtual_time
async def test_a_new_leader_goes_on_with_a_notice() -> None:
    clock = LoopClock()
    async with governed_cluster(POLICY, clock=clock) as cluster:
        async with cluster.manager(CONFIG, clock=clock):
            notice = await noticed(cluster)
        await asyncio.sleep(60)
        async with cluster.manager(CONFIG, clock=clock):
            await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
            assert 0 <= clock.now().timestamp() - notice.by <= 1
            await until(cluster, lambda: running(cluster, "high"), "high running")


@virtual_time
async def test_who_does_not_ask_for_a_notice_is_stopped_at_once() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(POLICY, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await submit(cluster, ranked("low", "low", pods=2, **{"checkpoint-seconds": "90"}))
        await until(cluster, lambda: running(cluster, "low"), "the job running")
        began: Any = clock.now()
        await submit(cluster, ranked("high", "high"))
        await until(cluster, lambda: is_stopping(cluster, "low"), "low evicted")
        assert clock.now() - began < timedelta(seconds=5)
        assert condition_of(cluster, "low") is None
