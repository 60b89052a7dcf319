"""Writes of a manager whose Lease has run out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials, Material
from multiqueue.kube.errors import TransportError
from multiqueue.kube.leader_election import LeaderElector, LeadershipEnd
from multiqueue.kube.resources import PODS
from multiqueue.kube.transport import ApiRequest, Response
from multiqueue.kube.write_fence import WriteFence
from tests.unit.kube.scripted_server import ScriptedServer, drop, json_answer, pod, status
from tests.unit.kube.test_leader_election import LeaseServer
from tests.virtual_time import virtual_time

POD = b'{"metadata":{"name":"a","resourceVersion":"1"},"spec":{}}'


class Transport:
    """Notes what is sent; everything succeeds at once, until the server is slow."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.slow_for = 0.0

    def __call__(self, credentials: Credentials, **_: Any) -> Transport:
        del credentials
        return self

    async def send(self, request: ApiRequest) -> Response:
        self.sent.append(request.what)
        await asyncio.sleep(self.slow_for)
        return Response(200, {}, POD)

    async def stream(self, request: ApiRequest) -> AsyncIterator[list[bytes]]:
        raise AssertionError(request)
        yield []

    def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


@virtual_time
async def test_a_write_is_not_sent_once_the_lease_ran_out_and_a_read_is():
    transport = Transport()
    fence = WriteFence(transport)
    async with KubeClient(Credentials.static("http://a"), open_transport=fence.open) as client:
        await client.create(PODS, pod("a", 1))
        fence.held_until = asyncio.get_running_loop().time() + 10
        await client.create(PODS, pod("a", 1))
        await asyncio.sleep(10)
        with pytest.raises(TransportError, match="Lease ran out"):
            await client.create(PODS, pod("a", 1))
        await client.get(PODS, "a", namespace="team-a")
    assert [what.split()[0] for what in transport.sent] == ["POST", "POST", "GET"]


def run_out(fence: WriteFence) -> None:
    fence.held_until = asyncio.get_running_loop().time()


async def assert_delete_is_refused(client: KubeClient, fence: WriteFence) -> None:
    fence.held_until = asyncio.get_running_loop().time() + 10
    with pytest.raises(TransportError, match="Lease ran out"):
        await client.delete(PODS, "a", namespace="team-a")


@pytest.mark.parametrize(
    ("reload_seconds", "want"),
    [(0.0, []), (None, ["DELETE"])],
    ids=["before the first try", "after a 401"],
)
async def test_a_write_is_not_sent_if_the_lease_runs_out_while_credentials_are_renewed(
    reload_seconds: float | None, want: list[str]
) -> None:
    fence = WriteFence()

    async def load() -> Material:
        run_out(fence)
        return Material(server=server.url, authorization="Bearer new")

    async with ScriptedServer(status(401), json_answer({})) as server:
        old = Material(server=server.url, authorization="Bearer old")
        credentials = Credentials(old, load=load, reload_seconds=reload_seconds)
        async with KubeClient(credentials, open_transport=fence.open) as client:
            await assert_delete_is_refused(client, fence)
    assert [seen.method for seen in server.seen] == want


async def test_a_write_is_not_sent_again_if_the_lease_runs_out_on_a_connection_that_closes() -> (
    None
):
    fence = WriteFence()

    async def close(request: web.Request) -> web.StreamResponse:
        run_out(fence)
        return await drop()(request)

    async with ScriptedServer(json_answer({}), close, json_answer({})) as server:
        credentials = Credentials.static(server.url)
        async with KubeClient(credentials, open_transport=fence.open) as client:
            await client.get(PODS, "a", namespace="team-a")
            await assert_delete_is_refused(client, fence)
    assert [seen.method for seen in server.seen] == ["GET", "DELETE"]


class LateStop(WriteFence):
    """The Lease runs out as soon as the loop comes to something else after the second check."""

    checks = 0

    def check(self, request: ApiRequest) -> None:
        super().check(request)
        self.checks += 1
        if self.checks == 2:
            asyncio.get_running_loop().call_soon(run_out, self)


async def test_nothing_comes_between_the_last_check_and_the_first_byte() -> None:
    """aiohttp leaves the body, and the headers with it, to a task that runs later."""
    fence = LateStop()
    async with ScriptedServer(json_answer(pod("a", 1))) as server:
        credentials = Credentials.static(server.url)
        async with KubeClient(credentials, open_transport=fence.open) as client:
            fence.held_until = asyncio.get_running_loop().time() + 10
            with pytest.raises(TransportError, match=r'^POST pods "team-a/a": not sent'):
                await client.create(PODS, pod("a", 1))
            fence.held_until = None
            await client.create(PODS, pod("a", 1))
    assert len(server.seen) == 1


@virtual_time
async def test_the_elector_tells_until_when_the_lease_is_held():
    transport = Transport()
    fence = WriteFence(transport)
    held: list[float] = []
    async with KubeClient(Credentials.static("http://a"), open_transport=fence.open) as client:
        elector = LeaderElector(
            client, "ns", "lease", identity="a", fence=fence, renew=timedelta(seconds=10)
        )

        async def work() -> None:
            assert fence.held_until is not None
            held.append(fence.held_until - asyncio.get_running_loop().time())
            transport.slow_for = 100.0
            await asyncio.get_running_loop().create_future()

        assert await elector.run(work) is LeadershipEnd.LOST
        assert held == [10.0]
        with pytest.raises(TransportError, match="Lease ran out"):
            await client.create(PODS, pod("a", 1))


@virtual_time
async def test_no_write_is_sent_any_more_once_another_manager_took_the_lease():
    fence = WriteFence()
    refused: list[str] = []
    async with LeaseServer() as server, server.client(open_transport=fence.open) as client:

        async def try_to_write() -> None:
            try:
                await client.create(PODS, pod("a", 1))
            except TransportError as error:
                refused.append(str(error))

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await try_to_write()

        elector = LeaderElector(client, "n", "l", identity="me", fence=fence)
        running = asyncio.ensure_future(elector.run(work))
        await asyncio.sleep(5)
        server.take("thief")
        assert await asyncio.wait_for(running, 3) is LeadershipEnd.LOST
        await try_to_write()
    assert len(refused) == 2
    assert all("Lease ran out" in words for words in refused)
