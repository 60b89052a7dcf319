"""What the question before a drain costs the manager that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import orjson

from multiqueue.api.cluster_orders import DrainOrder
from multiqueue.drain.plan import build_plan
from multiqueue.drain.plan_reading import read_surroundings
from multiqueue.kube.client import KubeClient, ObjectList
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import WORKLOADS, Resource

NOW = datetime(2026, 1, 20, tzinfo=UTC)
SINCE = "2026-01-19T00:00:00Z"


def make_workload(name: str, worker: str) -> dict[str, Any]:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}]
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": SINCE}
    admission = {"clusterQueue": "cq", "podSetAssignments": []}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "ownerReferences": owners},
        "spec": {"queueName": "lq", "podSets": []},
        "status": {
            "conditions": [reserved],
            "admission": admission,
            "clusterName": worker,
        },
    }


class RecordingCluster:
    """A client of a cluster with Workloads on two workers; `reads` are the objects it was asked."""

    def __init__(self, here: int) -> None:
        self.workloads = [make_workload(f"here-{n}", "a") for n in range(here)]
        self.workloads += [make_workload(f"there-{n}", "b") for n in range(50)]
        self.reads: list[str] = []
        self.lists: list[str] = []

    async def list(
        self, resource: Resource, *, decode: Callable[[bytes], Any], **_: Any
    ) -> ObjectList[Any]:
        self.lists.append(resource.plural)
        found = self.workloads if resource is WORKLOADS else []
        return ObjectList([decode(orjson.dumps(each)) for each in found], "1")

    async def get(self, resource: Resource, name: str, *, namespace: str) -> dict[str, Any]:
        self.reads.append(f"{resource.plural} {namespace}/{name}")
        if name == "here-1":
            raise NotFound(404, reason="NotFound", message="gone")
        return {"metadata": {"name": name, "uid": f"uid-{name}"}}


async def test_only_the_jobs_on_the_worker_are_read() -> None:
    cluster = RecordingCluster(3)
    around = await read_surroundings(
        cast("KubeClient", cluster), "a", system_namespace="ns", now=NOW
    )
    assert cluster.reads == [f"jobs team/here-{n}" for n in range(3)]
    assert "jobs" not in cluster.lists
    assert [each.metadata.name for each in around.workloads] == ["here-0", "here-1", "here-2"]
    assert sorted(around.jobs) == ["uid-here-0", "uid-here-2"]


async def test_other_tasks_run_between_the_jobs_of_a_plan() -> None:
    cluster = cast("KubeClient", RecordingCluster(20))
    around = await read_surroundings(cluster, "a", system_namespace="ns", now=NOW)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    plan = await build_plan("a", around, DrainOrder(), NOW)
    counting.cancel()
    assert len(plan.moves) == 20
    assert turns >= 20
