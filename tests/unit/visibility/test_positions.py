"""Orders of queues: computed once per state, shared, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from multiqueue.engine.engine import Engine
from multiqueue.visibility.positions import MAX_ORDERS, PositionReader
from tests.builders.engine import NAMESPACE, flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld


def world(*queues: str, waiting: int = 3) -> EngineWorld:
    result = EngineWorld(*(make_queue(name, flavor_quotas("f", cpu=0)) for name in queues))
    names = queues if len(queues) > 1 else ("lq",)
    for queue in names:
        for number in range(waiting):
            name = f"{queue}-{number}"
            result.submit(make_workload(name, queue=queue, pod_sets=[pod_set(cpu=1)]))
    return result


class CountingReader(PositionReader):
    """Counts how often a queue is sorted."""

    def __init__(self, engine: Engine) -> None:
        self.sorts = 0
        steps = engine.pending_in_steps

        def counting(name: str) -> Iterator[Sequence[tuple[str, str]]]:
            self.sorts += 1
            return steps(name)

        engine.pending_in_steps = counting  # type: ignore[method-assign]
        super().__init__(engine)


async def test_places_in_both_queues() -> None:
    reader = PositionReader(world("cq").engine)
    got = await reader.of_cluster_queue("cq")
    assert got is not None
    assert got.keys == [f"{NAMESPACE}/lq-{number}" for number in range(3)]
    assert list(got.in_local_queue) == [0, 1, 2]
    assert await reader.of_local_queue(f"{NAMESPACE}/lq") is got


async def test_unknown_queues_have_no_order() -> None:
    reader = PositionReader(world("cq").engine)
    assert await reader.of_cluster_queue("none") is None
    assert await reader.of_local_queue(f"{NAMESPACE}/none") is None


async def test_nobody_waits_where_the_cluster_queue_is_missing() -> None:
    here = world("cq")
    here.engine.delete_cluster_queue("cq")
    got = await PositionReader(here.engine).of_local_queue(f"{NAMESPACE}/lq")
    assert got is not None
    assert got.keys == []


async def test_an_order_is_shared_until_it_changes() -> None:
    here = world("cq")
    reader = CountingReader(here.engine)
    first = await reader.of_cluster_queue("cq")
    assert await reader.of_cluster_queue("cq") is first
    here.delete("lq-1")
    second = await reader.of_cluster_queue("cq")
    assert second is not None
    assert second.keys == [f"{NAMESPACE}/lq-0", f"{NAMESPACE}/lq-2"]
    assert reader.sorts == 2


async def test_readers_of_a_queue_that_never_rests_share_too() -> None:
    """Whoever asked before a sort began may have its result, though the queue has changed since."""
    here = world("cq")
    reader = CountingReader(here.engine)

    async def read() -> None:
        await reader.of_cluster_queue("cq")
        here.submit(make_workload(f"late-{reader.sorts}", pod_sets=[pod_set(cpu=1)]))

    await asyncio.gather(*(read() for _ in range(20)))
    assert reader.sorts == 2  # of the first, and of all that came while it was under way


async def test_a_reader_that_leaves_spoils_nothing() -> None:
    here = world("cq", waiting=3)
    reader = CountingReader(here.engine)
    task = asyncio.create_task(reader.of_cluster_queue("cq"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    got = await reader.of_cluster_queue("cq")
    assert got is not None
    assert len(got.keys) == 3


async def test_orders_are_bounded() -> None:
    names = [f"q{number}" for number in range(MAX_ORDERS + 1)]
    reader = CountingReader(world(*names, waiting=1).engine)
    for name in names:
        await reader.of_cluster_queue(name)
    await reader.of_cluster_queue(names[-1])
    assert reader.sorts == len(names)
    await reader.of_cluster_queue(names[0])
    assert reader.sorts == len(names) + 1
