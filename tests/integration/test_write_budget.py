"""What a slow API server is spared. Times are virtual: a slow server costs the test nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.workload_state import is_admitted
from multiqueue.kube import resources
from tests.audited_writes import AuditedWrites
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

CONFIG = Configuration(namespace="kueue-system", wait_for_pods_ready=None)
COUNT = 200
CAN_WAIT = {"events", "clusterqueues/status", "localqueues/status"}
BEFORE_IT_IS_KNOWN = 20
"""Writes that are sent before the first answers show that the server is slow."""


@asynccontextmanager
async def managed(audit: AuditedWrites, *, cpu: str) -> AsyncIterator[QueueCluster]:
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock, client_type=audit.make_client),
    ):
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        queue = make_cluster_queue(cpu=cpu)
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


@pytest.mark.parametrize("milliseconds", [20, 100, 500])
def test_a_slow_server_writes_admissions_and_little_else(milliseconds: int) -> None:
    @virtual_time
    async def run() -> None:
        audit = AuditedWrites(milliseconds / 1000)
        async with managed(audit, cpu=str(COUNT // 2)) as cluster:
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


def make_body(number: int) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 1, "template": make_template()}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": f"wl-{number}", "namespace": NAMESPACE},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
    }
