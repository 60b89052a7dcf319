"""Devices of dynamic resource allocation count as quota, and what cannot be counted says why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.device_objects import (
    DEVICE_CRDS,
    claiming,
    make_claim_template,
    make_device_class,
    make_device_queue,
    requesting,
)
from tests.integration.queue_steps import admitted, submit
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

MAPPED = msgspec.convert(
    {"deviceClassMappings": [{"name": "gpu", "deviceClassNames": ["gpu.example.com"]}]},
    type(CONFIG.resources),
)


def config(**gates: bool) -> Configuration:
    return msgspec.structs.replace(CONFIG, resources=MAPPED, feature_gates=gates)


@asynccontextmanager
async def device_cluster(**gates: bool) -> AsyncIterator[QueueCluster]:
    """A cluster with a queue of four devices and a manager that counts them."""
    async with queue_cluster(crds=DEVICE_CRDS) as cluster:
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_device_queue("gpu", 4, "x/gpu"))
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        async with cluster.manager(config(**gates)):
            yield cluster


def usage(workload: Workload) -> dict[str, str]:
    assert workload.status.admission is not None
    (assignment,) = workload.status.admission.pod_set_assignments
    return dict(assignment.resource_usage)


async def until_pending(cluster: QueueCluster, job: str, reason: Reason) -> str:
    """Wait until a job waits for that reason; return the message."""

    def pending() -> str | None:
        workload = cluster.workload_of(job)
        known = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
        return known.message if known and known.reason == reason else None

    return await cluster.changes.until(pending, f"{job}: {reason}")


async def until_admitted(cluster: QueueCluster, job: str) -> Workload:
    return await cluster.changes.until(lambda: admitted(cluster, job), f"{job} is admitted")


@virtual_time
async def test_claims_and_extended_resources_share_one_quota() -> None:
    async with device_cluster() as cluster:
        await cluster.create(resources.DEVICE_CLASSES, make_device_class(extended="x/gpu"))
        await cluster.create(
            resources.RESOURCE_CLAIM_TEMPLATES, make_claim_template("three", count=3)
        )
        await submit(cluster, claiming(make_job("claims"), "three"))
        assert usage(await until_admitted(cluster, "claims")) == {"cpu": "1", "gpu": "3"}
        await submit(cluster, requesting(make_job("asks"), "x/gpu", 2))
        message = await until_pending(cluster, "asks", Reason.WAITING_FOR_QUOTA)
        assert "insufficient unused quota for gpu in flavor default, 1 more needed" in message
        await submit(cluster, requesting(make_job("one"), "x/gpu", 1))
        assert usage(await until_admitted(cluster, "one")) == {"cpu": "1", "gpu": "1"}


@virtual_time
async def test_a_job_is_admitted_once_its_template_can_be_counted() -> None:
    """Nothing has to be touched: the template itself wakes the Workload."""
    async with device_cluster() as cluster:
        await submit(cluster, claiming(make_job("claims"), "late"))
        message = await until_pending(cluster, "claims", Reason.MISCONFIGURED)
        assert 'pod set "main": ResourceClaimTemplate "late" not found' in message
        await cluster.create(
            resources.RESOURCE_CLAIM_TEMPLATES, make_claim_template("late", device_class="other")
        )

        def names_the_class() -> bool:
            workload = cluster.workload_of("claims")
            known = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            return bool(known and 'DeviceClass "other" is not mapped' in known.message)

        await cluster.changes.until(names_the_class, "the class is named")
        await cluster.client.delete(resources.RESOURCE_CLAIM_TEMPLATES, "late", namespace=NAMESPACE)
        await cluster.create(resources.RESOURCE_CLAIM_TEMPLATES, make_claim_template("late"))
        assert usage(await until_admitted(cluster, "claims")) == {"cpu": "1", "gpu": "1"}


@virtual_time
async def test_a_class_that_offers_a_resource_changes_what_waiting_jobs_request() -> None:
    async with device_cluster() as cluster:
        await submit(cluster, requesting(make_job("eight"), "x/gpu", 8))
        message = await until_pending(cluster, "eight", Reason.EXCEEDS_MAX_QUOTA)
        assert "x/gpu" in message
        await cluster.create(resources.DEVICE_CLASSES, make_device_class(extended="x/gpu"))

        def counts_as_gpu() -> bool:
            workload = cluster.workload_of("eight")
            known = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            return bool(known and "for gpu in flavor" in known.message)

        await cluster.changes.until(counts_as_gpu, "counted under the name of the mapping")


@virtual_time
async def test_without_the_gate_jobs_with_claims_are_refused() -> None:
    async with device_cluster(KueueDRAIntegration=False) as cluster:
        await submit(cluster, claiming(make_job("claims"), "any"))
        message = await until_pending(cluster, "claims", Reason.MISCONFIGURED)
        assert "the KueueDRAIntegration feature gate is not enabled" in message


@virtual_time
async def test_a_cluster_without_the_kinds_runs_jobs_without_devices() -> None:
    async with queue_cluster() as cluster, cluster.manager(config()):
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_device_queue("x/gpu"))
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await submit(cluster, requesting(make_job("asks"), "x/gpu", 2))
        assert usage(await until_admitted(cluster, "asks")) == {"cpu": "1", "x/gpu": "2"}
