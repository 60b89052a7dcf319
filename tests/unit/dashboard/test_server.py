"""The listener beside the manager: its bounds, its hosts, and how it stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import aiohttp
import orjson
import pytest
from structlog.testing import capture_logs

from multiqueue.api.config import Configuration
from multiqueue.dashboard.login import Login
from multiqueue.dashboard.reader_clients import ReaderClients, without_identity
from multiqueue.dashboard.server import (
    MAX_REQUESTS_OF_A_READER,
    DashboardServer,
    is_own_host,
)
from multiqueue.kube import certificates
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.errors import ApiError
from multiqueue.kube.tls import build_server_context
from multiqueue.kube.transport import Response
from tests.integration.test_fleet_api import eventually
from tests.unit.dashboard.test_gateway import FLEET, PlayedClient
from tests.unit.dashboard.test_login import Reviews

TOKEN = "t" * 5000
"""A long one, as of somebody with many groups."""
LARGE = b"x" * 32 * 1024 * 1024
"""More than sockets keep."""
FEED = f"{FLEET}/feeds?watch=1&topics=totals"


class EndlessClient(PlayedClient):
    """A client whose feeds have no end."""

    async def stream(self, path: str, *, headers: dict[str, str]) -> AsyncGenerator[bytes, None]:
        async for chunk in super().stream(path, headers=headers):
            yield chunk
        await asyncio.Event().wait()


class Clients:
    """Has one client for everybody; `tokens` are those that it was asked for."""

    def __init__(self) -> None:
        self.client: PlayedClient = EndlessClient()
        self.tokens: set[str] = set()

    def open(self, token: str, reader: str) -> PlayedClient:
        assert reader == "ada"
        self.tokens.add(token)
        return self.client

    def open_feeds(self, token: str, reader: str) -> PlayedClient:
        return self.open(token, reader)


@asynccontextmanager
async def listening(
    *, send_seconds: float = 60.0, acts: bool = True
) -> AsyncIterator[tuple[DashboardServer, Clients, aiohttp.ClientSession, str]]:
    """A server, and a browser that logged in with a long token."""
    clients, clock = Clients(), SystemClock()
    authority = certificates.create_authority("test", clock.now())
    pair = certificates.issue_certificate(authority, "a", ["127.0.0.1"], clock.now())
    server = DashboardServer(
        Login(cast("Any", Reviews({TOKEN: "ada"})), clock),
        cast("ReaderClients", clients),
        clock,
        names=[],
        host="127.0.0.1",
        port=0,
        context=build_server_context(Configuration().tls),
        send_seconds=send_seconds,
        acts=acts,
    )
    server.show(Serving(pair.certificate, pair.key, b""))
    await server.start()
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    base = f"https://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as browser:
        headers = {"Origin": base}
        async with browser.post(f"{base}/login", json={"token": TOKEN}, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
        yield server, clients, browser, base
    await server.stop()


async def test_a_long_token_travels_in_several_cookies() -> None:
    async with listening() as (_, clients, browser, base):
        assert len(browser.cookie_jar) == 2
        async with browser.get(f"{base}{FLEET}/totals") as answer:
            assert answer.status == 200
        assert clients.tokens == {TOKEN}


async def test_actions_are_logged_and_bodies_that_are_none_are_not() -> None:
    async with listening() as (_, _, browser, base):
        async with browser.get(f"{base}/about.json") as answer:
            action = (await answer.json())["action"]
        headers = {"Origin": base, "X-Multiqueue-Action": action}
        headers["Content-Type"] = "application/json"
        path = f"{base}/actions.json"
        asked = {"verb": "sing", "kind": "clusterqueues", "name": "n" * 999, "token": "secret"}
        bodies = (orjson.dumps(asked), b"[]", b"{", b"1" * 70_000)
        with capture_logs() as logs:
            for body, status in zip(bodies, (400, 400, 400, 413), strict=True):
                async with browser.post(path, data=body, headers=headers) as answer:
                    assert answer.status == status
        (told,) = [each for each in logs if each["event"] == "action"]
        assert (told["reader"], told["verb"], told["result"]) == ("ada", "sing", "refused with 400")
        assert told["object"] == f"clusterqueues {'n' * 253}"
        assert "secret" not in str(told)


async def test_without_actions_nothing_is_changed_and_the_logout_works() -> None:
    async with listening(acts=False) as (_, _, browser, base):
        async with browser.get(f"{base}/about.json") as answer:
            about = await answer.json()
        assert about["acts"] is False
        headers = {"Origin": base, "X-Multiqueue-Action": about["action"]}
        asked = {"verb": "hold", "kind": "clusterqueues", "name": "cq"}
        path = f"{base}/actions.json"
        async with browser.get(path, params=asked) as answer:
            assert answer.status == 404
        async with browser.post(path, json=asked, headers=headers) as answer:
            assert answer.status == 403
            assert "dashboard.actions" in (await answer.json())["message"]
        async with browser.post(f"{base}/logout", json={}, headers=headers) as answer:
            assert answer.status == 200


async def test_an_action_goes_on_and_is_logged_though_its_reader_has_left() -> None:
    class SlowClient(EndlessClient):
        """A client that answers late."""

        began, goes_on = asyncio.Event(), asyncio.Event()

        async def get(self, *_: Any, **__: Any) -> Any:
            self.began.set()
            await self.goes_on.wait()
            raise ApiError(403, reason="Forbidden", message="late")

    async with listening() as (server, clients, browser, base):
        clients.client = slow = SlowClient()
        async with browser.get(f"{base}/about.json") as answer:
            action = (await answer.json())["action"]
        headers = {"Origin": base, "X-Multiqueue-Action": action}
        asked = {"verb": "hold", "kind": "clusterqueues", "name": "cq"}
        with capture_logs() as logs:
            post = browser.post(f"{base}/actions.json", json=asked, headers=headers)
            sent = asyncio.create_task(post.__aenter__())
            await slow.began.wait()
            sent.cancel()
            await asyncio.wait({sent})
            stop = asyncio.create_task(server.stop())
            await eventually(lambda: _is_left(server))
            assert not stop.done(), "it waits for what has begun"
            slow.goes_on.set()
            await stop
        (told,) = [each for each in logs if each["event"] == "action"]
        assert (told["reader"], told["result"]) == ("ada", "refused with 403")
        assert told["object"] == "clusterqueues cq"


async def _is_left(server: DashboardServer) -> bool:
    """Whether no connection is open."""
    return server.connections == 0


async def test_one_reader_cannot_use_up_the_listener() -> None:
    async with listening() as (_, _, browser, base):
        feeds = [await browser.get(base + FEED) for _ in range(MAX_REQUESTS_OF_A_READER)]
        assert {feed.status for feed in feeds} == {200}
        async with browser.get(f"{base}{FLEET}/totals") as answer:
            assert answer.status == 429
        async with browser.get(f"{base}/") as answer:
            assert answer.status == 200
        for feed in feeds:
            feed.close()

        async def is_answered() -> bool:
            return (await browser.get(f"{base}{FLEET}/totals")).status == 200

        await eventually(is_answered)


async def test_connections_that_say_nothing_leave_it_to_others() -> None:
    async with listening() as (server, _, browser, base):
        streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(600)]
        async with asyncio.timeout(9), browser.get(f"{base}{FLEET}/totals") as answer:
            assert answer.status == 200
        for _, writer in streams:
            writer.transport.abort()


async def test_a_server_that_stops_ends_streams_without_ending_the_login() -> None:
    async with listening() as (server, _, browser, base), browser.get(base + FEED) as feed:
        assert await feed.content.readuntil(b"\n\n") == b"event: hello\n\n"
        async with asyncio.timeout(3):  # it would wait for requests in progress for five seconds
            await server.stop()
            assert await feed.read() == b""


class LargeClient(PlayedClient):
    """A client with large answers, and feeds that never pause."""

    async def request(self, *asked: Any, **more: Any) -> Response:
        await super().request(*asked, **more)
        return Response(200, {}, LARGE)

    async def stream(self, path: str, *, headers: dict[str, str]) -> AsyncGenerator[bytes, None]:
        while True:
            yield LARGE
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", [f"{FLEET}/totals", FEED])
async def test_a_reader_who_does_not_read_keeps_a_slot_and_is_disconnected(
    path: str,
) -> None:
    async with listening(send_seconds=1.0) as (server, clients, browser, base):
        clients.client = LargeClient()
        cookies = "; ".join(f"{each.key}={each.value}" for each in browser.cookie_jar)
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trust, limit=1024
        )
        head = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Cookie: {cookies}")
        writer.write("\r\n".join((*head, "", "")).encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert server.under_way == 1

        async def is_free() -> bool:
            return server.under_way == 0

        with capture_logs() as logs:
            await eventually(is_free)
            with suppress(OSError):
                async with asyncio.timeout(5):
                    assert len(await reader.read()) < len(LARGE)
        assert logs == []
        writer.transport.abort()
        clients.client = EndlessClient()
        async with browser.get(f"{base}{FLEET}/totals") as answer:
            assert (answer.status, await answer.json()) == (200, {"items": []})


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("queue.example.com", True),
        ("Queue.Example.com:8444", True),
        ("localhost:1", True),
        ("192.0.2.1", True),
        ("[2001:db8::1]:8444", True),
        ("", False),
        ("evil.example", False),
        ("queue.example.com.evil.example", False),
        ("evil.example:443@queue.example.com", False),
        ("queue.example.com:x", False),
        ("127.0.0.1.evil.example", False),
        ("[::1].evil.example", False),
        ("queue.example.com\n", False),
        ("1.1", False),
    ],
)
def test_whose_host_it_is(host: str, want: bool) -> None:
    assert is_own_host(["queue.example.com"], host) is want


def test_the_pool_of_connections_has_nothing_of_the_managers_identity() -> None:
    material = Material(
        server="https://a",
        authorization="Bearer manager",
        ca=b"ca",
        client_certificate=b"c",
        client_key=b"k",
        server_name="n",
        impersonation=(("Impersonate-User", "root"),),
    )
    assert without_identity(material) == Material(server="https://a", ca=b"ca", server_name="n")
