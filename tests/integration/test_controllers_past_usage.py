"""LocalQueues take turns by past usage, which outlives the manager (E-120 to E-126)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from multiqueue.api.conditions import ACTIVE, is_true
from multiqueue.api.config import AdmissionFairSharing, Configuration
from multiqueue.api.durations import Duration
from multiqueue.kube import resources
from multiqueue.lib.quantity import parse_quantity
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, complete, running, submit
from tests.metric_values import read_value
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

CPU = 10**9  # nanos


def sharing_by(minutes: int, *, by: str = "LocalQueue") -> Configuration:
    """Past usage with a half-life of an hour, sampled every so many minutes."""
    sharing = AdmissionFairSharing(
        usage_half_life_time=Duration(hours=1),
        usage_sampling_interval=Duration(minutes=minutes),
        by=by,
    )
    return Configuration(namespace=CONFIG.namespace, admission_fair_sharing=sharing)


async def make_shared_queue(cluster: QueueCluster) -> None:
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
    await cluster.create(
        resources.CLUSTER_QUEUES, make_cluster_queue(cpu="4", admissionScope=scope)
    )
    for name in ("used", "unused"):
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name))


def consumed(cluster: QueueCluster, local_queue: str) -> int:
    """Nanos of cpu in the status; -1 before there is one."""
    queue = cluster.informers.local_queues.store.get(f"{NAMESPACE}/{local_queue}")
    sharing = queue.status.fair_sharing if queue is not None else None
    status = sharing.admission_fair_sharing_status if sharing is not None else None
    if status is None:
        return -1
    return parse_quantity(status.consumed_resources.get("cpu", "0")).nano


@virtual_time
async def test_a_restart_does_not_forget_who_used_how_much() -> None:
    async with queue_cluster() as cluster:
        async with cluster.manager(sharing_by(minutes=1)):
            await make_shared_queue(cluster)
            await submit(cluster, make_job("first", queue="used", cpu="4"))
            await asyncio.sleep(3600)
            for name, queue in (("a-second", "used"), ("b-other", "unused")):
                await submit(cluster, make_job(name, queue=queue, cpu="4"))
                await until(cluster, lambda n=name: cluster.workload_of(n), "its Workload")
            assert consumed(cluster, "unused") == 0
        before = consumed(cluster, "used")
        assert before > CPU
        await complete(cluster, "first")

        async with cluster.manager(sharing_by(minutes=1)) as manager:
            await until(cluster, lambda: running(cluster, "b-other"), "the other's job")
            assert not running(cluster, "a-second")
            await until(cluster, lambda: consumed(cluster, "unused") > 0, "its usage")
            gauge = manager.metrics.local_queue_admission_fair_sharing_usage
            assert gauge.child("used", NAMESPACE, "cq").collect()
        # The history that was persisted is most of what there is, some samples later.
        assert before * 0.95 < consumed(cluster, "used") < before * 1.05


@virtual_time
async def test_an_owner_does_not_get_more_by_another_queue() -> None:
    """Both queues of one namespace; the one that used nothing asked first (P-121)."""
    config = sharing_by(minutes=1, by="Owner")
    async with queue_cluster() as cluster, cluster.manager(config) as manager:
        await make_shared_queue(cluster)
        await cluster.create(
            resources.NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}},
        )
        await cluster.create(resources.LOCAL_QUEUES, in_team_b(make_local_queue("theirs")))
        await submit(cluster, make_job("first", queue="used", cpu="4"))
        await asyncio.sleep(3600)
        await submit(cluster, make_job("a-second", queue="unused", cpu="4"))
        await asyncio.sleep(5)
        await submit(cluster, in_team_b(make_job("b-other", queue="theirs", cpu="4")))
        await until(cluster, lambda: cluster.workload_of("b-other"), "its Workload")
        await complete(cluster, "first")

        await until(cluster, lambda: admitted(cluster, "b-other"), "the other owner's job")
        assert not admitted(cluster, "a-second")
        gauge = manager.metrics.local_queue_admission_fair_sharing_usage
        used, unused = (
            read_value(gauge.child(name, NAMESPACE, "cq")) for name in ("used", "unused")
        )
        assert used == pytest.approx(unused, rel=0.1)


def in_team_b(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "team-b"}}


@virtual_time
async def test_nothing_is_sampled_while_the_queue_is_stopped() -> None:
    """Who is admitted first after the stop pays for all of it, as the recordings have it."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(sharing_by(minutes=1), clock=clock),
    ):
        await make_shared_queue(cluster)
        await submit(cluster, make_job("first", queue="used", cpu="4"))
        await until(cluster, lambda: consumed(cluster, "used") > 0, "past usage")
        await stop(cluster, "HoldAndDrain")
        await until(cluster, lambda: not is_active(cluster, "used"), "the stop")
        before = consumed(cluster, "used")
        await asyncio.sleep(3600)
        assert consumed(cluster, "used") == before

        await submit(cluster, make_job("second", queue="unused", cpu="4"))
        await until(cluster, lambda: cluster.workload_of("second"), "a second job")
        await stop(cluster, "None")
        await until(cluster, lambda: consumed(cluster, "unused") > 0, "its usage")
        assert running(cluster, "second")
        assert consumed(cluster, "unused") > 2 * CPU  # half of what it uses, for a half-life


async def until(cluster: QueueCluster, what: Callable[[], Any], description: str) -> None:
    await cluster.changes.until(what, description, seconds=3600)


async def stop(cluster: QueueCluster, policy: str) -> None:
    await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": policy}})


def is_active(cluster: QueueCluster, local_queue: str) -> bool:
    queue = cluster.informers.local_queues.store.get(f"{NAMESPACE}/{local_queue}")
    return queue is not None and is_true(queue.status.conditions, ACTIVE)
