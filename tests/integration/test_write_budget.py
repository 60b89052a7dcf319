"""What a slow API server is spared. Times are virtual: a slow server costs the test nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.workload_state import find, is_admitted, is_evicted
from multiqueue.controllers.plan_applier import WRITERS
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.limiter import RateLimiter
from tests.audited_writes import AuditedWrites
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

CONFIG = Configuration(namespace="kueue-system", wait_for_pods_ready=None)
COUNT = 200
CAN_WAIT = {"events", "clusterqueues/status", "localqueues/status"}
PER_SECOND = 20
BEFORE_IT_IS_KNOWN = 20
"""Writes that are sent before the first answers show that the server is slow."""


@asynccontextmanager
async def managed(
    make_client: Callable[..., KubeClient], *, cpu: str, **spec: Any
) -> AsyncIterator[QueueCluster]:
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock, client_type=make_client),
    ):
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        queue = make_cluster_queue(cpu=cpu, **spec)
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


@pytest.mark.parametrize("milliseconds", [20, 100, 500])
def test_a_slow_server_writes_admissions_and_little_else(milliseconds: int) -> None:
    @virtual_time
    async def run() -> None:
        audit = AuditedWrites(milliseconds / 1000)
        async with managed(audit.make_client, cpu=str(COUNT // 2)) as cluster:
            await asyncio.sleep(10)
            audit.seen.clear()
            for number in range(COUNT):
                await cluster.create(resources.WORKLOADS, make_body(number))
            store = cluster.informers.workloads.store
            await cluster.changes.until(
                lambda: sum(is_admitted(w.status) for w in store.list()) == COUNT // 2, seconds=1000
            )
            written = audit.seen.copy()
            reasons = written["workloads/status"] - COUNT // 2
            can_wait = reasons + sum(written[what] for what in CAN_WAIT)
            assert can_wait <= 0.1 * COUNT // 2 + BEFORE_IT_IS_KNOWN
            await asyncio.sleep(300)
            assert audit.seen["events"] >= COUNT, "everybody is told afterwards"

    run()


@virtual_time
async def test_an_urgent_workload_takes_the_room_of_admissions_that_are_not_written() -> None:
    """They are taken back: nothing was written of them, so nobody is evicted for nothing."""
    audit = AuditedWrites()

    def make_client(credentials: Credentials, **options: Any) -> KubeClient:
        limiter = RateLimiter(rate=PER_SECOND, burst=PER_SECOND)
        return audit.make_client(credentials, limiter=limiter, **options)

    preemption = {"withinClusterQueue": "LowerPriority"}
    async with managed(make_client, cpu=str(COUNT), preemption=preemption) as cluster:
        await asyncio.sleep(10)
        store = cluster.informers.workloads.store
        for number in range(COUNT):
            await cluster.create(resources.WORKLOADS, make_body(number))
        await asyncio.sleep(1)
        written = sum(is_admitted(workload.status) for workload in store.list())
        assert written < COUNT / 4
        urgent = make_body(COUNT, priority=100, pods=COUNT)
        await cluster.create(resources.WORKLOADS, urgent)
        await asyncio.sleep(15)
        evicted = sum(is_evicted(workload.status) for workload in store.list())
        admitted = store.get(f"{NAMESPACE}/wl-{COUNT}")
        await asyncio.sleep(60)
        waiting = [find(w.status, WorkloadCondition.QUOTA_RESERVED) for w in store.list()]
    assert all(waiting), "who was taken back is told why it waits"
    assert admitted is not None
    assert is_admitted(admitted.status)
    assert written <= evicted <= written + WRITERS + PER_SECOND


def make_body(number: int, *, priority: int = 0, pods: int = 1) -> dict[str, Any]:
    pod_set = {"name": "main", "count": pods, "template": make_template()}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": f"wl-{number}", "namespace": NAMESPACE},
        "spec": {"queueName": "lq", "podSets": [pod_set], "priority": priority},
    }
