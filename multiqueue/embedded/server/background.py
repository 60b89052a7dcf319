"""Background work after commits: a queue without duplicates and one task."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

RETRY_SECONDS = 1.0
"""Delay after a failure, usually of a webhook: short for a person who waits, but no hot loop."""

K = TypeVar("K")
log = structlog.get_logger(__name__)


class Background(Generic[K]):
    """Calls ``work`` for every key that was added; level-triggered, so a key waits at most once."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        self.name = name
        self._work = work
        self._keys: dict[K, None] = {}
        self._wake = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()

    def add(self, key: K) -> None:
        """Queue a key for ``work``."""
        self._keys[key] = None
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._keys:
                    key = next(iter(self._keys))
                    del self._keys[key]
                    await self._work_on(key)
        finally:
            for timer in self._timers:
                timer.cancel()

    async def _work_on(self, key: K) -> None:
        try:
            await self._work(key)
        except Exception as error:  # noqa: BLE001 - one failing key must not stop the others
            log.warning(
                "background work failed, will retry",
                worker=self.name,
                key=str(key),
                error=str(error),
            )
            self._retry(key)

    def _retry(self, key: K) -> None:
        timer: asyncio.TimerHandle

        def again() -> None:
            self._timers.discard(timer)
            self.add(key)

        timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, again)
        self._timers.add(timer)
