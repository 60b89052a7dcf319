"""Wait for an answer, but no longer than its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

PARTS = 10
"""The budget is split into this many parts; each counts once, however late it ends."""


async def within(seconds: float, answer: Awaitable[T]) -> T:
    """Wait for an answer for at most the given seconds; cancel it if it does not come in time.

    On a machine without free processors everything is late, including this program's own timers.
    Such delays do not count against the answer.

    Raises:
        TimeoutError: There was no answer in time.
    """
    future = asyncio.ensure_future(answer)
    try:
        for _ in range(PARTS):
            if future.done():
                break
            await asyncio.wait({future}, timeout=seconds / PARTS)
        if not future.done():
            raise TimeoutError
        return future.result()
    finally:
        if future.cancel():
            await asyncio.wait({future})
