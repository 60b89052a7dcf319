"""Reads kubeconfig files, each in its own thread: a hanging mount delays no other file.

The threads that the event loop shares are not used: a few such files would occupy all of them.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from multiqueue.api.conditions import ClusterReason
from multiqueue.kube.call_thread import PluginThread
from multiqueue.workers.kubeconfigs.credentials import PATH_PREFIX, KubeconfigRefusal, read_file

BUDGET = timedelta(seconds=3)
"""How long reading may take; an available file is read in less than a millisecond."""


class KubeconfigFiles:
    """The kubeconfig files of a manager.

    Args:
        prefix: The only folder in which they may be.
        budget: How long reading one may take.
    """

    def __init__(self, prefix: Path = PATH_PREFIX, *, budget: timedelta = BUDGET) -> None:
        self._prefix = prefix
        self._budget = budget
        self._reads: dict[str, asyncio.Future[bytes | KubeconfigRefusal]] = {}

    async def read(self, location: str) -> bytes | KubeconfigRefusal:
        """Read a file; while an earlier read of it hangs, no other is begun."""
        read = self._reads.get(location) or self._begin(location)
        await asyncio.wait({read}, timeout=self._budget.total_seconds())
        if read.done():
            return read.result()
        return KubeconfigRefusal(
            reason=ClusterReason.BAD_KUBE_CONFIG,
            message=f'kubeconfig file "{location}" could not be read within '
            f"{self._budget.total_seconds():g} s",
        )

    def _begin(self, location: str) -> asyncio.Future[bytes | KubeconfigRefusal]:
        thread = PluginThread(f"kubeconfig {location}")
        read = thread.call(lambda: read_file(location, self._prefix))
        thread.abandon()  # it ends after this one call
        self._reads[location] = read
        read.add_done_callback(lambda _: self._reads.pop(location, None))
        return read
