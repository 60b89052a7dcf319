"""Waiting for an answer no longer than it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

PARTS = 10
"""The budget is waited for in so many parts, each of which counts once however late it ends."""


async def within(seconds: float, answer: Awaitable[T]) -> T:
    """Wait for an answer for so many seconds; one that does not come in time is cancelled.

    On a machine that is short of processors everything comes late, this program's own timers as
    well as what it waits for: such time is not held against who is to answer.

    Raises:
        TimeoutError: there was none in time.
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
