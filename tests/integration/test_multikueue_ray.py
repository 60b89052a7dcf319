"""Ray kinds on a worker: an elastic RayCluster changes its size, a RayService its applications."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.slices import counts_of
from multiqueue.api.workload_state import is_admitted, is_finished
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.ray.integration import RayCluster
from multiqueue.kube.resources import Resource
from tests.builders.workloads import NAMESPACE
from tests.integration.test_multikueue_kind_life import KindWorld, kind_world
from tests.job_kinds import EXAMPLES
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

BY_KIND = {each.row.kind: each for each in EXAMPLES}
CLUSTER, SERVICE = BY_KIND["RayCluster"], BY_KIND["RayService"]


async def change(cluster: QueueCluster, resource: Resource, spec: dict[str, Any]) -> None:
    await cluster.patch(resource, "job", {"spec": spec}, namespace=NAMESPACE)


def slices(cluster: QueueCluster) -> list[tuple[str, int]]:
    """Names and numbers of workers of the slices that run."""
    return [
        (workload.metadata.name, counts_of(workload.spec.pod_sets)["workers"])
        for workload in cluster.informers.workloads.store.list()
        if is_admitted(workload.status) and not is_finished(workload.status)
    ]


async def until_workers(world: KindWorld, count: int) -> None:
    """Wait until one slice of that size runs, here and there, and the copy has that size."""

    def here() -> bool:
        return [workers for _, workers in slices(world.hub)] == [count]

    def there() -> bool:
        job = world.job(world.worker)
        if job is None or job["spec"]["workerGroupSpecs"][0]["replicas"] != count:
            return False
        name = job["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME]
        return slices(world.worker) == [(name, count)]

    await world.hub.changes.until(here, f"a slice of {count} here")
    await world.worker.changes.until(there, f"{count} workers there")


@virtual_time
async def test_an_elastic_cluster_changes_its_size_on_its_worker() -> None:
    """M-161..M-163, J-343: the copy is never made anew, and does not scale itself."""
    async with kind_world(CLUSTER) as world:
        job = CLUSTER.make()
        job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
        job["spec"] |= {"managedBy": names.MULTIKUEUE_CONTROLLER, "suspend": True}
        integration = CLUSTER.kind.integration
        assert isinstance(integration, RayCluster)
        await world.hub.create(CLUSTER.resource, integration.gated(job))
        first = await world.until_started()
        assert "enableInTreeAutoscaling" not in first["spec"]
        await world.set_phase(JobPhase.READY)
        await until_workers(world, 1)
        for count in (4, 2):
            live = world.job(world.hub)
            assert live is not None
            groups = [{**live["spec"]["workerGroupSpecs"][0], "replicas": count}]
            await change(world.hub, CLUSTER.resource, {"workerGroupSpecs": groups})
            await until_workers(world, count)
        last = world.job(world.worker)
        assert last is not None
        assert last["metadata"]["uid"] == first["metadata"]["uid"]
        assert last["spec"]["suspend"] is False


@virtual_time
async def test_a_service_gets_other_applications_on_its_worker() -> None:
    """rayservice-12, M-145: the rest of its spec is copied once."""
    async with kind_world(SERVICE) as world:
        await world.submit()
        await world.until_started()
        await world.set_phase(JobPhase.READY)
        for text in ("applications: [a]", "applications: [b]"):
            await change(world.hub, SERVICE.resource, {"serveConfigV2": text, "other": text})

            def forwarded(text: str = text) -> bool:
                job = world.job(world.worker)
                return job is not None and job["spec"].get("serveConfigV2") == text

            await world.worker.changes.until(forwarded, text)
        job = world.job(world.worker)
        assert job is not None
        assert "other" not in job["spec"]
        assert job["spec"]["rayClusterConfig"]["suspend"] is False
