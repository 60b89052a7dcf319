"""A manager keeps nothing of a job that is gone, but for what is listed here with its bound."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from multiqueue.api.workload_state import is_finished
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import JOBS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time

HOUR = 3600.0
KEPT = {
    "_Entry": "the cache of 4,096 Events, so that repeated ones are counted",
    "RuntimeHistory": "the run times of classes of jobs, and answers about them; 2,000 of each",
}
"""The classes that may remember a job that is gone, and where they are bounded."""


@virtual_time
async def test_nothing_is_kept_of_a_job_that_is_gone() -> None:
    async with multikueue_world("worker1") as world, world.manager() as context:
        await world.until_connected()
        for number in range(6):
            await live(world, f"train-{number}x")
        await asyncio.sleep(HOUR)  # what was to be done later is done
        found = set(find_owners([context, world.multikueue], "train-2x"))
        assert {name for name, _ in found} <= KEPT.keys(), found


async def live(world: MultiKueueWorld, name: str) -> None:
    """Let a job be submitted, dispatched, run, end and be deleted."""
    await world.hub.create(JOBS, make_gpu_job(name))
    await world.admit("worker1", name)
    await world.until_ready(name)
    await world.run_job("worker1", name)
    await world.finish_job("worker1", name)
    await world.finish_copy("worker1", name)

    def is_over() -> bool:
        workload = world.workload(name)
        return workload is not None and is_finished(workload.status)

    await world.until(is_over, f"{name} finished")
    workload = world.workload(name)
    assert workload is not None
    client = world.hub.client
    await client.delete(JOBS, name, namespace=NAMESPACE, propagation="Background")
    with contextlib.suppress(NotFound):
        await client.delete(WORKLOADS, workload.metadata.name, namespace=NAMESPACE)
    await world.until(lambda: world.workload(name) is None, f"{name} gone")


def find_owners(roots: list[Any], text: str) -> Iterator[tuple[str, str]]:
    """Yield class and attribute of the product's objects from which a text is reached."""
    gc.collect()
    seen: set[int] = set()
    todo: list[tuple[Any, tuple[str, str]]] = [(root, ("", "")) for root in roots]
    while todo:
        value, owner = todo.pop()
        if id(value) in seen or isinstance(value, ModuleType | type | BuiltinFunctionType):
            continue
        seen.add(id(value))
        if isinstance(value, str | bytes):
            if text in (value if isinstance(value, str) else value.decode(errors="replace")):
                yield owner
            continue
        todo += [(item, place or owner) for place, item in list_parts(value)]


def list_parts(value: Any) -> Iterator[tuple[tuple[str, str] | None, Any]]:
    """Yield what an object refers to, with class and attribute if it is one of the product's."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell
                yield None, cell.cell_contents
    elif isinstance(value, MethodType):
        yield None, value.__self__
    elif type(value).__module__.startswith(
        ("multiqueue.embedded", "tests.", "asyncio", "_asyncio")
    ):
        return
    elif type(value).__module__.startswith("multiqueue."):
        kind = type(value)
        names = set(getattr(value, "__dict__", ()))
        names |= {each for base in kind.__mro__ for each in getattr(base, "__slots__", ())}
        for name in names:
            if (item := getattr(value, name, None)) is not None:
                yield (kind.__name__, name), item
    else:
        for item in gc.get_referents(value):
            yield None, item
