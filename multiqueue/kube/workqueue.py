"""A queue of keys to reconcile: each waits at most once and runs at most once at a time.

It has the semantics of Kubernetes' work queues. A key that is added again while it waits is one
entry. A key that is added again during its reconcile comes back afterwards. The size is bounded by
the number of different keys. Namespaces take turns, so that a flood of objects in one namespace
does not delay the others.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from multiqueue.kube.backoff import exponential

K = TypeVar("K", bound=Hashable)


class NamespaceTurns(asyncio.Queue[K]):
    """A queue that takes one key of each namespace in turn, and those of one namespace in order."""

    def _init(self, maxsize: int) -> None:
        self._queue: OrderedDict[str, deque[K]] = OrderedDict()

    def _put(self, item: K) -> None:
        self._queue.setdefault(_namespace_of(item), deque()).append(item)

    def _get(self) -> K:
        namespace, keys = next(iter(self._queue.items()))
        key = keys.popleft()
        if keys:
            self._queue.move_to_end(namespace)
        else:
            del self._queue[namespace]
        return key

    def qsize(self) -> int:
        """Return the number of keys."""
        return sum(len(keys) for keys in self._queue.values())


class WorkQueue(Generic[K]):
    """Queue of keys for one reconciler.

    Args:
        retry_base: Seconds that `add_rate_limited` waits after a key's first failure.
        retry_cap: Longest wait in seconds.
    """

    def __init__(self, *, retry_base: float = 0.005, retry_cap: float = 60.0) -> None:
        self._retry_base = retry_base
        self._retry_cap = retry_cap
        self._ready: asyncio.Queue[K] = NamespaceTurns()
        self._waiting: set[K] = set()
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due_at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Number of keys that could be reconciled now."""
        return len(self._waiting) + len(self._dirty)

    def add(self, key: K) -> None:
        """Queue a key to be reconciled as soon as possible."""
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key in so many seconds, or earlier if it is already due earlier."""
        if seconds <= 0:
            self.add(key)
            return
        due_at = asyncio.get_running_loop().time() + seconds
        if due_at >= self._due_at.get(key, float("inf")):
            return
        # The later entry of this key stays in the heap, and is skipped when it is due.
        self._due_at[key] = due_at
        heapq.heappush(self._heap, (due_at, next(self._sequence), key))
        if self._heap[0][0] == due_at:
            self._set_timer()

    def add_rate_limited(self, key: K) -> None:
        """Queue a key that failed, with a longer delay after each failure until `forget`."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        self.add_after(key, exponential(failures, base=self._retry_base, cap=self._retry_cap))

    def forget(self, key: K) -> None:
        """Forget the failures of a key after a success."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often a key has failed since its last success."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key whose reconcile can begin; pair it with `done`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._processing.add(key)
        return key

    def note_reconcile(self, key: K) -> None:
        """Drop a pending repetition of a key under reconcile, because its state is read now.

        Call it right before everything about the key is read, without awaiting in between. Most
        additions of a key during its reconcile come from the writes of that reconcile.
        """
        self._dirty.discard(key)

    def done(self, key: K) -> None:
        """End the reconcile of a key; it comes back at once if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._heap[0][0], self._deliver) if self._heap else None

    def _deliver(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due_at, _, key = heapq.heappop(self._heap)
            if self._due_at.get(key) == due_at:
                del self._due_at[key]
                self.add(key)
        self._set_timer()


def _namespace_of(key: Hashable) -> str:
    """Return the namespace of a key such as ``team/job-1``; empty for cluster-scoped objects."""
    return key.rpartition("/")[0] if isinstance(key, str) else getattr(key, "namespace", "")
