"""Keeps a manager from writing once its Lease has run out.

A process that was stopped, with SIGSTOP say, goes on in the middle of its work. It handles answers
that arrived meanwhile before it notices that it does not lead any more, and each would be followed
by the next write. So each write is checked before it is begun, and again whenever its connection is
open and the first byte is about to be sent: credentials and the connection may take long, and after
a 401 or on a connection that was closed meanwhile, a request is sent a second time. A process that
is stopped within the few instructions after that still sends what it checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import TransportError
from multiqueue.kube.transport import (
    ApiRequest,
    ApiTransport,
    HttpTransport,
    OnWarning,
    OpenTransport,
    Response,
)


class WriteFence:
    """Makes transports that refuse writes after a time.

    Args:
        open_transport: Makes the transports that send the requests.

    Attributes:
        held_until: Until when the Lease is held, in the loop's time; None: writes are not checked.
    """

    def __init__(self, open_transport: OpenTransport = HttpTransport) -> None:
        self.held_until: float | None = None
        self._open_transport = open_transport

    def open(
        self, credentials: Credentials, *, user_agent: str, on_warning: OnWarning
    ) -> ApiTransport:
        """Return a transport for the server of these credentials."""
        transport = self._open_transport(credentials, user_agent=user_agent, on_warning=on_warning)
        return FencedTransport(self, transport)

    def check(self, request: ApiRequest) -> None:
        """Let a write pass.

        Raises:
            TransportError: the Lease has run out.
        """
        held_until = self.held_until
        if held_until is not None and asyncio.get_running_loop().time() >= held_until:
            raise TransportError(f"{request.what}: not sent, because this manager's Lease ran out")


class FencedTransport:
    """A transport whose writes have to pass a fence."""

    def __init__(self, fence: WriteFence, transport: ApiTransport) -> None:
        self._fence = fence
        self._transport = transport

    async def send(self, request: ApiRequest) -> Response:
        """Send one request, unless it is a write that must not be sent any more."""
        if request.method != "GET":
            self._fence.check(request)
            request.check = partial(self._fence.check, request)
        return await self._transport.send(request)

    def stream(self, request: ApiRequest) -> AsyncGenerator[list[bytes], None]:
        """Send a GET with an endless answer."""
        return self._transport.stream(request)

    def open(self) -> None:
        """Let a closed transport be used again."""
        self._transport.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
