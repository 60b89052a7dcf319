"""A client that keeps its connections, as an API server does, notices no replica that ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import DRAIN_SECONDS, HttpServer
from tests.unit.serving.test_server import GET, Stream, echo, post
from tests.virtual_time import virtual_time

PAUSE_SECONDS = 0.02
LAG_SECONDS = DRAIN_SECONDS / 2
"""How long new connections still come to a replica that ends, if nodes learn of it late."""


def replica(port: int = 0) -> HttpServer:
    return HttpServer(echo, host="127.0.0.1", port=port, drain_seconds=DRAIN_SECONDS)


@dataclass(slots=True)
class KeepingClient:
    """Sends one request after the other, each on the connection that was idle for longest."""

    ports: list[int]
    """Where new connections go, in turns."""
    idle: list[Stream] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    answered: int = 0
    opened: int = 0

    async def open(self, count: int) -> None:
        """Have so many idle connections, each of which was used."""
        streams = [await self._connect() for _ in range(count)]
        for stream in streams:
            await self._ask(stream)

    async def run(self) -> None:
        while True:
            stream = self.idle.pop(0) if self.idle else await self._connect()
            await self._ask(stream)
            await asyncio.sleep(PAUSE_SECONDS)

    async def close(self) -> None:
        for _, writer in self.idle:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connect(self) -> Stream:
        self.opened += 1
        port = self.ports[self.opened % len(self.ports)]
        return await asyncio.open_connection("127.0.0.1", port)

    async def _ask(self, stream: Stream) -> None:
        reader, writer = stream
        try:
            writer.write(post(3, b"abc"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(b"3 bytes")) == b"3 bytes"
        except (OSError, EOFError) as error:
            self.failures.append(repr(error))
            writer.transport.abort()
            return
        self.answered += 1
        if b"connection: close" in head.lower():
            writer.transport.abort()
        else:
            self.idle.append(stream)


@virtual_time
async def test_no_request_fails_while_replicas_are_restarted() -> None:
    replicas = [replica(), replica()]
    for each in replicas:
        await each.start()
    ports = [each.port for each in replicas]
    client = KeepingClient(list(ports))
    await client.open(20)
    asking = asyncio.create_task(client.run())
    for each in replicas:
        before = client.answered
        stopping = asyncio.create_task(each.stop())
        await asyncio.sleep(LAG_SECONDS)
        client.ports.remove(each.port)
        await stopping
        await each.start()
        client.ports.append(each.port)
        assert client.answered > before + 20
    asking.cancel()
    await asyncio.wait({asking})
    await client.close()
    assert client.failures == []
    for each in replicas:
        await each.stop()


@virtual_time
async def test_every_kind_of_answer_of_a_stopping_server_ends_its_connection() -> None:
    async def answer(request: HttpRequest) -> web.Response:
        if request.path == "/refused":
            raise web.HTTPForbidden
        if request.path == "/fails":
            raise ValueError
        return web.Response(text="ok")

    server = HttpServer(answer, host="127.0.0.1", port=0, drain_seconds=DRAIN_SECONDS)
    await server.start()
    streams = {}
    for path in (b"/", b"/refused", b"/fails"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"close" not in head.lower()
        await reader.readexactly(2)
        streams[path] = reader, writer
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    for path, (reader, writer) in streams.items():
        writer.write(GET.replace(b"/ ", path + b" "))
        assert b"connection: close" in (await reader.read()).lower()
        writer.transport.abort()
    await stopping


@virtual_time
async def test_an_idle_connection_is_closed_only_after_the_drain() -> None:
    server = replica()
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(GET)
    await reader.readuntil(b"0 bytes")
    loop = asyncio.get_running_loop()
    began = loop.time()
    stopping = asyncio.create_task(server.stop())
    assert await reader.read() == b""
    assert loop.time() - began >= DRAIN_SECONDS
    writer.transport.abort()
    await stopping
