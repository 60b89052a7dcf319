"""The one place that writes Workloads.

Called by the job framework, the controllers and dispatch. Guarantees: only fields that we own are
written. A status write carries the resourceVersion of the state it was decided on (E-192). The
answer of every write is in the informer before the call returns, so that nobody decides on a
state older than their own write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from multiqueue.api.names import RESOURCE_IN_USE, split_key
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.jobs.workload_wire import build_status_patch
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Conflict
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import WORKLOADS

StatusChange = Callable[[Workload], WorkloadStatus]
"""Gets the newest state and returns the status it should have; the same status for no change."""

CONFLICT_ATTEMPTS = 4
"""How often `update_status` decides again before it raises the conflict to the caller."""


def decode_workload(data: bytes) -> Workload:
    """Decode the API server's answer to a write."""
    return decode(Workload, data)


class WorkloadWriter:
    """Writes Workloads of one cluster and feeds the answers to its informer."""

    def __init__(self, client: KubeClient, informer: Informer[Workload]) -> None:
        self._client = client
        self._informer = informer
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, workload: Mapping[str, Any]) -> Workload:
        """Create a Workload in its own namespace; finalizer, owner and labels in the same write.

        Raises:
            AlreadyExists: another Workload has that name.
        """
        return self._observed(
            await self._client.create(
                WORKLOADS,
                workload,
                namespace=workload["metadata"]["namespace"],
                decode=decode_workload,
            )
        )

    async def update_status(self, key: str, change: StatusChange) -> Workload:
        """Change the status of a Workload, decided on its newest state, one writer at a time.

        ``change`` is called with the informer's state, and again with a fresh read if somebody else
        wrote meanwhile. Its exceptions are passed on, and then nothing is written.

        Raises:
            NotFound: the Workload is gone.
            Conflict: somebody else kept writing.
        """
        lock = self._locks.get(key)
        if lock is None:
            self._locks[key] = lock = asyncio.Lock()
        async with lock:
            base = self._informer.store.get(key) or await self.read(key)
            for _ in range(CONFLICT_ATTEMPTS - 1):
                try:
                    return await self.patch_status(base, change(base))
                except Conflict:
                    base = await self.read(key)
            return await self.patch_status(base, change(base))

    async def read(self, key: str) -> Workload:
        """Read a Workload from the API server instead of the informer.

        Raises:
            NotFound: the Workload does not exist.
        """
        namespace, name = split_key(key)
        return self._observed(
            await self._client.get(WORKLOADS, name, namespace=namespace, decode=decode_workload)
        )

    async def patch_status(self, base: Workload, status: WorkloadStatus) -> Workload:
        """Write the differences to ``base.status``; return ``base`` if there are none.

        Raises:
            Conflict: ``base`` is not the newest; the caller decides again on fresh state.
            NotFound: the Workload is gone.
        """
        patch = build_status_patch(base.status, status)
        if not patch:
            return base
        return await self._patch(base, {"status": patch}, subresource="status")

    async def patch_spec(self, base: Workload, patch: Mapping[str, Any]) -> Workload:
        """Merge-patch spec or metadata (``{"spec": {...}}``), decided on ``base``.

        Raises:
            Conflict: ``base`` is not the newest.
            NotFound: the Workload is gone.
        """
        return await self._patch(base, patch, subresource=None)

    async def remove_finalizer(self, base: Workload, finalizer: str = RESOURCE_IN_USE) -> Workload:
        """Remove a finalizer; a Workload that is being deleted is then gone.

        Raises:
            Conflict: ``base`` is not the newest.
            NotFound: the Workload is gone.
        """
        left = [name for name in base.metadata.finalizers if name != finalizer]
        if len(left) == len(base.metadata.finalizers):
            return base
        return await self._patch(base, {"metadata": {"finalizers": left or None}}, subresource=None)

    async def delete(self, base: Workload) -> None:
        """Delete this very Workload; its finalizer keeps it until that is removed.

        Raises:
            NotFound: the Workload is gone.
        """
        await self._client.delete(
            WORKLOADS,
            base.metadata.name,
            namespace=base.metadata.namespace,
            propagation="Background",
            uid=base.metadata.uid or None,
        )

    async def _patch(
        self, base: Workload, patch: Mapping[str, Any], *, subresource: str | None
    ) -> Workload:
        body = dict(patch)
        body["metadata"] = {
            **(patch.get("metadata") or {}),
            "resourceVersion": base.metadata.resource_version,
        }
        return self._observed(
            await self._client.patch(
                WORKLOADS,
                base.metadata.name,
                body,
                namespace=base.metadata.namespace,
                subresource=subresource,
                decode=decode_workload,
            )
        )

    def _observed(self, workload: Workload) -> Workload:
        self._informer.observe(workload)
        return workload
