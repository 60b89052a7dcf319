"""Positions of 100,000 waiting workloads: how long an answer takes, and whom it keeps waiting."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import ObjectMeta, OwnerReference
from multiqueue.api.v1beta2.workload import WorkloadSpec
from multiqueue.visibility.positions import PositionReader
from multiqueue.visibility.summary import PageRange, encode, places
from tests.builders.engine import T0, flavor_quotas, make_queue, make_workload, pod_set, seconds
from tests.engine_world import EngineWorld

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("no_garbage_collector")]

PENDING = 100_000
STALL_SECONDS = 0.05
"""Longest turn of the event loop on a busy machine; about 10 ms on a quiet one."""
OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)


def full_world() -> EngineWorld:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=0)))
    pods = [pod_set(cpu=1)]
    for number in range(PENDING):
        world.submit(
            make_workload(
                f"w{number}",
                priority=number % 7,
                at=T0 + seconds(number * 7919 % PENDING),
                pod_sets=pods,
            )
        )
    return world


def objects() -> dict[str, Workload]:
    spec = WorkloadSpec(queue_name="lq", priority=1)
    found = {}
    for number in range(PENDING):
        metadata = ObjectMeta(
            name=f"w{number}",
            namespace="team",
            creation_timestamp="2026-01-01T00:00:00Z",
            owner_references=(OWNER,),
        )
        found[metadata.key] = Workload(metadata=metadata, spec=spec)
    return found


@dataclass
class Answer:
    """CPU seconds of an answer, its size, and the longest turn of the event loop."""

    seconds: float
    stall: float
    size: int

    def __str__(self) -> str:
        return (
            f"{self.seconds * 1e3:.0f} ms CPU, longest turn {self.stall * 1e3:.1f} ms, "
            f"{self.size / 1e6:.2f} MB"
        )


async def answer(
    reader: PositionReader, page: PageRange, find: Callable[[str], Workload | None]
) -> Answer:
    """Answer as the server does, with a turn of the loop after each piece."""
    turns: list[float] = []
    begun = time.thread_time()

    async def measure() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - before)

    watcher = asyncio.create_task(measure())
    positions = await reader.of_cluster_queue("cq")
    assert positions is not None
    size = 0
    for piece in encode("v1beta2", positions, places(positions, page, None), find):
        size += len(piece)
        await asyncio.sleep(0)
    watcher.cancel()
    return Answer(time.thread_time() - begun, max(turns), size)


async def test_positions_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    world, known = full_world(), objects()
    reader = PositionReader(world.engine)
    pages = {
        "first page, sorting": PageRange(),
        "first page, known order": PageRange(),
        "last page": PageRange(offset=PENDING - 1000),
        "everything": PageRange(limit=PENDING),
    }
    answers = {name: await answer(reader, page, known.get) for name, page in pages.items()}
    world.delete("w5")
    answers["first page after a change"] = await answer(reader, PageRange(), known.get)
    with capsys.disabled():
        for name, each in answers.items():
            sys.stdout.write(f"\nvisibility, {PENDING:,} pending, {name}: {each}")
        sys.stdout.write("\n")
    assert max(each.stall for each in answers.values()) < STALL_SECONDS
    assert answers["last page"].seconds < answers["first page, sorting"].seconds / 5
