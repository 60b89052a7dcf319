"""Answers that do not end: how many there may be, and how each is kept honest."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

import structlog
from aiohttp import web

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.visibility.refusals import too_many_requests

MAX_STREAMS, MAX_STREAMS_OF_A_USER = 400, 64
"""A gang of 64 pods can be followed by one user; a dashboard cannot take all there is."""
SILENCE_SECONDS = 10.0
"""How long a worker may say nothing in a stream before it is asked whether it is there."""
PING_SECONDS = 5.0

log = structlog.get_logger(component="visibility")


class Streams:
    """Counts what is being answered."""

    def __init__(self) -> None:
        self._by_user: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """How many are being answered now."""
        return self._by_user.total()

    @contextmanager
    def count(self, user: str) -> Iterator[None]:
        """Count an answer while the block runs.

        Raises:
            Refusal: 429, there are too many.
        """
        if self.under_way >= MAX_STREAMS or self._by_user[user] >= MAX_STREAMS_OF_A_USER:
            raise too_many_requests()
        self._by_user[user] += 1
        try:
            yield
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]


async def send_guarded(
    http: web.Request,
    client: KubeClient,
    pieces: AsyncGenerator[bytes, None],
    content_type: str,
    worker: str,
) -> web.StreamResponse:
    """Send pieces as they come, no faster than they are read.

    A failure before the first piece is raised; afterwards the connection is cut, for a clean end
    would say that there is nothing more. A worker that is silent is asked whether it is still
    there: a network that drops packets ends no stream.

    Raises:
        KubeError: there was no first piece.
    """
    async with aclosing(pieces):
        await anext(pieces)
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = content_type
        response.enable_chunked_encoding()
        await response.prepare(http)
        try:
            while (piece := await _next_piece(pieces, client)) is not None:
                await response.write(piece)
            await response.write_eof()
        except KubeError as error:
            log.info("stream cut", worker=worker, error=str(error))
            if http.transport is not None:
                http.transport.abort()
        except ConnectionError:
            pass  # the reader has left
    return response


async def _next_piece(pieces: AsyncGenerator[bytes, None], client: KubeClient) -> bytes | None:
    """Return what comes next; None at the end."""
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=SILENCE_SECONDS)
            if done:
                return coming.result()
            await client.request("GET", "/version", timeout=PING_SECONDS)
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})
