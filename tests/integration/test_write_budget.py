"""How many writes the life of a Workload costs, and what a slow API server is spared.

docs/writes.md has the table. Times are virtual: a slow server costs the test nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.workload_state import is_admitted, is_finished
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS, STOP_SECONDS
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.transport import ApiRequest, HttpTransport, Response
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import complete, running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

CONFIG = Configuration(namespace="kueue-system", wait_for_pods_ready=None)
COUNT = 200
AT_ONCE = Counter({"workloads": 2, "workloads/status": 2, "jobs": 1, "events": 4})
WAITED = AT_ONCE + Counter({"workloads/status": 1, "events": 1})
PREEMPTED = AT_ONCE + Counter({"workloads/status": 4, "jobs": 4, "jobs/status": 1, "events": 6})
"""The table of docs/writes.md."""
HIGH = {
    "apiVersion": names.V1BETA2,
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
    "value": 10,
}
SIDE_BY_SIDE = 4
"""Writes that the slowed server handles at a time."""
CAN_WAIT = {"events", "clusterqueues/status", "localqueues/status"}
BEFORE_IT_IS_KNOWN = 20
"""Writes that are sent before the first answers show that the server is slow."""


class AuditedWrites:
    """The manager's writes by what they are about; each takes so many seconds.

    Attributes:
        seen: (name of the object, collection and subresource) of each write, in order.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seen: list[tuple[str, str]] = []
        self.seconds = seconds
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)

    def make_client(self, credentials: Credentials, **options: Any) -> KubeClient:
        return KubeClient(credentials, open_transport=partial(AuditedTransport, self), **options)

    async def write(self, request: ApiRequest) -> None:
        body = orjson.loads(request.body or b"{}")
        _, _, path = request.target.partition("?")[0].partition(f"/namespaces/{NAMESPACE}/")
        parts = (path or request.target.partition("?")[0].split("v1beta2/")[-1]).split("/")
        about = body.get("involvedObject") or {}
        named = len(parts) > 1
        name = about.get("name") or (parts[1] if named else body["metadata"].get("name", ""))
        self.seen.append((name, "/".join([parts[0], *parts[2:]])))
        if self.seconds:
            async with self._room:
                await asyncio.sleep(self.seconds)

    def of(self, job: str) -> Counter[str]:
        """Return the writes about a job and its Workload, by collection."""
        return Counter(what for name, what in self.seen if job in name)


class AuditedTransport(HttpTransport):
    def __init__(self, audit: AuditedWrites, credentials: Credentials, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._audit = audit

    async def send(self, request: ApiRequest) -> Response:
        if request.method != "GET":
            await self._audit.write(request)
        return await super().send(request)


@asynccontextmanager
async def managed(audit: AuditedWrites, *, cpu: str) -> AsyncIterator[QueueCluster]:
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock, client_type=audit.make_client),
    ):
        await cluster.create(resources.WORKLOAD_PRIORITY_CLASSES, HIGH)
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        queue = make_cluster_queue(cpu=cpu, preemption={"withinClusterQueue": "LowerPriority"})
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


def is_over(cluster: QueueCluster, job: str) -> bool:
    workload = cluster.workload_of(job)
    return workload is not None and is_finished(workload.status)


@virtual_time
async def test_a_job_that_is_admitted_at_once() -> None:
    audit = AuditedWrites()
    async with managed(audit, cpu="4") as cluster:
        await submit(cluster, make_job("life", cpu="4"))
        await cluster.changes.until(lambda: running(cluster, "life"))
        await complete(cluster, "life")
        await cluster.changes.until(lambda: is_over(cluster, "life"))
        await asyncio.sleep(10)
    assert audit.of("life") <= AT_ONCE


@virtual_time
async def test_a_job_that_waited() -> None:
    audit = AuditedWrites()
    async with managed(audit, cpu="4") as cluster:
        await submit(cluster, make_job("first", cpu="4"))
        await cluster.changes.until(lambda: running(cluster, "first"))
        await submit(cluster, make_job("life", cpu="4"))
        await asyncio.sleep(10)
        await complete(cluster, "first")
        await cluster.changes.until(lambda: running(cluster, "life"))
        await complete(cluster, "life")
        await cluster.changes.until(lambda: is_over(cluster, "life"))
        await asyncio.sleep(10)
    assert audit.of("life") <= WAITED


@virtual_time
async def test_a_job_that_is_preempted_and_admitted_again() -> None:
    audit, clock = AuditedWrites(), LoopClock()
    async with managed(audit, cpu="4") as cluster, simulation(cluster.client, "4xcpu", clock=clock):
        await submit(cluster, ranked("life"))
        await cluster.changes.until(lambda: running(cluster, "life"))
        await submit(cluster, ranked("other", {names.PRIORITY_CLASS: "high"}))
        await cluster.changes.until(lambda: running(cluster, "other"))
        await cluster.changes.until(lambda: is_over(cluster, "life"), seconds=1000)
        await asyncio.sleep(10)
    assert audit.of("life") <= PREEMPTED


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
            written = Counter(what for _, what in audit.seen)
            reasons = written["workloads/status"] - COUNT // 2
            can_wait = reasons + sum(written[what] for what in CAN_WAIT)
            assert can_wait <= 0.1 * COUNT // 2 + BEFORE_IT_IS_KNOWN
            await asyncio.sleep(300)
            told = Counter(what for _, what in audit.seen)
            assert told["events"] >= COUNT, "everybody is told afterwards"

    run()


def ranked(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A job of all CPUs whose pod runs for 100 s and needs half a minute to stop."""
    job = make_job(name, cpu="4", labels=labels)
    annotations = {RUN_SECONDS: "100", STOP_SECONDS: "30"}
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


def make_body(number: int) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 1, "template": make_template()}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": f"wl-{number}", "namespace": NAMESPACE},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
    }
