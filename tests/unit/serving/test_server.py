"""Each test is somebody who can reach the port, and what others notice of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.tls import load_key_pair
from multiqueue.serving.request import BODY_SECONDS, MAX_LARGE, SMALL_BYTES, HttpRequest
from multiqueue.serving.server import HEAD_SECONDS, IDLE_SECONDS, Bounds, HttpServer
from tests.virtual_time import virtual_time

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(request: HttpRequest) -> web.Response:
    return web.Response(text=f"{len(await request.read())} bytes")


class ServerFixture:
    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> Stream:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def ask(self, sent: bytes = GET) -> bytes:
        """Return the first line of the answer; empty if the connection was closed."""
        reader, _ = await self.connect(sent)
        return (await reader.readline()).strip()


@contextlib.asynccontextmanager
async def serving(
    handler: Any = echo, context: ssl.SSLContext | None = None, base: str = "", **bounds: int
) -> AsyncIterator[ServerFixture]:
    server = HttpServer(
        handler, host="127.0.0.1", port=0, context=context, bounds=Bounds(**bounds), base=base
    )
    await server.start()
    world = ServerFixture(server)
    try:
        yield world
    finally:
        await server.stop()
        assert not server.connections
        for writer in world.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


def post(length: int, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (length, body)


async def seconds_until_closed(reader: asyncio.StreamReader) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with contextlib.suppress(ConnectionError):
        while await reader.read(1024):
            pass
    return loop.time() - began


@virtual_time
async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving() as world:
        reader, _ = await world.connect()
        assert await seconds_until_closed(reader) == pytest.approx(HEAD_SECONDS, abs=0.1)


@virtual_time
async def test_headers_that_drip_do_not_keep_a_connection() -> None:
    async with serving() as world:
        reader, writer = await world.connect(b"GET / HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                await asyncio.sleep(1)
                writer.write(b"a: b\r\n")

        dripping = asyncio.create_task(drip())
        assert await seconds_until_closed(reader) == pytest.approx(HEAD_SECONDS, abs=1.1)
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)


@virtual_time
async def test_a_connection_is_kept_for_the_next_request_and_not_for_ever() -> None:
    async with serving() as world:
        reader, writer = await world.connect(GET)
        assert b"200" in await reader.readline()
        await asyncio.sleep(90)  # a client written in Go keeps it that long
        writer.write(GET)
        await reader.readuntil(b"0 bytes")
        assert await seconds_until_closed(reader) >= 0
        assert IDLE_SECONDS > 90


@virtual_time
async def test_a_body_that_does_not_come_is_given_up_with_words() -> None:
    async with serving() as world:
        reader, _ = await world.connect(post(100, b"x"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert b"408" in await reader.readline()
        assert loop.time() - began == pytest.approx(BODY_SECONDS, abs=0.1)
        assert await seconds_until_closed(reader) < HEAD_SECONDS


@virtual_time
async def test_a_body_that_is_too_long_is_refused() -> None:
    async with serving(body_bytes=10) as world:
        assert b"200" in await world.ask(post(10, b"x" * 10))
        assert b"413" in await world.ask(post(11, b"x" * 11))


@virtual_time
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost", post(9)])
async def test_a_full_server_makes_room_by_closing_who_waits_longest(sent: bytes) -> None:
    async with serving(connections=8) as world:
        silent = [await world.connect(sent) for _ in range(20)]
        assert [await world.ask() for _ in range(30)] == [b"HTTP/1.1 200 OK"] * 30
        assert world.server.connections <= 8
        assert await seconds_until_closed(silent[0][0]) == 0


@virtual_time
async def test_requests_that_are_answered_are_not_closed_for_others() -> None:
    entered, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: HttpRequest) -> web.Response:
        await request.read()
        entered.release()
        await go.wait()
        return web.Response()

    async with serving(wait, connections=3) as world:
        asked = [asyncio.create_task(world.ask(post(1, b"x"))) for _ in range(3)]
        for _ in asked:
            await entered.acquire()
        reader, _ = await world.connect(GET)
        assert await seconds_until_closed(reader) == 0
        go.set()
        assert await asyncio.gather(*asked) == [b"HTTP/1.1 200 OK"] * 3


@virtual_time
async def test_large_bodies_wait_for_each_other_and_small_ones_do_not() -> None:
    large = SMALL_BYTES + 1
    async with serving(body_bytes=2 * large) as world:
        slow = [await world.connect(post(large, b"x")) for _ in range(MAX_LARGE)]
        await asyncio.sleep(1)
        waiting = asyncio.create_task(world.ask(post(large, b"x" * large)))
        assert b"200" in await world.ask(post(SMALL_BYTES, b"x" * SMALL_BYTES))
        await asyncio.sleep(1)
        assert not waiting.done()
        slow[0][1].write(b"x" * (large - 1))
        assert b"200" in await waiting


@virtual_time
async def test_handshakes_that_do_not_end_keep_nobody_out() -> None:
    now = datetime.now(UTC)
    pair = issue_certificate(create_authority("ca", now), "x", ["127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key_pair(context, pair.certificate, pair.key)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with serving(context=context, connections=4) as world:
        silent = [await world.connect() for _ in range(10)]
        reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port, ssl=trust)
        writer.write(GET)
        assert b"200" in await reader.readline()
        writer.transport.abort()
        assert await seconds_until_closed(silent[-1][0]) <= HEAD_SECONDS
        await asyncio.sleep(HEAD_SECONDS + 1)
        assert not world.server.connections


@virtual_time
@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_request_is_a_400_without_a_traceback(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as world:
        assert b" 400 " in await world.ask(sent)
        assert b"200" in await world.ask()
    assert not caplog.records


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ("/queue/a?b=/queue/c", "/a?b=/queue/c"),
        ("/queue/", "/"),
        ("/queue", "/"),
        ("/queue?a", "/?a"),
        ("/a?b", "/a?b"),
        ("/", "/"),
        ("/queued/a", "/queued/a"),
        ("/queue/queue/a", "/queue/a"),
        ("/queue//evil/a", "//evil/a"),
        ("/queue/%2e%2e/a", "/%2e%2e/a"),
        ("/queue/../a", "/../a"),
        ("/%71ueue/a", "/%71ueue/a"),
        ("http://x/queue/a", "/a"),
    ],
)
async def test_a_base_is_stripped_once_if_it_is_there(asked: str, want: str) -> None:
    async def tell(request: HttpRequest) -> web.Response:
        return web.Response(text=f"{request.rel_url.raw_path_qs}\n")

    async with serving(tell, base="/queue") as world:
        reader, _ = await world.connect(f"GET {asked} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        assert (await reader.readline()).decode().strip() == want


@virtual_time
async def test_a_handler_that_fails_says_nothing_about_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def fail(request: HttpRequest) -> web.Response:
        raise ValueError("secret")

    async with serving(fail) as world:
        reader, _ = await world.connect(GET)
        answer = await reader.readuntil(b"see the log\n")
    assert b"500" in answer.splitlines()[0]
    assert b"secret" not in answer
    assert "request failed" in capsys.readouterr().out


@virtual_time
@pytest.mark.parametrize("fails", [True, False])
async def test_no_second_answer_follows_one_that_has_begun(fails: bool) -> None:
    async def begin(request: HttpRequest) -> web.Response:
        begun = web.StreamResponse()
        await begun.prepare(request)
        await begun.write(b"begun")
        if fails:
            raise RuntimeError("too late")
        return web.Response(status=502, text="too late")

    async with serving(begin) as world:
        reader, _ = await world.connect(GET)
        assert b"200" in await reader.readline()
        with contextlib.suppress(ConnectionError):
            assert b"HTTP/1.1" not in await reader.read()


async def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    async with serving() as world:
        other = HttpServer(echo, host="127.0.0.1", port=world.server.port)
        with pytest.raises(OSError, match="in use"):
            await other.start()


@virtual_time
async def test_an_empty_host_listens_on_every_address() -> None:
    server = HttpServer(echo, host="", port=0)
    await server.start()
    world = ServerFixture(server)
    assert b"200" in await world.ask()
    await server.stop()
    for writer in world.writers:
        writer.transport.abort()
