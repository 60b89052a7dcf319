"""Keeps the factors of ranges of estimates over restarts and changes of leader. Parity: S-107.

They are one more entry of the ConfigMap that says what the workers can do. The leader reads them
when it begins, and writes them at most once in `PAUSE_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import orjson
import structlog

from multiqueue.forecast.calibration import Calibration
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import CONFIG_MAPS
from multiqueue.workers.connections.capabilities import CONFIG_MAP
from multiqueue.workers.connections.capability_book import write_entries

KEY = "start_factors"
"""No worker can have this name: those of objects have no underscore."""
PAUSE_SECONDS = 600.0
RETRY_SECONDS = 10.0
"""Pause before the entry is read again."""

log = structlog.get_logger("multiqueue.scheduler")


class KeptFactors:
    """Reads the factors of earlier leaders, then writes those that change.

    Args:
        client: The manager's client.
        namespace: The manager's namespace.
        calibration: Computes the factors.
    """

    name = "start-factors"

    def __init__(self, client: KubeClient, namespace: str, calibration: Calibration) -> None:
        self._client = client
        self._namespace = namespace
        self._calibration = calibration
        self._changed = asyncio.Event()
        calibration.on_kept = self._changed.set

    async def run(self) -> None:
        """Read once, then write until cancelled; what could not be read is not overwritten."""
        await self._restore()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                text = orjson.dumps(self._calibration.kept_factors).decode()
                await write_entries(self._client, self._namespace, {KEY: text})
            except KubeError as error:
                log.warning("factors of estimates not written, retrying", error=str(error))
                self._changed.set()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _restore(self) -> None:
        """Use the entry once it is read; begin without it if it may not be read."""
        while True:
            try:
                return self._calibration.restore(await self._read())
            except Forbidden as error:
                log.warning("factors of estimates not read; they are found anew", error=str(error))
                return None
            except KubeError as error:
                log.warning("factors of estimates not read, retrying", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self) -> Mapping[str, object]:
        """Return the entry; empty if there is none, or somebody has made it unreadable."""
        with suppress(NotFound, orjson.JSONDecodeError):
            found = await self._client.get(CONFIG_MAPS, CONFIG_MAP, namespace=self._namespace)
            told = orjson.loads((found.get("data") or {}).get(KEY) or b"{}")
            if isinstance(told, dict):
                return told
        return {}
