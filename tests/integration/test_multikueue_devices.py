"""Devices across clusters: each cluster counts with its own templates (M-192, T-69, T-70)."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import GPU
from tests.device_objects import DEVICE_CRDS, claiming, make_claim_template, make_device_class
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import CONFIG, QueueCluster
from tests.virtual_time import virtual_time

MAPPED = msgspec.convert(
    {"deviceClassMappings": [{"name": GPU, "deviceClassNames": ["gpu.example.com"]}]},
    type(CONFIG.resources),
)


def make_device_job() -> dict[str, Any]:
    """A dispatched Job whose one pod claims three devices, and requests nothing else."""
    job = make_job("train", managedBy=names.MULTIKUEUE_CONTROLLER)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    return claiming(job, "three")


async def offer_devices(*clusters: QueueCluster) -> None:
    for cluster in clusters:
        await cluster.create(resources.DEVICE_CLASSES, make_device_class())
        template = make_claim_template("three", count=3)
        await cluster.create(resources.RESOURCE_CLAIM_TEMPLATES, template)


def counted(cluster: QueueCluster) -> str | None:
    """The devices that count for the one Workload of a cluster."""
    for workload in cluster.informers.workloads.store.list():
        if workload.status.admission is not None:
            return workload.status.admission.pod_set_assignments[0].resource_usage[GPU]
    return None


async def submit_to(world: MultiKueueWorld) -> None:
    config = msgspec.structs.replace(make_config(), resources=MAPPED)
    async with world.manager(config):
        await world.until_connected(*world.workers)
        await world.hub.create(resources.JOBS, make_device_job())
        assert await world.until_ready() == "worker2"
        assert counted(world.hub) == "3"
        assert counted(world.workers["worker2"]) == "3"
        assert counted(world.workers["worker1"]) is None


@virtual_time
async def test_a_job_runs_on_the_worker_that_has_its_claim_template() -> None:
    config = msgspec.structs.replace(CONFIG, resources=MAPPED)
    async with multikueue_world(
        "worker1", "worker2", real_workers=True, crds=DEVICE_CRDS, worker_config=config
    ) as world:
        await offer_devices(world.hub, world.workers["worker2"])
        await submit_to(world)
