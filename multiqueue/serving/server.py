"""The HTTP server for webhooks, visibility, metrics, health and the embedded API server.

All that clients can use of it is limited: the number of connections, the time for a TLS handshake,
a request's head and its body, and the size of head and body. A full server closes the connection
that has waited longest without an answered request. So a client that holds many silent connections
cannot keep others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web

from multiqueue.serving.request import MAX_LARGE, HttpRequest
from multiqueue.serving.sockets import bind

HEAD_SECONDS = 10.0
"""How long a new connection may take until its first request is read, including TLS."""
IDLE_SECONDS = 100.0
"""How long a connection may wait for its next request; Go clients close theirs after 90."""
SHUTDOWN_SECONDS = 5.0
"""How long requests in progress may take after the server was told to stop."""
DRAIN_SECONDS = 2.0
"""How long a server of a manager goes on answering after it was told to stop.

Each answer then has ``Connection: close``, so a client asks elsewhere next time. A connection that
is still open afterwards was idle for as long. A Pod ends within its grace period of 15 s: that has
3 s before the signal, 2 s for this and 5 s for requests in progress.
"""
CLOSE_SECONDS = 2.0
"""How long a client may take to close, or to finish sending a body that was refused."""
ACCEPT_RETRY_SECONDS = 0.1
"""The pause before the next accept if the process has no file descriptors left."""

Handler = Callable[[HttpRequest], Awaitable[web.StreamResponse]]

log = structlog.get_logger(component="serving")
_library_log = logging.getLogger("multiqueue.serving.aiohttp")
_library_log.disabled = True  # it logs a traceback for every malformed request


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of a server.

    Attributes:
        connections: Open connections.
        body_bytes: The size of a request's body.
        line_bytes: The size of a request's first line.
        header_bytes: The size of each header; a request may have 128 headers.
    """

    connections: int = 64
    body_bytes: int = 64 * 1024
    line_bytes: int = 8190
    header_bytes: int = 8190


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection; ``answers`` while a request with a complete body is being answered."""

    since: float
    task: asyncio.Task[None] | None = None
    protocol: Any = None
    transport: asyncio.Transport | None = None
    asked: bool = False
    answers: bool = False
    timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class HttpServer:
    """Passes requests to a handler; if the handler raises, the answer is an empty 500.

    A handler is cancelled when its client disconnects.

    Args:
        base: A path such as ``/queue``: a request below it means what follows, because not every
            proxy strips the path that it was asked for. Requests elsewhere are taken as they are.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
        bounds: Bounds | None = None,
        shutdown_seconds: float = SHUTDOWN_SECONDS,
        drain_seconds: float = 0.0,
        base: str = "",
    ) -> None:
        self.host = host
        self.port = port
        """The port that is listened on, once started."""
        self._handler = handler
        self._context = context
        self._bounds = bounds or Bounds()
        self._shutdown_seconds = shutdown_seconds
        self._drain_seconds = drain_seconds
        self._base = base
        self.stopping = False
        """Whether the server was told to stop: clients should ask elsewhere."""
        self._connections: dict[_Connection, None] = {}  # in order of arrival
        self._by_protocol: dict[Any, _Connection] = {}
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._large = asyncio.Semaphore(MAX_LARGE)
        self._web: _Server | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: the port is taken, or the host is not an address of this machine.
        """
        self._listening = await bind(self.host, self.port)
        self.stopping = False
        self.port = self._listening[0].getsockname()[1]
        self._web = _Server(
            self._answer,
            made=self._introduce,
            lost=self._forget,
            request_factory=self._make_request,
            handler_cancellation=True,
            access_log=None,
            logger=_library_log,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=CLOSE_SECONDS,
            auto_decompress=False,  # no expected client compresses bodies
            max_line_size=self._bounds.line_bytes,
            max_field_size=self._bounds.header_bytes,
        )
        self._accepting = [
            asyncio.create_task(self._accept(each, self._web), name=f"accept on {self.port}")
            for each in self._listening
        ]

    async def stop_listening(self) -> None:
        """Stop accepting connections."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._listening:
            each.close()
        self._accepting, self._listening = [], []

    async def stop(self) -> None:
        """Answer for a while, finish requests in progress, then close.

        Until it closes, every answer tells the client to use another connection: a client that
        writes into one that is being closed may not know whether its request was read.
        """
        self.stopping = True
        try:
            if self._accepting:
                await asyncio.sleep(self._drain_seconds)
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.stop_listening()
        opening = [each.task for each in self._connections if each.task is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        if self._web is not None:
            self._web.pre_shutdown()  # idle connections close now, others after their request
            await self._web.shutdown(self._shutdown_seconds)
            self._web = None
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    # ------------------------------------------------------------- connections
    async def _accept(self, listening: socket.socket, server: _Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("connection not accepted, retrying", port=self.port, error=str(error))
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            peer.setblocking(False)
            if self._has_room():
                connection = _Connection(loop.time())
                self._connections[connection] = None
                connection.timer = loop.call_later(HEAD_SECONDS, self._close_silent, connection)
                connection.task = asyncio.create_task(self._open(connection, peer, server))
            else:
                peer.close()
            await asyncio.sleep(0)  # lets other tasks run during a flood of connections

    def _has_room(self) -> bool:
        """Whether another connection has room; if not, close the one that has waited longest."""
        if len(self._connections) < self._bounds.connections:
            return True
        waiting = [each for each in self._connections if not each.answers]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: (each.asked, each.since))
        del self._connections[oldest]
        oldest.abort()
        return True

    async def _open(self, connection: _Connection, peer: socket.socket, server: _Server) -> None:
        """Do the TLS handshake; from then on the connection has its own tasks."""
        options: dict[str, Any] = {}
        if self._context is not None:
            options = {
                "ssl": self._context,
                "ssl_handshake_timeout": HEAD_SECONDS,
                "ssl_shutdown_timeout": CLOSE_SECONDS,
            }

        def build_protocol() -> Any:
            protocol = server()
            connection.protocol = protocol
            self._by_protocol[protocol] = connection
            return protocol

        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(build_protocol, peer, **options)
        except OSError:
            self._drop(connection)  # no TLS, or the client disconnected
        except asyncio.CancelledError:
            self._drop(connection)
            raise
        finally:
            connection.task = None

    def _introduce(self, protocol: Any, transport: asyncio.Transport) -> None:
        connection = self._by_protocol.get(protocol)
        if connection is not None:
            connection.transport = transport

    def _forget(self, protocol: Any) -> None:
        connection = self._by_protocol.get(protocol)
        if connection is not None:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        self._by_protocol.pop(connection.protocol, None)
        if connection.timer is not None:
            connection.timer.cancel()

    def _close_silent(self, connection: _Connection) -> None:
        if not connection.asked:
            connection.abort()

    # ---------------------------------------------------------------- requests
    def _make_request(self, message: Any, *args: Any) -> HttpRequest:
        below = message.url.raw_path.removeprefix(self._base)
        if below != message.url.raw_path and below[:1] in {"", "/"}:
            url = message.url.with_path(below or "/", encoded=True, keep_query=True)
            message = message._replace(url=url)
        return HttpRequest(
            message,
            *args,
            asyncio.get_running_loop(),
            client_max_size=self._bounds.body_bytes,
            large=self._large,
            reading=self._reading,
        )

    @contextlib.contextmanager
    def _reading(self, http: HttpRequest) -> Iterator[None]:
        """Mark the connection as waiting for a body: it may be closed to make room."""
        connection = self._by_protocol.get(http.protocol)
        if connection is None:
            yield
            return
        connection.answers = False
        try:
            yield
        finally:
            connection.answers = True

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(http, HttpRequest)
        connection = self._by_protocol.get(http.protocol)
        if connection is not None:
            connection.asked = connection.answers = True
        try:
            response = await self._handler(http)
        except web.HTTPException as answer:
            if self.stopping:
                answer.force_close()
            raise
        except Exception:
            log.exception("request failed", method=http.method, path=http.path)
            response = web.Response(status=500, text="internal error; see the log\n")
        finally:
            if connection is not None:
                connection.answers = False
                connection.since = asyncio.get_running_loop().time()
        if self.stopping and not response.prepared:
            response.force_close()
        if http.writer.output_size and not response.prepared and http.transport is not None:
            http.transport.abort()  # another answer has begun: this one would become part of it
        return response


class _Server(web.Server):
    """An aiohttp server that reports which connections begin and end."""

    def __init__(
        self,
        handler: Any,
        *,
        made: Callable[[Any, asyncio.Transport], None],
        lost: Callable[[Any], None],
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self._made = made
        self._lost = lost

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._made(handler, transport)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._lost(handler)
