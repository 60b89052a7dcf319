"""When a worker is tried again, and how one kubeconfig takes over from another (T-211 to T-229)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from multiqueue.kube.clock import Clock
from multiqueue.workers.connections.attempt import Ended, OtherClusterError
from multiqueue.workers.connections.connection import WorkerConnection
from multiqueue.workers.connections.connection_state import ConnectionState
from multiqueue.workers.connections.worker_health import WorkerHealth
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from tests.virtual_time import LoopClock, SteppingClock, settle, virtual_time

FIRST, SECOND = SafeKubeconfig(config={"n": 1}), SafeKubeconfig(config={"n": 2})


class Session:
    """What a connection asks of a session."""

    def __init__(self) -> None:
        self.is_empty = True
        self.keys: set[str] = set()
        self.excesses: list[str] = []
        self.finished_within: float | None = None

    def take_over(self, old: Session) -> set[str]:
        return old.keys

    async def finish(self, seconds: float) -> None:
        self.finished_within = seconds


class Worker:
    """A worker that takes some kubeconfigs, and its listener.

    Attributes:
        good: The kubeconfigs that it takes.
        begun: When each attempt began, in seconds.
    """

    def __init__(self) -> None:
        self.good: list[SafeKubeconfig] = []
        self.identities: dict[int, str] = {}
        self.begun: list[float] = []
        self.sessions: list[Session] = []
        self.rotations: list[set[str]] = []
        self.states: list[ConnectionState] = []
        self.lost = asyncio.Event()
        self.left = 0

    async def run(self, attempt, *, attempts, hooks) -> Ended:
        del attempts
        self.begun.append(asyncio.get_running_loop().time())
        if attempt.source not in self.good:
            return Ended(why="it refuses us")
        try:
            await hooks.identify(self.identities.get(attempt.source.config["n"], "uid"))
        except OtherClusterError as error:
            return Ended(why=str(error))
        session = Session()
        self.sessions.append(session)
        hooks.on_ready(session)
        await self.lost.wait()
        return Ended(why="it was lost")

    async def identify(self, connection, identity) -> bool:
        del connection, identity
        return True

    def attach(self, connection, session) -> None:
        raise AssertionError("nobody lists anything")

    def count_left(self, connection) -> int:
        del connection
        return self.left

    def state_changed(self, connection) -> None:
        self.states.append(connection.state)

    def rotated(self, connection, keys) -> None:
        del connection
        self.rotations.append(keys)


@contextlib.asynccontextmanager
async def connected_to(
    worker: Worker, clock: Clock | None = None, **options: Any
) -> AsyncIterator[WorkerConnection]:
    health, clock = WorkerHealth("w", lambda: None), clock or LoopClock()
    connection = WorkerConnection(
        "w", adapters=(), maker=worker, health=health, clock=clock, listener=worker, **options
    )
    task = asyncio.create_task(connection.run())
    try:
        yield connection
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        health.close()


def gaps(worker: Worker) -> list[int]:
    return [round(b - a) for a, b in zip(worker.begun, worker.begun[1:], strict=False)]


@virtual_time
async def test_the_pause_between_attempts_doubles_to_a_bound():
    """M-44."""
    worker = Worker()
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(700)
        assert gaps(worker) == [5, 10, 20, 40, 80, 160, 320]


@virtual_time
async def test_a_clock_that_is_set_back_delays_no_attempt():
    worker, clock = Worker(), SteppingClock()
    async with connected_to(worker, clock) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(2)
        clock.step(timedelta(days=-1))
        await asyncio.sleep(698)
        assert gaps(worker) == [5, 10, 20, 40, 80, 160, 320]


@virtual_time
async def test_who_brings_the_same_kubeconfig_again_neither_hastens_nor_counts():
    worker = Worker()
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        for _ in range(28):
            await asyncio.sleep(0.5)
            connection.configure(SafeKubeconfig(config={"n": 1}))
        assert gaps(worker) == [5]
        assert "connection attempts: 2, next at" in connection.status.message


@virtual_time
async def test_another_kubeconfig_is_tried_at_once_and_counted_anew():
    worker = Worker()
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(30)
        connection.configure(SECOND)
        await settle()
        assert "connection attempts: 1, next at" in connection.status.message


@virtual_time
async def test_a_connection_that_was_good_is_tried_again_at_once_with_the_same_kubeconfig():
    worker = Worker()
    worker.good = [FIRST]
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(60)
        assert connection.state is ConnectionState.CONNECTED
        worker.lost.set()
        await settle()
        worker.lost.clear()
        await settle()
        assert gaps(worker)[0] == 60
        assert ConnectionState.DISCONNECTED in worker.states


@virtual_time
async def test_a_new_kubeconfig_takes_over_without_a_moment_between():
    """M-43."""
    worker = Worker()
    worker.good = [FIRST, SECOND]
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await settle()
        old = connection.session
        old.keys = {"ns/changed"}
        connection.configure(SECOND)
        await settle()
        assert connection.session is worker.sessions[1]
        assert (worker.rotations, connection.lost) == ([{"ns/changed"}], None)
        assert old.finished_within is not None
        assert set(worker.states) == {ConnectionState.CONNECTED}


@virtual_time
async def test_one_that_does_not_work_is_tried_on_beside_the_old_one():
    worker = Worker()
    worker.good = [FIRST]
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await settle()
        connection.configure(SECOND)
        await asyncio.sleep(20)
        status = connection.status
        assert status.active
        assert "still with the kubeconfig before" in status.message
        assert "it refuses us; connection attempts: 3" in status.message
        worker.good = [SECOND]
        await asyncio.sleep(30)
        assert connection.status.message == "Connected"


@virtual_time
async def test_one_that_was_taken_back_leaves_nothing_behind():
    worker = Worker()
    worker.good = [FIRST]
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await settle()
        connection.configure(SECOND)
        await settle()
        connection.configure(FIRST)
        await asyncio.sleep(60)
        assert connection.status.message == "Connected"
        assert len(worker.sessions) == 1


@virtual_time
async def test_another_cluster_is_used_once_nothing_is_left_on_the_first():
    """M-43."""
    worker = Worker()
    worker.good = [FIRST, SECOND]
    worker.identities = {2: "elsewhere"}
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await settle()
        connection.session.is_empty = False
        connection.configure(SECOND)
        await asyncio.sleep(30)
        assert connection.moving
        assert "is about to be replaced" in connection.refusal
        assert connection.session is worker.sessions[0]
        connection.session.is_empty = True
        await asyncio.sleep(10)
        assert (connection.session, connection.refusal) == (worker.sessions[1], "")


@virtual_time
async def test_when_the_old_one_fails_too_the_worker_is_lost_since_then():
    """M-49."""
    worker = Worker()
    worker.good = [FIRST]
    async with connected_to(worker) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(60)
        connection.configure(SECOND)
        await settle()
        worker.lost.set()
        await asyncio.sleep(3)
        assert connection.session is None
        assert connection.lost.elapsed() == timedelta(seconds=3)
        assert connection.status.message.startswith("it was lost")


@virtual_time
async def test_another_cluster_is_not_used_before_what_may_run_on_the_first_is_given_up():
    """The manager was restarted, so nobody is connected to the first one."""
    worker = Worker()
    worker.good, worker.left = [FIRST], 3
    async with connected_to(worker, known="first", grace=timedelta(minutes=2)) as connection:
        connection.configure(FIRST)
        await asyncio.sleep(110)
        assert connection.session is None
        assert connection.status is not None
        assert "another cluster than before" in connection.status.message
        assert "(3)" in connection.status.message
        await asyncio.sleep(20)
        assert connection.session is not None
        assert connection.known == "uid"


@virtual_time
async def test_another_cluster_is_used_at_once_if_nothing_can_be_left_on_the_first():
    worker = Worker()
    worker.good = [FIRST]
    async with connected_to(worker, known="first") as connection:
        connection.configure(FIRST)
        await settle()
        assert connection.session is not None
        assert connection.known == "uid"
