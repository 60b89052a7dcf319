"""Which LocalQueues of a ClusterQueue count as one, because they have one owner (P-121)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.model.owners import find_owner


class OwnerShare(NamedTuple):
    """The LocalQueues of one owner before one ClusterQueue."""

    cluster_queue: str
    owner: str


class OwnerShares:
    """Mutable; owned by the `PastUsageRecords`.

    Args:
        cache: Which namespace has which labels.
        quota_usage: Which LocalQueue is before which ClusterQueue.
        by_owner: False: each LocalQueue counts for itself.
    """

    def __init__(self, cache: Cache, quota_usage: QuotaUsage, *, by_owner: bool) -> None:
        self._cache = cache
        self._quota_usage = quota_usage
        self._by_owner = by_owner
        self._share_by_queue: dict[str, OwnerShare] = {}
        self._members: dict[OwnerShare, set[str]] = {}

    def peers(self, local_queue: str) -> Collection[str]:
        """Return the LocalQueues that count as one with this one, itself among them."""
        share = self._share_by_queue.get(local_queue)
        return (local_queue,) if share is None else sorted(self._members[share])

    def follow(self, local_queue: str) -> list[str]:
        """Follow a change of a LocalQueue; return one LocalQueue of each share that changed."""
        before, share = self._share_by_queue.get(local_queue), self._find_share(local_queue)
        if share == before:
            return [local_queue]
        left: set[str] = set()
        if before is not None:
            left = self._members[before]
            left.discard(local_queue)
            del self._share_by_queue[local_queue]
            if not left:
                del self._members[before]
        if share is not None:
            self._share_by_queue[local_queue] = share
            self._members.setdefault(share, set()).add(local_queue)
        return [local_queue, *sorted(left)[:1]]

    def list_moved(self, namespace: str) -> list[str]:
        """Return the LocalQueues of a namespace that have another owner by now."""
        owner = self._find_owner(namespace)
        return sorted(
            queue
            for queue, share in self._share_by_queue.items()
            if share.owner != owner and queue.partition("/")[0] == namespace
        )

    def _find_share(self, local_queue: str) -> OwnerShare | None:
        known = self._quota_usage.local_queues.get(local_queue)
        if not self._by_owner or known is None or known.spec is None:
            return None
        return OwnerShare(known.cluster_queue, self._find_owner(local_queue.partition("/")[0]))

    def _find_owner(self, namespace: str) -> str:
        return find_owner(namespace, self._cache.namespaces.get(namespace))
