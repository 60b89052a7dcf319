"""The connection pool of one API server: sends and receives bytes; failures are `KubeError`s.

It replaces kubernetes-asyncio's transport. It never reads the environment or ``.netrc`` per
request, checks the status before the body is read, does not count watches against the request
limit, and notices dead peers by TCP keep-alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Protocol

from yarl import URL

from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import (
    AnswerTooLarge,
    ApiError,
    RequestTimeout,
    TlsError,
    TransportError,
    Unauthorized,
    build_api_error,
)
from multiqueue.kube.failure_words import describe_failure
from multiqueue.kube.lean_aiohttp import aiohttp
from multiqueue.kube.lines import LineSplitter, parse_warnings
from multiqueue.kube.server_words import clean_words
from multiqueue.kube.sizes import (
    LARGE_BYTES,
    MAX_ANSWER_BYTES,
    MAX_ERROR_BYTES,
    MAX_OBJECT_BYTES,
    check_parts,
)
from multiqueue.lib.digits import is_number

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 30.0
"""How long an idle connection is kept; below the idle timeouts of servers and usual load
balancers."""
TOO_MANY_REQUESTS = 429
REFUSED_WORDS = b"too many requests, please try again"
"""What API priority and fairness answers."""
REFUSED_BY = "X-Kubernetes-PF-PriorityLevel-UID", "X-Kubernetes-PF-FlowSchema-UID"
"""Headers of API priority and fairness."""
MAX_UID = 64

OnWarning = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class ApiRequest:
    """One request, ready to be sent.

    Attributes:
        target: Path and query, percent-encoded.
        what: The request in words, for errors.
        timeout: Seconds for the whole request; for a stream, until its status arrives.
        idle_timeout: For a stream: seconds of silence after which the peer counts as dead.
        to_service: Whether the API server passes it on to a Service. Then the answer says nothing
            about the API server or the credentials, and its body is read only if it is an error.
        raw: For a stream: yield chunks as they arrive instead of lines.
        check: Called whenever a connection is open and the request is about to be sent on it; an
            error that it raises keeps the request from being sent.
    """

    method: str
    target: str
    what: str
    timeout: float
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    idle_timeout: float | None = None
    to_service: bool = False
    raw: bool = False
    check: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """An answer below 400. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiTransport(Protocol):
    """Sends the requests of a client; `HttpTransport` documents each method."""

    async def send(self, request: ApiRequest) -> Response:
        """Send one request and read its whole answer."""
        ...

    def stream(self, request: ApiRequest) -> AsyncGenerator[list[bytes], None]:
        """Send a GET with an endless answer."""
        ...

    def open(self) -> None:
        """Let a closed transport be used again."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class OpenTransport(Protocol):
    """Makes the transport of one client, as `HttpTransport` does."""

    def __call__(
        self, credentials: Credentials, *, user_agent: str, on_warning: OnWarning
    ) -> ApiTransport:
        """Return a transport for the server of these credentials."""
        ...


class HttpTransport:
    """Sends requests to one API server.

    The size of answers is bounded, see `sizes`, and only one large answer is held at a time. So a
    server takes little of our memory, however much it sends to however many requests.
    """

    def __init__(self, credentials: Credentials, *, user_agent: str, on_warning: OnWarning) -> None:
        self.credentials = credentials
        self._user_agent = user_agent
        self._on_warning = on_warning
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._large = asyncio.Lock()

    async def send(self, request: ApiRequest) -> Response:
        """Send one request and read its whole answer.

        Raises:
            ApiError: the server answered with an error.
            AnswerTooLarge: the answer is too large.
            TransportError: there was no usable answer.
        """
        authorization = await self.credentials.authorization()
        try:
            return await self._send(request, authorization)
        except Unauthorized:
            if request.to_service or not await self.credentials.renew(authorization):
                raise
        return await self._send(request, await self.credentials.authorization())

    async def stream(self, request: ApiRequest) -> AsyncGenerator[list[bytes], None]:
        """Send a GET with an endless answer and yield its lines in batches.

        The first batch is empty and means that the stream is open.

        Raises:
            ApiError: the server answered with an error, before the first batch.
            AnswerTooLarge: a line is longer than any object.
            TransportError: the connection broke or fell silent.
        """
        authorization = await self.credentials.authorization()
        try:
            response = await self._open(request, authorization)
        except Unauthorized:
            if not await self.credentials.renew(authorization):
                raise
            response = await self._open(request, await self.credentials.authorization())
        splitter = LineSplitter(limit=MAX_OBJECT_BYTES)
        try:
            yield []
            with self._translated(request.what, request.idle_timeout):
                async for chunk in response.content.iter_any():
                    if request.raw:
                        yield [chunk]
                        continue
                    lines = splitter.feed(chunk)
                    if splitter.is_beyond_limit:
                        raise AnswerTooLarge(
                            f"{request.what}: a line of the stream is longer than "
                            f"{MAX_OBJECT_BYTES >> 20} MiB"
                        )
                    if lines:
                        yield lines
        finally:
            _abort(response)

    def open(self) -> None:
        """Let a closed transport be used again."""
        if self._closed:
            self._closed, self._session = False, None

    async def close(self) -> None:
        """Close all connections; streams in progress end with an error."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # aborted connections let go of their sockets

    async def _send(self, request: ApiRequest, authorization: str | None) -> Response:
        limits = aiohttp.ClientTimeout(
            total=request.timeout, sock_connect=min(CONNECT_SECONDS, request.timeout)
        )
        with self._translated(request.what, request.timeout):
            async with self._begin(request, authorization, limits) as response:
                if response.status >= 400:
                    raise await self._error_of(response, request)
                if request.to_service:
                    return Response(response.status, response.headers, b"")
                body = await self._read(response, request.what)
        self._report_warnings(response)
        return Response(response.status, response.headers, body)

    async def _read(self, response: aiohttp.ClientResponse, what: str) -> bytes:
        """Read a whole answer; large ones are read one at a time."""
        body = bytearray()
        async with contextlib.AsyncExitStack() as stack:
            async for chunk in response.content.iter_any():
                if len(body) <= LARGE_BYTES < len(body) + len(chunk):
                    await stack.enter_async_context(self._large)
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise AnswerTooLarge(
                        f"{what}: the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB"
                    )
            check_parts(body, what)
            return bytes(body)

    async def _error_of(self, response: aiohttp.ClientResponse, request: ApiRequest) -> ApiError:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > MAX_ERROR_BYTES:
                break
        is_refused = response.status == TOO_MANY_REQUESTS and REFUSED_WORDS in body.lower()
        if is_refused and not request.to_service:
            self._report_refusal(response.headers)
        wait = response.headers.get("Retry-After", "")
        return build_api_error(
            response.status,
            bytes(body),
            request=request.what,
            retry_after=float(wait) if is_number(wait) and wait != "0" else None,
            secrets=self.credentials.secrets,
        )

    async def _open(self, request: ApiRequest, authorization: str | None) -> aiohttp.ClientResponse:
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=request.idle_timeout
        )
        with self._translated(request.what, request.timeout):
            async with asyncio.timeout(request.timeout):
                response = await self._begin(request, authorization, limits)
                if response.status >= 400:
                    async with response:
                        raise await self._error_of(response, request)
        self._report_warnings(response)
        return response

    def _begin(
        self, request: ApiRequest, authorization: str | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.client._RequestContextManager:
        if authorization:
            request.headers["Authorization"] = authorization
        credentials = self.credentials
        body: bytes | _CheckedBody | None = request.body
        if request.body is not None and request.check is not None:
            body = _CheckedBody(request.body, request.check)
        return self._get_session().request(
            request.method,
            URL(credentials.server + request.target, encoded=True),
            data=body,
            headers=[*request.headers.items(), *credentials.material.impersonation],
            timeout=limits,
            allow_redirects=False,
            # Given per request, so that rotated certificates need no new session.
            ssl=credentials.ssl_context or True,
            server_hostname=credentials.server_name,
            proxy=credentials.proxy,
            trace_request_ctx=request.check,
        )

    def _get_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,  # the limiter bounds requests; watches must not take their places
                    keepalive_timeout=KEEPALIVE_SECONDS,
                    ttl_dns_cache=30,
                    socket_factory=_open_socket,
                ),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._user_agent},
                trace_configs=[_build_checks()],
            )
        return self._session

    @contextlib.contextmanager
    def _translated(self, what: str, timeout: float | None) -> Iterator[None]:
        """Turn aiohttp's errors into ours; the original stays as the cause."""
        try:
            yield
        except aiohttp.ClientSSLError as error:
            raise TlsError(f"{what}: TLS: {self._describe(error)}") from error
        except TimeoutError as error:
            seconds = f" within {timeout:g} s" if timeout is not None else " in time"
            raise RequestTimeout(f"{what}: no answer{seconds}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error.__cause__, TransportError):  # of the check of a body
                raise error.__cause__ from error
            raise TransportError(f"{what}: {self._describe(error)}") from error

    def _describe(self, error: Exception) -> str:
        """Describe an error; aiohttp's text may repeat bytes that are not HTTP."""
        return clean_words(describe_failure(error), self.credentials.secrets)

    def _report_warnings(self, response: aiohttp.ClientResponse) -> None:
        for header in response.headers.getall("Warning", ()):
            for text in parse_warnings(header):
                self._on_warning(clean_words(text, self.credentials.secrets))

    def _report_refusal(self, headers: Mapping[str, str]) -> None:
        """Report which rule of API priority and fairness refused a request.

        The server names the rule by uid. Its name would need rights to read all rules. Every answer
        names a rule; a 429 of another cause, such as a storage that is being initialized, has
        other words.
        """
        level, schema = (clean_words(headers.get(name, ""), limit=MAX_UID) for name in REFUSED_BY)
        if level and schema:
            self._on_warning(
                "the API server refuses requests with status 429: it has no capacity left in the"
                f" PriorityLevelConfiguration with uid {level}, which the FlowSchema with uid"
                f" {schema} chose; find their names with `kubectl get flowschemas,"
                "prioritylevelconfigurations -o custom-columns=NAME:.metadata.name,"
                "UID:.metadata.uid`, and raise nominalConcurrencyShares there"
            )


class _CheckedBody(aiohttp.BytesPayload):
    """A body that is checked once more before its first byte, and the headers with it, are sent.

    aiohttp writes a body in a task of its own, and the process may be stopped before that runs.
    """

    def __init__(self, body: bytes, check: Callable[[], None]) -> None:
        super().__init__(body)
        self._check = check

    async def write_with_length(
        self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


def _build_checks() -> aiohttp.TraceConfig:
    """Return the hook that calls the checks of requests.

    aiohttp calls it just before the headers are sent, or left to the task that writes the body,
    whatever its name says. It does so again if it sends a request once more because a kept
    connection was closed meanwhile.
    """

    async def check(
        _: aiohttp.ClientSession,
        context: SimpleNamespace,
        __: aiohttp.TraceRequestHeadersSentParams,
    ) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(check)
    return config


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close a stream at once: a TLS shutdown would wait for the server."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Open a socket that notices within 30 s that its peer is gone, even if a watch is silent."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return sock
