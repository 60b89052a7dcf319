"""Jobs of every kind on a worker: sent there, started, their status copied back, removed.

Kinds with a field for their controller take part by themselves, through the table of examples.
"""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, MULTIKUEUE_ORIGIN
from multiqueue.api.workload_state import find, is_finished
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.template_kind import TemplateKind
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.job_kinds import EXAMPLES, KindExample, config_for
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import QueueCluster

DISPATCHED = [
    each
    for each in EXAMPLES
    if isinstance(each.kind.integration, TemplateKind)
    and each.kind.adapter is not None
    and each.kind.integration.managed_by_field is not None
]
every_kind = pytest.mark.parametrize("example", DISPATCHED, ids=lambda each: each.row.kind)


def with_gpus(obj: Any) -> Any:
    """An object whose containers ask for a GPU each, wherever its kind has them."""
    if isinstance(obj, list):
        return [with_gpus(each) for each in obj]
    if not isinstance(obj, dict):
        return obj
    changed = {key: with_gpus(value) for key, value in obj.items()}
    for container in changed.get("containers") or ():
        container["resources"] = {"limits": {GPU: "1"}}
    return changed


def make(example: KindExample) -> dict[str, Any]:
    """An example that asks for GPUs and for MultiKueue."""
    kind = example.kind.integration
    assert isinstance(kind, TemplateKind)
    job: dict[str, Any] = with_gpus(example.make("train"))
    assert kind.managed_by_field is not None
    job = set_field(job, kind.managed_by_field, MULTIKUEUE_CONTROLLER)
    return kind.set_suspended(job, value=True)


def counts(example: KindExample, job: dict[str, Any]) -> list[int]:
    return [pod_set.count for pod_set in example.kind.integration.pod_sets(example.read(job))]


def job_on(cluster: QueueCluster, example: KindExample) -> dict[str, Any] | None:
    return cluster.informers.jobs[example.row.framework].store.get(f"{NAMESPACE}/train")


async def until_runs(world: MultiKueueWorld, example: KindExample) -> dict[str, Any]:
    def runs() -> dict[str, Any] | None:
        job = job_on(world.workers["w1"], example)
        return None if job is None or example.kind.integration.is_suspended(job) else job

    return await world.until(runs, "the remote job runs", on="w1")


@every_kind
async def test_a_job_runs_on_a_worker_and_its_status_comes_back(example: KindExample) -> None:
    config = config_for(example)
    managers = make_config(of=config)
    async with (
        multikueue_world("w1", real_workers=True, crds=example.crds, config=config) as world,
        world.manager(managers),
    ):
        await world.until_connected()
        for cluster in (world.hub, world.workers["w1"]):
            await example.create_objects(cluster.client, with_gpus)
        written = await world.hub.create(example.resource, make(example))
        remote = await until_runs(world, example)
        kind = example.kind.integration
        assert isinstance(kind, TemplateKind)
        assert MULTIKUEUE_ORIGIN in remote["metadata"]["labels"]
        assert kind.managed_by_field is not None
        assert get_field(remote, kind.managed_by_field) is None
        assert counts(example, remote) == counts(example, written)
        worker = world.workers["w1"]
        await example.set_phase(worker, "train", JobPhase.READY)

        def told() -> bool:
            here, there = job_on(world.hub, example), job_on(worker, example)
            return here is not None and there is not None and kind.pods_ready(example.read(here))

        await world.until(told, "the status on the manager")
        if example.simulated.ends:
            await example.set_phase(worker, "train", JobPhase.SUCCEEDED)
            await world.until(
                lambda: (w := world.workload()) is not None and is_finished(w.status), "its end"
            )
            here = job_on(world.hub, example)
            assert here is not None
            end = kind.finished(here)
            assert end is not None
            assert end.success
        else:
            await world.hub.client.delete(example.resource, "train", namespace=NAMESPACE)
        await world.until(lambda: job_on(worker, example) is None, "removed", on="w1")


async def test_a_kind_that_cannot_run_on_workers_is_rejected_with_the_reason() -> None:
    """M-81."""
    [spark] = [each for each in EXAMPLES if each.kind.adapter is None and each.row.gate]
    config = config_for(spark)
    async with (
        multikueue_world("w1", crds=spark.crds, config=config) as world,
        world.manager(make_config(of=config)),
    ):
        await world.until_connected()
        kind = spark.kind.integration
        job = kind.set_suspended(spark.make("train"), value=True)
        for role in ("driver", "executor"):
            job["spec"][role] = {"gpu": {"name": GPU, "quantity": 1}}
        await world.hub.create(spark.resource, job)

        def reason() -> str:
            evicted = (w := world.workload()) and find(w.status, WorkloadCondition.EVICTED)
            return evicted.message if evicted else ""

        await world.until(lambda: "cannot run jobs of" in reason(), "a rejection")
        assert world.copy("w1") is None
