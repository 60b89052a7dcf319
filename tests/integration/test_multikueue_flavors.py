"""What the manager reserved is what runs: flavors of the manager on workers with several."""

from __future__ import annotations

from typing import Any

from prometheus_client import generate_latest

from multiqueue.api import names
from multiqueue.drain.relocation import with_flavors
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    RESOURCE_FLAVORS,
)
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU, make_gpu_flavor, make_gpu_queue
from tests.multikueue_world import CHECK, MultiKueueWorld, multikueue_world
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time


async def give(cluster: QueueCluster, *, checks: tuple[str, ...] = (), **gpus: int) -> None:
    """Give a cluster flavors labelled by their names, and a queue with them."""
    for name in gpus:
        await cluster.create(RESOURCE_FLAVORS, make_gpu_flavor(name, accelerator=name))
    await cluster.patch(CLUSTER_QUEUES, "cq", make_gpu_queue(gpus, checks=checks))


def ran_on(world: MultiKueueWorld, worker: str, job: str = "train") -> str:
    """The flavor that the worker took."""
    copy = world.copy(worker, job)
    assert copy is not None
    assert copy.status.admission is not None
    return copy.status.admission.pod_set_assignments[0].flavors[GPU]


@virtual_time
async def test_a_worker_with_several_flavors_takes_the_reserved_one():
    """G-15."""
    async with multikueue_world("w1", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8)
        await give(world.workers["w1"], a100=8, h100=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            await world.until_ready()
            assert ran_on(world, "w1") == "h100"
            job = await world.until(lambda: _running(world, "w1"), "job runs", on="w1")
            assert job["spec"]["template"]["spec"]["nodeSelector"] == {"accelerator": "h100"}


def _running(world: MultiKueueWorld, worker: str) -> dict[str, Any] | None:
    job = world.workers[worker].job("train")
    return job if job is not None and not job["spec"].get("suspend") else None


@virtual_time
async def test_clusters_with_other_hardware_get_no_copy_whoever_dispatches():
    async with multikueue_world("a", "h", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8)
        await give(world.workers["a"], a100=8)
        await give(world.workers["h"], h100=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            assert await world.until_ready() == "h"
            assert world.copy("a") is None


@virtual_time
async def test_the_manager_takes_the_flavor_that_some_worker_has():
    """Quota of both is there, hardware of one only."""
    async with multikueue_world("a", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8, a100=8)
        await give(world.workers["a"], a100=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            await world.until_ready()
            workload = world.workload()
            assert workload.status.admission.pod_set_assignments[0].flavors == {GPU: "a100"}


@virtual_time
async def test_declared_equivalents_do_as_well():
    async with multikueue_world("a", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8)
        await world.hub.create(RESOURCE_FLAVORS, make_gpu_flavor("h200", accelerator="h200"))
        await give(world.workers["a"], a100=8, h200=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            await world.until(
                lambda: (
                    (w := world.workload())
                    and any(
                        "has no flavor for accelerator=h100" in c.message
                        for c in w.status.conditions
                    )
                ),
                "the reason",
            )
            equivalents = {"metadata": {"annotations": {names.EQUIVALENT_FLAVORS: "h200"}}}
            await world.hub.patch(RESOURCE_FLAVORS, "h100", equivalents)
            await world.until_ready()
            assert ran_on(world, "a") == "h200"
            assert world.check()[1] == (
                f'The workload was admitted on "a"; {GPU} of pod set "main" runs on flavor "h200" '
                'there, which is not the reserved "h100"'
            )


def usage(world: MultiKueueWorld) -> dict[str, str]:
    """Usage of the manager's queue by flavor."""
    queue = world.hub.informers.cluster_queues.store.get("cq")
    return {f.name: str(f.resources[0].total) for f in queue.status.flavors_usage}


@virtual_time
async def test_what_ran_is_what_is_charged():
    """G-15: the worker ran it on hardware that the manager has quota of, too."""
    async with multikueue_world("a", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8, h200=8)
        equivalents = {"metadata": {"annotations": {names.EQUIVALENT_FLAVORS: "h200"}}}
        await world.hub.patch(RESOURCE_FLAVORS, "h100", equivalents)
        await give(world.workers["a"], h200=8)
        async with world.manager() as context:
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            await world.until_ready()
            workload = world.workload()
            assert workload.status.admission.pod_set_assignments[0].flavors == {GPU: "h100"}
            await world.hub.changes.until(
                lambda: usage(world) == {"h100": "0", "h200": "4"}, "h200 is charged"
            )
            assert world.check()[1].endswith('charged is "h200"')
            rendered = generate_latest(context.metrics.registry).decode()
            assert (
                'multiqueue_substituted_flavors_total{cluster="a",cluster_queue="cq",ran="h200",'
                'replica_role="standalone",reserved="h100"} 1.0'
            ) in rendered

            await world.hub.client.delete(JOBS, "train", namespace="team-a")
            await world.hub.changes.until(
                lambda: usage(world) == {"h100": "0", "h200": "0"}, "quota is back"
            )


@virtual_time
async def test_what_workers_could_hold_is_compared_with_what_is_reserved_now():
    """A reservation that could not be written may be another one a moment later."""
    async with multikueue_world("w1", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=8, a100=8)
        await give(world.workers["w1"], h100=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job(gpus=4))
            await world.until_ready()
            workload, capacity = world.workload(), world.multikueue.capacity
            other = with_flavors(workload, {"main": {GPU: "a100"}})
            found = [capacity.look(each, ("w1",)).never for each in (workload, other, workload)]
            assert [bool(never) for never in found] == [False, True, False]
