"""The life of a job of every kind that is suspended by a field, through the API.

The webhooks do not run here: nothing may start without an admitted Workload all the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.names import QUEUE_NAME, V1BETA2
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_finished
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube import resources
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.job_kinds import EXAMPLES, KindExample, config_for, kind_cluster
from tests.queue_manager import QueueCluster

SAMPLES = Path(__file__).parents[2] / "config" / "samples-kinds"
FIELDS = [each for each in EXAMPLES if isinstance(each.kind.integration, TemplateKind)]
every_kind = pytest.mark.parametrize("example", FIELDS, ids=lambda each: each.row.kind)


def workload_of(cluster: QueueCluster, example: KindExample) -> Workload | None:
    owned = (
        workload
        for workload in cluster.informers.workloads.store.list()
        for owner in workload.metadata.owner_references
        if owner.kind == example.row.kind
    )
    return next(owned, None)


async def until_admitted(cluster: QueueCluster, example: KindExample) -> Workload:
    def admitted() -> Workload | None:
        found = workload_of(cluster, example)
        return found if found is not None and is_admitted(found.status) else None

    return await cluster.changes.until(admitted, "an admitted Workload")


async def until_suspended(
    cluster: QueueCluster, example: KindExample, *, value: bool
) -> dict[str, Any]:
    jobs = cluster.informers.jobs[example.row.framework].store

    def job() -> dict[str, Any] | None:
        found = jobs.get(f"{NAMESPACE}/job")
        known = found is not None and example.kind.integration.is_suspended(found) is value
        return found if known else None

    return await cluster.changes.until(job, f"a job with suspend={value}")


def is_field_set(cluster: QueueCluster, example: KindExample) -> bool:
    """Whether the job's field for that is true, be its stop complete or not."""
    job = cluster.informers.jobs[example.row.framework].store.get(f"{NAMESPACE}/job")
    kind = example.kind.integration
    assert isinstance(kind, TemplateKind)
    return job is not None and get_field(job, kind.suspend_field) is True


def node_selectors(obj: Any) -> list[Any]:
    """The node selectors at any depth of an object, wherever the kind has them."""
    if isinstance(obj, list):
        return [found for each in obj for found in node_selectors(each)]
    if not isinstance(obj, dict):
        return []
    found = [obj["nodeSelector"]] if "nodeSelector" in obj else []
    return found + [each for value in obj.values() for each in node_selectors(value)]


@every_kind
async def test_it_waits_runs_and_ends(example: KindExample) -> None:
    async with kind_cluster(example) as cluster, cluster.manager(config_for(example)):
        await create_queue(cluster, cpu="4", zone="a")
        await cluster.create(example.resource, example.make())
        workload = await until_admitted(cluster, example)
        running = await until_suspended(cluster, example, value=False)
        assert node_selectors(running) == [{"zone": "a"}] * len(workload.spec.pod_sets)
        assert [p.name for p in workload.spec.pod_sets] == [
            p.name for p in example.kind.integration.pod_sets(example.read(example.make()))
        ]
        if not example.simulated.ends:
            return
        await example.set_phase(cluster, "job", JobPhase.READY)
        await example.set_phase(cluster, "job", JobPhase.SUCCEEDED)

        def finished() -> Workload | None:
            found = workload_of(cluster, example)
            return found if found is not None and is_finished(found.status) else None

        ended = await cluster.changes.until(finished, "a finished Workload")
        condition = find(ended.status, WorkloadCondition.FINISHED)
        assert condition is not None
        assert condition.reason == "Succeeded"


def read_sample(example: KindExample) -> dict[str, Any]:
    """The job of the kind that users copy, in the namespace and queue of these tests."""
    sample: dict[str, Any] = yaml.safe_load(
        (SAMPLES / f"{example.row.kind.lower()}.yaml").read_text()
    )
    assert (sample["kind"], sample["apiVersion"]) == (example.row.kind, example.row.api_version)
    labels = {**sample["metadata"]["labels"], QUEUE_NAME: "lq"}
    sample["metadata"] |= {"name": "job", "namespace": NAMESPACE, "labels": labels}
    return sample


@every_kind
async def test_its_sample_starts_with_quota_for_all_of_its_pods(example: KindExample) -> None:
    sample = read_sample(example)
    kind = example.kind.integration
    async with kind_cluster(example) as cluster, cluster.manager(config_for(example)):
        await create_queue(cluster, cpu="100")
        room = [{"name": "cpu", "nominalQuota": 100}, {"name": "memory", "nominalQuota": "100Gi"}]
        quota = {
            "coveredResources": ["cpu", "memory"],
            "flavors": [{"name": "default", "resources": room}],
        }
        spec = {"resourceGroups": [quota]}
        patch = {"apiVersion": V1BETA2, "spec": spec}
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", patch)
        await cluster.create(example.resource, sample)
        workload = await until_admitted(cluster, example)
        await until_suspended(cluster, example, value=False)
        wanted = {each.name: each.count for each in kind.pod_sets(example.read(sample))}
        assert {each.name: each.count for each in workload.spec.pod_sets} == wanted
        assert workload.status.admission is not None
        given = workload.status.admission.pod_set_assignments
        assert {each.name for each in given if each.resource_usage} == set(wanted)


@every_kind
async def test_a_stopped_job_is_as_its_user_wrote_it(example: KindExample) -> None:
    async with kind_cluster(example) as cluster, cluster.manager(config_for(example)):
        await create_queue(cluster, cpu="4", zone="a")
        written = await cluster.create(example.resource, example.make())
        await until_admitted(cluster, example)
        await until_suspended(cluster, example, value=False)
        await example.set_phase(cluster, "job", JobPhase.RUNNING)
        workload = workload_of(cluster, example)
        assert workload is not None
        await cluster.patch(
            resources.WORKLOADS,
            workload.metadata.name,
            {"apiVersion": V1BETA2, "spec": {"active": False}},
            namespace=NAMESPACE,
        )
        await cluster.changes.until(lambda: is_field_set(cluster, example), "a job to suspend")
        await example.set_phase(cluster, "job", JobPhase.SUSPENDED)

        def released() -> bool:
            found = workload_of(cluster, example)
            return found is not None and not has_quota(found.status)

        await cluster.changes.until(released, "released quota")
        stopped = await until_suspended(cluster, example, value=True)
        wanted = example.kind.integration.set_suspended(written, value=True)["spec"]
        assert stopped["spec"] == wanted


@every_kind
async def test_it_waits_for_room(example: KindExample) -> None:
    async with kind_cluster(example) as cluster, cluster.manager(config_for(example)):
        await create_queue(cluster, cpu="0")
        await cluster.create(example.resource, example.make())

        def waits() -> bool:
            found = workload_of(cluster, example)
            quota = find(found.status, WorkloadCondition.QUOTA_RESERVED) if found else None
            return quota is not None and quota.status == "False"

        await cluster.changes.until(waits, "a refusal")
        await until_suspended(cluster, example, value=True)
