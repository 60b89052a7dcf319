from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import web

from multiqueue.kube.leader_election import LeaderElector, LeadershipEnd
from tests.unit.kube.scripted_server import ScriptedServer, drop, hang, html, status
from tests.virtual_time import LoopClock, settle, virtual_time


class LeaseServer(ScriptedServer):
    """Holds one Lease, with conflicts; `failure` is given instead of any answer while it is set."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        super().__init__(self.answer, lists=[self.answer])
        self.version = 1
        self.spec = spec
        self.labels: dict[str, str] = {}
        self.failure: Any = None

    def lease(self) -> dict[str, Any]:
        metadata = {"name": "l", "namespace": "n", "resourceVersion": str(self.version)}
        return {"metadata": {**metadata, "labels": self.labels}, "spec": self.spec}

    def take(self, holder: str) -> None:
        """Let someone else hold the Lease."""
        self.version += 1
        self.spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "now"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.failure is not None:
            result: web.StreamResponse = await self.failure(request)
            return result
        body = self.seen[-1].json if self.seen[-1].body else {}
        if request.method == "POST":
            if self.spec is not None:
                return await status(409, "AlreadyExists")(request)
            self.spec = body["spec"]
        elif self.spec is None:
            return await status(404, "NotFound")(request)
        elif request.method == "PATCH":
            if body["metadata"]["resourceVersion"] != str(self.version):
                return await status(409, "Conflict")(request)
            self.spec |= body["spec"]
        if request.method != "GET":
            self.version += 1
        return web.Response(body=orjson.dumps(self.lease()))


def elector(server: LeaseServer, client: Any, identity: str = "me") -> LeaderElector:
    return LeaderElector(client, "n", "l", identity=identity, clock=LoopClock(), jitter=lambda: 0.5)


class Work:
    """Runs until cancelled and remembers when it ran."""

    def __init__(self) -> None:
        self.started_at: float | None = None
        self.ended_at: float | None = None

    async def __call__(self) -> None:
        loop = asyncio.get_running_loop()
        self.started_at = loop.time()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended_at = loop.time()


@virtual_time
async def test_the_first_makes_the_lease_renews_it_and_releases_it_at_the_end() -> None:
    async with LeaseServer() as server, server.client() as client:
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(20)
        assert work.started_at is not None
        assert server.spec is not None
        assert server.spec["holderIdentity"] == "me"
        assert server.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert server.spec["renewTime"] > "2026-01-01T00:00:15"
        assert server.spec["leaseTransitions"] == 0
        assert {s.method for s in server.seen[2:]} == {"PATCH"}
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert work.ended_at is not None
        assert server.spec["holderIdentity"] == ""


@virtual_time
async def test_a_released_lease_is_taken_at_the_next_look() -> None:
    async with LeaseServer() as server, server.client() as one, server.client() as two:
        first, second = Work(), Work()
        leader = asyncio.ensure_future(elector(server, one, "one").run(first))
        await asyncio.sleep(1)
        standby = asyncio.ensure_future(elector(server, two, "two").run(second))
        await asyncio.sleep(60)
        assert second.started_at is None
        leader.cancel()
        await asyncio.sleep(4)
        assert first.ended_at is not None
        assert second.started_at is not None
        assert second.started_at >= first.ended_at
        assert server.spec is not None
        assert server.spec["leaseTransitions"] == 1
        standby.cancel()
        await asyncio.wait({leader, standby})


@virtual_time
async def test_a_silent_holder_is_replaced_after_its_lease_whatever_its_clock_says() -> None:
    spec = {
        "holderIdentity": "dead",
        "leaseDurationSeconds": 15,
        "renewTime": "2099-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    }
    async with LeaseServer(spec) as server, server.client() as client:
        loop = asyncio.get_running_loop()
        begun, work = loop.time(), Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(30)
        assert work.started_at is not None
        assert 15 <= work.started_at - begun <= 19
        assert server.spec is not None
        assert server.spec["leaseTransitions"] == 4
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize(
    "failure",
    [html(500), status(429, "TooManyRequests"), drop(), hang(), status(401)],
    ids=["500", "429", "drop", "hang", "401"],
)
@virtual_time
async def test_a_holder_that_cannot_renew_stops_before_its_lease_ends(failure: Any) -> None:
    async with LeaseServer() as server, server.client() as client:
        loop = asyncio.get_running_loop()
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        server.failure = failure
        renewed_at = next(s.at for s in reversed(server.seen) if s.method != "GET")
        assert await asyncio.wait_for(task, 60) is LeadershipEnd.LOST
        assert work.ended_at is not None
        assert 8 <= work.ended_at - renewed_at <= 13
        assert loop.time() - renewed_at < 15


@virtual_time
async def test_who_was_stopped_while_it_renewed_ends_its_work_as_soon_as_it_goes_on() -> None:
    """With SIGSTOP, say: somebody else may have the Lease by then."""
    loop: Any = asyncio.get_running_loop()
    async with LeaseServer() as server, server.client() as client:
        work, renew, went_on_at = Work(), client.patch, []

        async def stopped(*args: Any, **kwargs: Any) -> Any:
            answer = await renew(*args, **kwargs)
            loop.now += 17
            went_on_at.append(loop.now)
            return answer

        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        client.patch = stopped  # type: ignore[method-assign]
        assert await asyncio.wait_for(task, 60) is LeadershipEnd.LOST
        assert work.ended_at == went_on_at[0]


@virtual_time
async def test_a_short_outage_is_survived() -> None:
    async with LeaseServer() as server, server.client() as client:
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        server.failure = html(503)
        await asyncio.sleep(6)
        server.failure = None
        await asyncio.sleep(60)
        assert work.ended_at is None
        task.cancel()
        await asyncio.wait({task})


@virtual_time
async def test_a_lease_that_someone_else_took_is_lost_at_once_and_left_alone() -> None:
    async with LeaseServer() as server, server.client() as client:
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        server.take("thief")
        assert await asyncio.wait_for(task, 3) is LeadershipEnd.LOST
        assert work.ended_at is not None
        assert server.spec is not None
        assert server.spec["holderIdentity"] == "thief"


@virtual_time
async def test_a_lease_that_someone_else_touched_is_kept() -> None:
    async with LeaseServer() as server, server.client() as client:
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        server.labels = {"seen": "yes"}
        server.version += 1
        await asyncio.sleep(30)
        assert work.ended_at is None
        task.cancel()
        await asyncio.wait({task})


@virtual_time
async def test_a_lease_that_was_deleted_is_made_again() -> None:
    async with LeaseServer() as server, server.client() as client:
        work = Work()
        task = asyncio.ensure_future(elector(server, client).run(work))
        await asyncio.sleep(5)
        server.spec = None
        await asyncio.sleep(30)
        assert work.ended_at is None
        assert server.spec is not None
        task.cancel()
        await asyncio.wait({task})


@virtual_time
async def test_work_that_ends_releases_the_lease_and_its_error_is_raised() -> None:
    async def fail() -> None:
        await settle()
        raise RuntimeError("boom")

    async with LeaseServer() as server, server.client() as client:
        with pytest.raises(RuntimeError, match="boom"):
            await elector(server, client).run(fail)
        assert server.spec is not None
        assert server.spec["holderIdentity"] == ""
        assert await elector(server, client).run(settle) is LeadershipEnd.FINISHED  # type: ignore[arg-type]


@virtual_time
async def test_at_no_time_do_two_work() -> None:
    """Three managers, an API server that fails for a while now and then."""
    async with LeaseServer() as server:
        loop = asyncio.get_running_loop()
        working: set[str] = set()
        terms: list[str] = []

        async def work(identity: str) -> None:
            assert not working, f"{identity} began while {working} worked"
            working.add(identity)
            terms.append(identity)
            try:
                await asyncio.Event().wait()
            finally:
                working.discard(identity)

        async def manager(identity: str) -> None:
            async with server.client() as client:
                while True:
                    await elector(server, client, identity).run(lambda: work(identity))

        tasks = [asyncio.ensure_future(manager(name)) for name in ("a", "b", "c")]
        for outage in (3, 9, 14, 40, 11, 16):
            await asyncio.sleep(25)
            server.failure = [hang(), html(500), drop()][int(loop.time()) % 3]
            await asyncio.sleep(outage)
            server.failure = None
        await asyncio.sleep(40)
        assert len(working) == 1
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.wait(tasks)
        assert len(terms) > 1


def test_times_that_cannot_be_safe_are_refused() -> None:
    from datetime import timedelta

    with pytest.raises(ValueError, match="retry < renew < lease"):
        LeaderElector(None, "n", "l", identity="x", lease=timedelta(seconds=5))  # type: ignore[arg-type]


@virtual_time
async def test_work_that_does_not_end_after_the_lease_was_lost_is_a_reason_to_be_restarted() -> (
    None
):
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async with LeaseServer() as server, server.client() as client:
        leader = elector(server, client)
        assert leader.check() is None
        task = asyncio.ensure_future(leader.run(stubborn))
        await asyncio.sleep(60)
        assert leader.check() is None
        server.failure = html(503)
        await asyncio.sleep(15)
        assert leader.check() is None  # it may still be ending
        await asyncio.sleep(20)
        problem = leader.check()
        assert problem is not None
        assert 'Lease "n/l" was not renewed in time' in problem
        released.set()
        assert await asyncio.wait_for(task, 5) is LeadershipEnd.LOST
        assert leader.check() is None
