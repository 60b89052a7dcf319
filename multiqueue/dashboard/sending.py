"""Sends answers within a time: a reader who does not read must not keep them in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from multiqueue.serving.request import HttpRequest

SEND_SECONDS = 60.0
"""How long a reader may take to read an answer, or a part of a stream."""
PART_BYTES = 256 * 1024


@asynccontextmanager
async def sending(request: HttpRequest, seconds: float) -> AsyncGenerator[None]:
    """Bound the time of what is sent in the block.

    Raises:
        ConnectionError: The reader has left, or has not read it in time and is disconnected.
    """
    try:
        async with asyncio.timeout(seconds) as scope:
            yield
    except TimeoutError as error:
        if not scope.expired():
            raise
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the reader does not read") from error


async def send_whole(
    request: HttpRequest, answer: web.StreamResponse, seconds: float
) -> web.StreamResponse:
    """Send an answer to its end, and return what was sent.

    A large one is written in parts: over TLS, asyncio never waits for what is written first.
    """
    body = answer.body if isinstance(answer, web.Response) else None
    if not isinstance(body, bytes) or len(body) <= PART_BYTES:
        with suppress(ConnectionError):
            async with sending(request, seconds):
                await answer.prepare(request)
                await answer.write_eof()
        return answer
    sent = web.StreamResponse(status=answer.status, headers=answer.headers)
    sent.content_length = len(body)
    if answer.keep_alive is False:
        sent.force_close()
    with suppress(ConnectionError):
        async with sending(request, seconds):
            await sent.prepare(request)
            for first in range(0, len(body), PART_BYTES):
                await sent.write(body[first : first + PART_BYTES])
            await sent.write_eof()
    return sent
