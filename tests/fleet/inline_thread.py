"""Where dispatchers run in the simulation: at once, as threads end at another moment each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from multiqueue.kube.call_thread import PluginError

T = TypeVar("T")


class InlineThread:
    """Takes the place of `PluginThread`."""

    def __init__(self, name: str) -> None:
        del name

    @property
    def is_alive(self) -> bool:
        return False

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function; the future has what it returned or raised."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - a plugin's, as in the thread
            future.set_exception(PluginError(f"{type(error).__name__}: {error}"))
        return future

    def abandon(self) -> None:
        """Nothing runs."""
