"""A job of every kind on a worker: mirrored, run, taken back, run again, ended.

The worker runs this program's controllers; the test plays the kind's own controller there.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube import resources
from tests.builders.workloads import NAMESPACE
from tests.job_kinds import EXAMPLES, KindExample, config_for
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

WORKER = "worker1"
DELEGATED = [
    each
    for each in EXAMPLES
    if isinstance(each.kind.integration, TemplateKind)
    and each.kind.integration.managed_by_field
    and each.kind.adapter
]
every_kind = pytest.mark.parametrize("example", DELEGATED, ids=lambda each: each.row.kind)


class KindWorld:
    """A manager and one worker that serve a kind, with quota for the kind's example."""

    def __init__(self, world: MultiKueueWorld, example: KindExample) -> None:
        self.hub, self.worker = world.hub, world.workers[WORKER]
        self.example = example

    async def submit(self) -> None:
        integration = self.example.kind.integration
        assert isinstance(integration, TemplateKind)
        assert integration.managed_by_field
        job = set_field(
            self.example.make(), integration.managed_by_field, names.MULTIKUEUE_CONTROLLER
        )
        await self.hub.create(self.example.resource, integration.set_suspended(job, value=True))

    def job(self, cluster: QueueCluster) -> dict[str, Any] | None:
        store = cluster.informers.jobs[self.example.row.framework].store
        found: dict[str, Any] | None = store.get(f"{NAMESPACE}/job")
        return found

    def workload(self) -> Workload | None:
        return next(iter(self.hub.informers.workloads.store.list()), None)

    async def until_started(self) -> dict[str, Any]:
        """Wait until the worker has started the job; returns the job there."""

        def started() -> dict[str, Any] | None:
            job = self.job(self.worker)
            runs = job is not None and not self.example.kind.integration.is_suspended(job)
            return job if runs else None

        return await self.worker.changes.until(started, "a job that runs on the worker")

    async def until_gone(self) -> None:
        def gone() -> bool:
            return self.job(self.worker) is None and not list(
                self.worker.informers.workloads.store.list()
            )

        await self.worker.changes.until(gone, "a worker with nothing left")

    async def set_phase(self, phase: JobPhase) -> None:
        """Have the kind's controller on the worker write a status; wait until it is here."""
        await self.example.set_phase(self.worker, "job", phase)
        remote = await self.worker.client.get(self.example.resource, "job", namespace=NAMESPACE)

        def same() -> bool:
            local = self.job(self.hub)
            return local is not None and local.get("status") == remote["status"]

        await self.hub.changes.until(same, f"status of phase {phase}")

    async def set_active(self, *, value: bool) -> None:
        workload = self.workload()
        assert workload is not None
        patch = {"apiVersion": names.V1BETA2, "spec": {"active": value}}
        name = workload.metadata.name
        await self.hub.patch(resources.WORKLOADS, name, patch, namespace=NAMESPACE)


async def make_cpu_queue(cluster: QueueCluster, cpu: str) -> None:
    quotas = {"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quotas]}]
    await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": groups}})


@contextlib.asynccontextmanager
async def kind_world(example: KindExample) -> AsyncIterator[KindWorld]:
    config = msgspec.structs.replace(config_for(example), multi_kueue=make_config().multi_kueue)
    async with multikueue_world(
        WORKER, real_workers=True, config=config, crds=example.crds
    ) as world:
        for cluster in (world.hub, *world.workers.values()):
            await make_cpu_queue(cluster, "8")
            await example.create_objects(cluster.client)
        async with world.manager(config):
            yield KindWorld(world, example)


@every_kind
@virtual_time
async def test_it_runs_on_a_worker_and_comes_back(example: KindExample) -> None:
    integration = example.kind.integration
    assert isinstance(integration, TemplateKind)
    async with kind_world(example) as world:
        await world.submit()
        remote = await world.until_started()
        assert integration.managed_by_field
        assert get_field(remote, integration.managed_by_field) is None
        await world.set_phase(JobPhase.READY)

        # Taken back while it runs: nothing is left there, and its quota here is free.
        await world.set_active(value=False)
        await world.until_gone()

        def released() -> bool:
            workload, job = world.workload(), world.job(world.hub)
            assert job is not None
            stopped = integration.is_suspended(job) and not integration.is_active(job)
            return stopped and workload is not None and not has_quota(workload.status)

        await world.hub.changes.until(released, "released quota")
        await world.set_active(value=True)
        await world.until_started()
        if not example.simulated.ends:
            return
        await world.set_phase(JobPhase.READY)
        await example.set_phase(world.worker, "job", JobPhase.SUCCEEDED)

        def ended() -> Workload | None:
            workload = world.workload()
            return workload if workload is not None and is_finished(workload.status) else None

        workload = await world.hub.changes.until(ended, "a finished Workload")
        condition = find(workload.status, WorkloadCondition.FINISHED)
        assert condition is not None
        assert condition.reason == "Succeeded"
        await world.until_gone()
        end = integration.finished(world.job(world.hub) or {})
        assert end is not None
        assert end.success


@pytest.mark.parametrize("example", DELEGATED[:1], ids=lambda each: each.row.kind)
@virtual_time
async def test_deleting_it_here_deletes_it_there(example: KindExample) -> None:
    async with kind_world(example) as world:
        await world.submit()
        await world.until_started()
        await world.set_phase(JobPhase.RUNNING)
        await world.hub.client.delete(example.resource, "job", namespace=NAMESPACE)
        await world.until_gone()
