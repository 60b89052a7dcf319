"""Jobs of every kind that their worker has to give back: their quota is free, and they run again.

Nobody plays the kind's own controller while the job is stopped, as if the worker had lost it: the
status that was copied last says that pods run.
"""

from __future__ import annotations

from multiqueue.api.names import V1BETA2
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.kube.resources import WORKLOADS
from tests.builders.workloads import NAMESPACE
from tests.integration.test_multikueue_kinds import (
    every_kind,
    job_on,
    make,
    until_runs,
    with_gpus,
)
from tests.job_kinds import KindExample, config_for
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time


def find_workload(world: MultiKueueWorld) -> Workload | None:
    return next(iter(world.hub.informers.workloads.store.list()), None)


async def set_active(world: MultiKueueWorld, *, value: bool) -> None:
    workload = find_workload(world)
    assert workload is not None
    patch = {"apiVersion": V1BETA2, "spec": {"active": value}}
    await world.hub.patch(WORKLOADS, workload.metadata.name, patch, namespace=NAMESPACE)


@every_kind
@virtual_time
async def test_quota_is_free_once_nothing_is_left_on_the_worker(example: KindExample) -> None:
    """M-175."""
    config = config_for(example)
    integration = example.kind.integration
    async with (
        multikueue_world("w1", real_workers=True, crds=example.crds, config=config) as world,
        world.manager(make_config(of=config)),
    ):
        await world.until_connected()
        for cluster in (world.hub, *world.workers.values()):
            await example.create_objects(cluster.client, with_gpus)
        await world.hub.create(example.resource, make(example))
        await until_runs(world, example)
        await example.set_phase(world.workers["w1"], "train", JobPhase.READY)

        def is_active() -> bool:
            job = job_on(world.hub, example)
            return job is not None and integration.is_active(job)

        await world.until(is_active, "the status on the manager")
        await set_active(world, value=False)

        def is_released() -> bool:
            job, workload = job_on(world.hub, example), find_workload(world)
            assert job is not None
            assert workload is not None
            return integration.is_suspended(job) and not has_quota(workload.status)

        await world.until(is_released, "released quota")
        assert not is_active()
        assert job_on(world.workers["w1"], example) is None
        await set_active(world, value=True)
        await until_runs(world, example)
