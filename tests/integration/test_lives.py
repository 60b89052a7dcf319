"""What a manager keeps of jobs that came, ran and went: nothing, or a stated small number."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from functools import partial

import pytest

from multiqueue.api.workload_state import is_finished
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.dispatch.ask.records import DecisionRecords
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import JOBS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time

WARM_UP, LIVES = 12, 24
SETTLE_SECONDS = 900.0
"""Usage is written every five minutes; what is younger waits in memory for its writing."""
UNCOUNTED = ("multiqueue.embedded.", "multiqueue.kube.sender.", "multiqueue.kube.events.")
"""The API servers of this process remember changes for watches, and tests remember answers. The
digests of 4,096 Events are remembered; another test shows that their texts are not."""


@virtual_time
async def test_nothing_is_left_of_jobs_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "multiqueue.dispatch.ask.decision_service.DecisionRecords",
        partial(DecisionRecords, most_past=4),
    )
    async with multikueue_world("worker1") as world, world.manager():
        world.multikueue.workloads.open_decision_service(build_engine(make_config()))
        await world.until_connected()
        for number in range(WARM_UP):
            await live(world, f"early-{number}")
        before = await count_objects()
        for number in range(LIVES):
            await live(world, f"late-{number}")
        after = await count_objects()
    left = {name: count - before[name] for name, count in after.items()}
    assert {name: more for name, more in left.items() if more >= LIVES / 2} == {}


async def live(world: MultiKueueWorld, name: str) -> None:
    """A job is submitted, runs on the worker, ends, and is deleted with its Workload."""
    await world.hub.create(JOBS, make_gpu_job(name))
    await world.admit("worker1", name)
    await world.until_ready(name)
    await world.run_job("worker1", name)
    await world.finish_job("worker1", name)
    await world.finish_copy("worker1", name)

    def is_over() -> bool:
        workload = world.workload(name)
        return workload is not None and is_finished(workload.status)

    await world.until(is_over, f"{name} is finished")
    found = world.workload(name)
    assert found is not None
    client = world.hub.client
    await client.delete(JOBS, name, namespace=NAMESPACE, propagation="Background")
    with contextlib.suppress(NotFound):
        await client.delete(WORKLOADS, found.metadata.name, namespace=NAMESPACE)
    await world.until(lambda: world.workload(name) is None, f"{name} is gone")


async def count_objects() -> Counter[str]:
    """Count the objects of this program by type, once what was begun has ended."""
    await asyncio.sleep(SETTLE_SECONDS)
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    ours = (name for name in names if name.startswith("multiqueue"))
    return Counter(name for name in ours if not name.startswith(UNCOUNTED))
