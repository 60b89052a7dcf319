"""The breaker in time: who is let through on probation, and who is told."""

from __future__ import annotations

import asyncio

from multiqueue.kube.sender import SendOutcome
from multiqueue.workers.connections.health import OPEN_SECONDS, Circuit
from multiqueue.workers.connections.worker_health import (
    CONFIRM_SECONDS,
    GRANT_SECONDS,
    WorkerHealth,
)
from tests.virtual_time import VirtualTimeLoop, virtual_time


def answer(status: int, *, method: str = "POST", seconds: float = 0.01) -> SendOutcome:
    return SendOutcome(method=method, resource="workloads", status=status, seconds=seconds)


def broken(told: list[str]) -> WorkerHealth:
    health = WorkerHealth("w", lambda: told.append("change"))
    for _ in range(10):
        health.observe(answer(503))
    health.observe(answer(200))
    return health


@virtual_time
async def test_who_waits_is_told_when_the_circuit_opens_and_when_probation_begins():
    told: list[str] = []
    health = broken(told)
    assert health.refuse("a", has_copy=True) == (
        "is not sent anything for now: it answers with status 503"
    )
    await asyncio.sleep(OPEN_SECONDS + 0.1)
    assert len(told) == 2
    assert health.refuse("a", has_copy=True) == ""
    health.close()


@virtual_time
async def test_on_probation_the_first_to_ask_keeps_its_place_for_a_while():
    health = broken([])
    await asyncio.sleep(OPEN_SECONDS + 0.1)
    assert [bool(health.refuse(key, has_copy=False)) for key in "aba"] == [False, True, False]
    await asyncio.sleep(GRANT_SECONDS)
    assert health.refuse("b", has_copy=False) == ""
    health.close()


@virtual_time
async def test_who_only_asks_keeps_no_place_on_probation():
    health = broken([])
    await asyncio.sleep(OPEN_SECONDS + 0.1)
    assert health.refuse("imagined", has_copy=False, only_asks=True) == ""
    assert health.refuse("a", has_copy=False) == ""
    assert health.refuse("imagined", has_copy=False, only_asks=True) == health.refusal
    health.close()


@virtual_time
async def test_what_arrives_makes_room_for_more():
    told: list[str] = []
    health = broken(told)
    await asyncio.sleep(OPEN_SECONDS + 0.1)
    for key in "abcdefghijklmnopqrstuvwxyzABCDE":
        assert health.refuse(key, has_copy=False) == ""
        health.note_dispatch(key, taken=True)
    assert health.now.circuit is Circuit.CLOSED
    health.close()


@virtual_time
async def test_what_was_sent_before_probation_does_not_count_as_arrived():
    health = broken([])
    await asyncio.sleep(OPEN_SECONDS + 0.1)
    health.note_dispatch("other", taken=True)
    assert health.now.allowance == 1
    health.close()


@virtual_time
async def test_a_worker_is_not_taken_to_hang_because_this_program_did():
    """The answers lie in the sockets, and are read before the breaker decides."""
    health = WorkerHealth("w", lambda: None)
    for _ in range(5):
        health.note_late(1.0)
    asyncio.get_running_loop().call_soon(health.observe, answer(201))
    await asyncio.sleep(CONFIRM_SECONDS + 0.1)
    assert health.now.circuit is Circuit.CLOSED
    health.close()


@virtual_time
async def test_nobody_hangs_while_this_program_gets_no_cpu():
    """Then even its own timers are late; once they are not, what was not heard counts."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    health = WorkerHealth("w", lambda: None)
    for _ in range(5):
        health.note_late(1.0)
    loop.now += 2.0
    await asyncio.sleep(CONFIRM_SECONDS / 2)
    assert health.now.circuit is Circuit.CLOSED
    await asyncio.sleep(CONFIRM_SECONDS)
    assert health.now.circuit is Circuit.OPEN
    health.close()


@virtual_time
async def test_a_worker_that_takes_requests_and_answers_none_is_left_alone():
    health = WorkerHealth("w", lambda: None)
    for _ in range(3):
        health.note_late(1.0)
    await asyncio.sleep(CONFIRM_SECONDS + 0.1)
    assert "takes requests and does not answer" in health.refusal
    health.close()


@virtual_time
async def test_a_list_may_take_long():
    health = WorkerHealth("w", lambda: None)
    for _ in range(20):
        health.observe(answer(200, method="GET", seconds=30.0))
    assert health.score == 1.0


@virtual_time
async def test_if_all_workers_are_silent_none_is_singled_out():
    workers: list[WorkerHealth] = []
    workers += [WorkerHealth("a", lambda: None, others=lambda: workers[1:])]
    workers += [WorkerHealth("b", lambda: None, others=lambda: workers[:1])]
    for _ in range(3):
        for worker in workers:
            worker.note_late(1.0)
    await asyncio.sleep(10)
    assert [worker.now.circuit for worker in workers] == [Circuit.CLOSED] * 2
    workers[1].observe(answer(201))
    await asyncio.sleep(2 * CONFIRM_SECONDS)
    assert [worker.now.circuit for worker in workers] == [Circuit.OPEN, Circuit.CLOSED]
    for worker in workers:
        worker.close()


@virtual_time
async def test_answers_that_are_slow_everywhere_open_no_circuit():
    workers: list[WorkerHealth] = []
    workers += [WorkerHealth("a", lambda: None, others=lambda: workers[1:])]
    workers += [WorkerHealth("b", lambda: None, others=lambda: workers[:1])]
    for _ in range(60):
        for worker in workers:
            worker.observe(answer(201, seconds=6.0))
    assert [worker.now.circuit for worker in workers] == [Circuit.CLOSED] * 2
    for _ in range(60):
        workers[0].observe(answer(201, seconds=30.0))
    assert workers[0].now.circuit is Circuit.OPEN
    for worker in workers:
        worker.close()


@virtual_time
async def test_a_worker_that_is_usually_slow_gets_more_time_before_it_hangs():
    health = WorkerHealth("w", lambda: None)
    for _ in range(60):
        health.observe(answer(201, seconds=0.9))
    for _ in range(3):
        health.note_late(1.0)
    await asyncio.sleep(2.3)
    assert health.now.circuit is Circuit.CLOSED
    await asyncio.sleep(0.5)
    assert health.now.circuit is Circuit.OPEN
    health.close()


@virtual_time
async def test_a_worker_that_is_only_slow_keeps_its_offers():
    health = WorkerHealth("w", lambda: None)
    for _ in range(60):
        health.observe(answer(201, seconds=6.0))
    assert "answers slowly" in health.refuse("new", has_copy=False)
    assert health.refuse("offered", has_copy=True) == ""
    health.close()


@virtual_time
async def test_a_worker_that_hangs_keeps_no_offers():
    health = WorkerHealth("w", lambda: None)
    for _ in range(3):
        health.note_late(1.0)
    await asyncio.sleep(CONFIRM_SECONDS + 0.1)
    assert health.refuse("offered", has_copy=True)
    health.close()
