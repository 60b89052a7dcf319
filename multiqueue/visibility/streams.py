"""Streamed answers, and the checks that notice when a stream has died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import structlog
from aiohttp import web

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.serving.request import HttpRequest

log = structlog.get_logger(component="visibility")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPatience:
    """When a stream counts as dead, in seconds."""

    silence: float = 10.0
    """How long a stream may be silent before the worker is checked."""
    ping: float = 5.0
    """How long the worker has to answer."""


async def send_guarded(
    http: HttpRequest,
    client: KubeClient,
    pieces: AsyncGenerator[bytes, None],
    content_type: str,
    worker: str,
    *,
    patience: StreamPatience,
) -> web.StreamResponse:
    """Send pieces as they come, no faster than the reader reads them.

    A failure before the first piece is raised. After it the connection is cut, because a clean end
    would mean that the stream is complete. A silent worker is asked whether it is still there,
    because a network that drops packets does not end a stream.

    Raises:
        KubeError: there was no first piece.
    """
    async with aclosing(pieces):
        await anext(pieces)
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = content_type
        await response.prepare(http)
        try:
            while (piece := await _next_piece(pieces, client, patience)) is not None:
                await response.write(piece)
            await response.write_eof()
        except KubeError as error:
            log.info("stream cut", worker=worker, error=str(error))
            if http.transport is not None:
                http.transport.abort()
        except ConnectionError:
            pass  # the reader has left
    return response


async def _next_piece(
    pieces: AsyncGenerator[bytes, None], client: KubeClient, patience: StreamPatience
) -> bytes | None:
    """Return the next piece; None at the end."""
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=patience.silence)
            if done:
                return coming.result()
            await client.request("GET", "/version", timeout=patience.ping)
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})
