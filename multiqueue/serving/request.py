"""A request whose body has a deadline and a size limit; large bodies wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import Any

from aiohttp import web

BODY_SECONDS = 10.0
"""How long a body may take: as long as API servers wait for the answer of a webhook."""
SMALL_BYTES = 256 * 1024
"""Bodies up to this size are read at once; nearly all reviews and objects are smaller."""
MAX_LARGE = 8
"""How many larger bodies are read at once; this bounds memory. Small ones do not wait."""


class BodyTimeout(web.HTTPRequestTimeout):
    """The body did not arrive in time."""

    def __init__(self) -> None:
        super().__init__(text=f"the body did not arrive within {BODY_SECONDS:g} s\n")
        self.force_close()


class HttpRequest(web.BaseRequest):
    """The request that handlers of an `HttpServer` get.

    Args:
        large: Limits how many large bodies are read at once.
        reading: Returns a context that is entered while this request waits for its body.
    """

    def __init__(
        self,
        *args: Any,
        large: asyncio.Semaphore,
        reading: Callable[[HttpRequest], AbstractContextManager[None]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._large = large
        self._reading = reading

    async def read(self) -> bytes:
        """Return the whole body; may be called again.

        Raises:
            HTTPRequestEntityTooLarge: the body is larger than the server accepts.
            BodyTimeout: the body did not arrive in time.
        """
        if self._read_bytes is None:
            try:
                with self._reading(self):
                    async with asyncio.timeout(BODY_SECONDS):
                        self._read_bytes = await self._receive()
            except TimeoutError:
                raise BodyTimeout from None
        return self._read_bytes

    async def _receive(self) -> bytes:
        body, limit = bytearray(), self.client_max_size
        async with AsyncExitStack() as turn:
            if self._announces_much():
                await turn.enter_async_context(self._large)
            while chunk := await self.content.readany():
                is_first = len(body) <= SMALL_BYTES < len(body) + len(chunk)
                body += chunk
                if len(body) > limit:
                    raise web.HTTPRequestEntityTooLarge(limit, len(body))
                if is_first and not self._announces_much():
                    await turn.enter_async_context(self._large)
            return bytes(body)

    def _announces_much(self) -> bool:
        return (self.content_length or 0) > SMALL_BYTES
