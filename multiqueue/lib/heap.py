"""A priority queue with keys: push, replace, remove and pop in O(log n).

Removal is lazy: `heapq` keeps stale entries until they surface, and the heap is rebuilt when they
outnumber the live ones, so memory stays within twice the live size. Used by the pending queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")

_SPARE = 64
"""Number of stale entries below which the heap is not rebuilt."""


class KeyedHeap(Generic[K]):
    """Keys in the order of their rank; the smallest first.

    Ranks should be unique; keys of equal rank come in the order in which they were pushed.
    """

    __slots__ = ("_heap", "_pushed", "_rank_by_key")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, K]] = []
        self._pushed = 0  # breaks ties, so that entries of equal rank never compare keys
        self._rank_by_key: dict[K, Any] = {}

    def __len__(self) -> int:
        return len(self._rank_by_key)

    def __contains__(self, key: K) -> bool:
        return key in self._rank_by_key

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys in no particular order."""
        return iter(self._rank_by_key)

    @property
    def stale_count(self) -> int:
        """How many entries were removed or moved and are still in memory."""
        return len(self._heap) - len(self._rank_by_key)

    def push(self, key: K, rank: Any) -> None:
        """Insert the key, or move it to another rank."""
        if self._rank_by_key.get(key) == rank:
            return
        self._rank_by_key[key] = rank
        self._pushed += 1
        heapq.heappush(self._heap, (rank, self._pushed, key))
        if self.stale_count > len(self._rank_by_key) + _SPARE:
            self._rebuild()

    def remove(self, key: K) -> bool:
        """Remove the key; return whether it was present."""
        return self._rank_by_key.pop(key, None) is not None

    def rank(self, key: K) -> Any:
        """Return the rank of a key that is in the heap."""
        return self._rank_by_key[key]

    def peek(self) -> K | None:
        """Return the first key, or None if the heap is empty."""
        heap = self._heap
        while heap:
            rank, _, key = heap[0]
            if self._rank_by_key.get(key) is rank:
                return key
            heapq.heappop(heap)
        return None

    def pop(self) -> K | None:
        """Remove and return the first key, or None if the heap is empty."""
        key = self.peek()
        if key is not None:
            heapq.heappop(self._heap)
            del self._rank_by_key[key]
        return key

    def ordered(self) -> list[K]:
        """Return all keys in order. Cost: O(n log n), for reading only."""
        return sorted(self._rank_by_key, key=self._rank_by_key.__getitem__)

    def absorb(self, other: KeyedHeap[K]) -> None:
        """Take over all keys of another heap, which is empty afterwards.

        Cost: O(1) if this heap is empty, else per key of the smaller one.
        """
        if len(self._rank_by_key) < len(other._rank_by_key):
            self._heap, other._heap = other._heap, self._heap
            self._rank_by_key, other._rank_by_key = other._rank_by_key, self._rank_by_key
            self._pushed, other._pushed = other._pushed, self._pushed
        if other._rank_by_key:
            for key, rank in other._rank_by_key.items():
                self.push(key, rank)
            other.clear()

    def clear(self) -> None:
        """Forget every key."""
        self._heap = []
        self._rank_by_key = {}

    def _rebuild(self) -> None:
        ranks = self._rank_by_key.items()
        self._heap = [(rank, i, key) for i, (key, rank) in enumerate(ranks)]
        heapq.heapify(self._heap)
