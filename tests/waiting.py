"""Waiting in tests: for a condition on what informers know, after each change; never sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from multiqueue.kube.informer import Informer

T = TypeVar("T")

SECONDS = 60.0
"""Long enough for a loaded machine; a test that waits this long has failed."""


class Changes:
    """Wakes whoever waits for a condition at each change of some informers."""

    def __init__(self, *informers: Informer[Any]) -> None:
        self._waiters: set[asyncio.Event] = set()
        for informer in informers:
            informer.add_handler(self._on_change)

    async def until(
        self, condition: Callable[[], T | None], what: str = "", *, seconds: float = SECONDS
    ) -> T:
        """Return the condition's value once it has one that is true."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(seconds):
                while not (value := condition()):
                    changed.clear()
                    await changed.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"waited {seconds} s in vain for {what or condition}") from None
        finally:
            self._waiters.discard(changed)

    def _on_change(self, old: Any, new: Any) -> None:
        for waiter in self._waiters:
            waiter.set()
