"""Jobs of every kind that cannot be queued as they are: each says why, and disturbs no other."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import orjson

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, is_admitted
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube.resources import resource_of
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.job_kinds import EXAMPLES, KindExample, config_for, kind_cluster
from tests.queue_manager import QueueCluster
from tests.waiting import SECONDS

FIELDS = [each for each in EXAMPLES if isinstance(each.kind.integration, TemplateKind)]
COUNTS = {"replicas", "parallelism", "completions", "instances", "minReplicas", "maxReplicas"}
WITHOUT_COUNTS = {"AppWrapper", "TrainJob"}
"""Kinds whose example leaves the counts to what it wraps or refers to."""
COUNTED = [each for each in FIELDS if each.row.kind not in WITHOUT_COUNTS]
EVENTS = resource_of("v1", "events", "Event")


def with_counts(obj: Any, count: int) -> Any:
    """The same with this number of pods wherever it has a number of pods."""
    if isinstance(obj, list):
        return [with_counts(each, count) for each in obj]
    if not isinstance(obj, dict):
        return obj
    return {
        name: count if name in COUNTS and isinstance(value, int) else with_counts(value, count)
        for name, value in obj.items()
    }


def workload_of(cluster: QueueCluster, example: KindExample, name: str) -> Workload | None:
    owned = (
        workload
        for workload in cluster.informers.workloads.store.list()
        for owner in workload.metadata.owner_references
        if (owner.kind, owner.name) == (example.row.kind, name)
    )
    return next(owned, None)


async def refusals(cluster: QueueCluster, kinds: set[str]) -> dict[str, str]:
    """The words about jobs that have no Workload, by kind, once there are some for all kinds."""
    found: dict[str, str] = {}
    events = cluster.client.watch(EVENTS, namespace=NAMESPACE, resource_version="0")
    async with asyncio.timeout(SECONDS), aclosing(events):
        async for each in events:
            event = orjson.loads(each.raw)
            if event.get("reason") == "ErrWorkloadCompose" and event["type"] == "Warning":
                found[event["involvedObject"]["kind"]] = event["message"]
            if found.keys() == kinds:
                break
    return found


async def test_negative_counts_are_told_on_the_object_and_others_go_on() -> None:
    good = FIELDS[0]
    async with kind_cluster(*FIELDS) as cluster, cluster.manager(config_for(*FIELDS)):
        await create_queue(cluster)
        for example in COUNTED:
            job = example.make("negative")
            await cluster.client.create(
                example.resource, {**job, "spec": with_counts(job["spec"], -1)}
            )
        await cluster.client.create(good.resource, good.make("good"))

        def admitted() -> bool:
            found = workload_of(cluster, good, "good")
            return found is not None and is_admitted(found.status)

        await cluster.changes.until(admitted, "the good job")
        told = await refusals(cluster, {example.row.kind for example in COUNTED})
        for kind, words in told.items():
            assert "-1" in words, kind
            assert "correct" in words or "is invalid" in words, kind
        assert all(workload_of(cluster, each, "negative") is None for each in COUNTED)


async def test_an_unknown_queue_is_named_on_the_workload_of_every_kind() -> None:
    async with kind_cluster(*FIELDS) as cluster, cluster.manager(config_for(*FIELDS)):
        await create_queue(cluster)
        for example in FIELDS:
            await cluster.client.create(example.resource, example.make(queue="nowhere"))

        def told() -> bool:
            found = [workload_of(cluster, each, "job") for each in FIELDS]
            waits = [
                workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
                for workload in found
            ]
            return all(
                each
                and each.reason == Reason.MISCONFIGURED
                and each.message == "LocalQueue nowhere doesn't exist"
                for each in waits
            )

        await cluster.changes.until(told, "a condition that names the queue, of every kind")
