"""Sends requests through the limiter of their API server; repeats those that it shed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from multiqueue.kube.errors import ApiError, TooManyRequests
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.transport import ApiRequest, ApiTransport, Response

THROTTLED_ATTEMPTS = 4
"""How often a request is sent if it gets 429 with Retry-After: it was refused before it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOutcome:
    """The outcome of one request, for metrics; status 0 means that there was no answer."""

    method: str
    resource: str
    status: int
    seconds: float


class Sender:
    """Sends the requests of one client."""

    def __init__(
        self,
        transport: ApiTransport,
        limiter: RateLimiter,
        *,
        on_outcome: Callable[[SendOutcome], None] | None,
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._on_outcome = on_outcome

    async def send(
        self, request: ApiRequest, *, resource: str, limited: bool, cheap: bool = True
    ) -> Response:
        """Send a request when its turn has come.

        Args:
            request: The request; its timeout begins when it is sent.
            resource: Plural of the collection, for metrics.
            limited: Whether the request waits for the limiter.
            cheap: Whether its duration shows the server's load; the duration of a list does not.
        """
        attempt = 1
        while True:
            if limited:
                await self._limiter.acquire(write=request.method != "GET")
            try:
                return await self._send_once(request, resource, limited=limited, cheap=cheap)
            except TooManyRequests as error:
                wait = error.retry_after
                if wait is None or wait > request.timeout or attempt == THROTTLED_ATTEMPTS:
                    raise
                if not limited:
                    await asyncio.sleep(wait)
            attempt += 1

    async def _send_once(
        self, request: ApiRequest, resource: str, *, limited: bool, cheap: bool
    ) -> Response:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        status, retry_after = 0, None
        try:
            response = await self._transport.send(request)
            status = response.status
        except ApiError as error:
            status, retry_after = error.status, error.retry_after
            raise
        finally:
            seconds = loop.time() - begun
            if limited:
                self._limiter.release(
                    seconds=seconds if cheap and 200 <= status < 400 else None,
                    refused=status in {429, 503, 504},
                    retry_after=retry_after,
                    write=request.method != "GET",
                )
            if self._on_outcome is not None:
                self._on_outcome(
                    SendOutcome(
                        method=request.method, resource=resource, status=status, seconds=seconds
                    )
                )
        return response
