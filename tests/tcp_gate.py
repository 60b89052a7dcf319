"""A TCP proxy that a test opens, cuts and lets hang: the network between manager and worker.

It speaks TLS to who connects, because managers connect to nothing else. If the server behind it
does so itself, the gate passes on what it gets, and the server's certificate counts, unless the
gate reads along.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from multiqueue.embedded.server.certificates import Authority, create_authority, server_context

HOST = "127.0.0.1"


@cache
def _authority() -> Authority:
    return create_authority(datetime.now(UTC))


@cache
def _context() -> ssl.SSLContext:
    return server_context(_authority(), [HOST], datetime.now(UTC))


def _trust_all() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


Reader = Callable[[int, bytes], None]
"""Gets the port from which somebody connected, and some of what it sent."""


class Gate:
    """Forwards connections to one address.

    Args:
        target: The URL of the server.
        reader: Reads what is sent to the server.

    Attributes:
        url: Where to connect instead.
    """

    def __init__(self, target: str, reader: Reader | None = None) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        is_encrypted = parts.scheme == "https"
        self._tls = None if is_encrypted and reader is None else _context()
        self._onward = _trust_all() if is_encrypted and reader is not None else None
        self._reader = reader or (lambda _port, _data: None)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._served: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_cut = False
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0, ssl=self._tls)
        self.url = f"https://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def cluster(self) -> dict[str, Any]:
        """Where to connect, and how to know it, as in a kubeconfig; of a gate that speaks TLS."""
        authority = base64.b64encode(_authority().certificate).decode()
        return {"server": self.url, "certificate-authority-data": authority}

    async def stop(self) -> None:
        self.cut()
        self._flows.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        while self._served:
            await asyncio.wait(self._served)

    def cut(self) -> None:
        """Drop every connection and take no new one."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def hang(self) -> None:
        """Take connections, but let nothing through."""
        self._flows.clear()

    def heal(self) -> None:
        """Let everything through again."""
        self._is_cut = False
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        other: asyncio.StreamWriter | None = None
        port = (writer.get_extra_info("peername") or ("", 0))[1]
        try:
            if not self._is_cut:
                await self._flows.wait()
            if self._is_cut:
                return
            other_reader, other = await asyncio.open_connection(
                self._host, self._port, ssl=self._onward
            )
            self._writers.add(other)
            ways = [
                asyncio.ensure_future(self._pump(reader, other, port)),
                asyncio.ensure_future(self._pump(other_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        except OSError:
            pass
        finally:
            for end in (writer, other):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = 0
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                if port:
                    self._reader(port, data)
                writer.write(data)
                await writer.drain()


@contextlib.asynccontextmanager
async def gate_to(url: str, reader: Reader | None = None) -> AsyncIterator[Gate]:
    """Open a gate for the length of a block."""
    gate = Gate(url, reader)
    await gate.start()
    try:
        yield gate
    finally:
        await gate.stop()
