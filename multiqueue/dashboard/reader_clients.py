"""Clients with the rights of readers, over one pool of connections that has no rights of its own.

The pool knows the API server's address and authority, and nothing of the manager's identity. So a
request whose token is missing is anonymous: it never has the rights of the manager.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Self

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import FILE_REFRESH_SECONDS, Credentials
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.transport import ApiRequest, ApiTransport, HttpTransport, Response

AGENT = "multiqueue-dashboard"
REQUESTS_PER_SECOND, BURST, IN_FLIGHT = 50.0, 100.0, 64
"""The budget of one reader, apart from that of the manager.

The API server may refuse one reader only; then the others do not wait.
"""
MAX_READERS = 1024
"""Readers whose budgets are remembered; one who asked long ago begins anew."""


class BearerTransport:
    """Sends requests with the token of a reader over connections that are shared."""

    def __init__(self, shared: ApiTransport, token: str) -> None:
        self._shared = shared
        self._authorization = f"Bearer {token}"

    async def send(self, request: ApiRequest) -> Response:
        """Send one request and read its whole answer."""
        request.headers["Authorization"] = self._authorization
        return await self._shared.send(request)

    def stream(self, request: ApiRequest) -> AsyncGenerator[list[bytes], None]:
        """Send a GET with an endless answer."""
        request.headers["Authorization"] = self._authorization
        return self._shared.stream(request)

    def open(self) -> None:
        """Do nothing, as `close`."""

    async def close(self) -> None:
        """Do nothing: the connections are those of other readers, too."""


class ReaderClients:
    """Makes the clients of readers.

    Args:
        credentials: The manager's; only the address and the authority of the server are used.
        find_own: Returns where this process serves the fleet API itself; None: nowhere.
    """

    def __init__(
        self, credentials: Credentials, find_own: Callable[[], Material | None] = lambda: None
    ) -> None:
        async def load() -> Material:
            return without_identity(credentials.material)

        self._nobody = Credentials(
            without_identity(credentials.material), load=load, reload_seconds=FILE_REFRESH_SECONDS
        )
        # Warnings of the API server are about what a reader asked: the log has no use for them.
        self._shared = HttpTransport(self._nobody, user_agent=AGENT, on_warning=lambda _: None)
        self._limiters: OrderedDict[str, RateLimiter] = OrderedDict()
        self._find_own = find_own
        self._own: dict[Material, HttpTransport] = {}
        """By address and authority; old ones stay open, for the streams over them."""

    def open(self, token: str, reader: str) -> KubeClient:
        """Return a client with the rights of a token; it need not be closed.

        Args:
            token: The token.
            reader: The name of its user, who has one budget for all tokens.
        """
        return self._open(self._shared, token, reader)

    def open_feeds(self, token: str, reader: str) -> KubeClient:
        """Return a client for streams of the fleet API, as `open`.

        It asks this process itself, if that serves the API: an API server carries few streams.
        """
        own = self._find_own()
        if own is None:
            return self.open(token, reader)
        if own not in self._own:
            credentials = Credentials(own)
            credentials.proxy = None  # it is this process
            self._own[own] = HttpTransport(credentials, user_agent=AGENT, on_warning=lambda _: None)
        return self._open(self._own[own], token, reader)

    def _open(self, shared: HttpTransport, token: str, reader: str) -> KubeClient:
        return KubeClient(
            self._nobody,
            limiter=self._find_limiter(reader),
            open_transport=lambda *_, **__: BearerTransport(shared, token),
        )

    def _find_limiter(self, reader: str) -> RateLimiter:
        limiter = self._limiters.get(reader)
        if limiter is None:
            limiter = RateLimiter(rate=REQUESTS_PER_SECOND, burst=BURST, max_in_flight=IN_FLIGHT)
            self._limiters[reader] = limiter
        self._limiters.move_to_end(reader)
        if len(self._limiters) > MAX_READERS:
            self._limiters.popitem(last=False)
        return limiter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        for transport in (self._shared, *self._own.values()):
            await transport.close()


def without_identity(material: Material) -> Material:
    """Return where a server is and how it is known, without whoever we are there."""
    return replace(
        material,
        authorization=None,
        client_certificate=None,
        client_key=None,
        impersonation=(),
        expires_at=None,
    )
