"""How much of what a server sends is held in memory.

A worker's API server belongs to somebody else, and one that answers without end must not take the
manager's memory, of which all workers live. The limits are far beyond what real servers send: etcd
takes objects of 1.5 MiB, and a page of 500 Workloads has about 2 MB. A page that is too large all
the same is asked for again in smaller pieces (`KubeClient.pages`).
"""

from __future__ import annotations

from multiqueue.kube.errors import AnswerTooLarge

MAX_ANSWER_BYTES = 16 << 20
"""Of one answer: an object, or a page of a list."""
LARGE_BYTES = 1 << 20
"""Of answers that are larger than this, one is read at a time."""
MAX_OBJECT_BYTES = 8 << 20
"""Of one event of a watch."""
MAX_ERROR_BYTES = 64 << 10
"""Read of an error; a Status with many causes is far smaller."""
MAX_PARTS = 1_000_000
"""Values in one answer or event: as Python objects, a million take about 80 MB, and JSON may have
one in two bytes."""
PART_BYTES = 56
"""What a value takes in memory beside its text, about."""
MAX_COLLECTION_BYTES = 256 << 20
"""Of all objects of one kind on one worker, as `estimate_memory` counts: some 20,000 Jobs."""
MAX_SKIMMED_BYTES = 1 << 30
"""The same where little is kept of each object: some 80,000 Pods."""

Buffer = bytes | bytearray


def check_parts(data: Buffer, what: str) -> None:
    """Refuse JSON that is small and has too many values.

    Raises:
        AnswerTooLarge: it has.
    """
    if len(data) > MAX_PARTS and _count_parts(data) > MAX_PARTS:
        raise AnswerTooLarge(f"{what}: the answer has more than {MAX_PARTS} values")


def estimate_memory(data: Buffer) -> int:
    """Return about how many bytes an object takes once it was read."""
    return len(data) + PART_BYTES * _count_parts(data)


class MemoryBudget:
    """What the objects of one collection take together, by the size of each.

    Args:
        limit: Bytes that they may take, as `estimate_memory` counts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}
        self._total = 0

    def charge(self, key: str, data: bytes, what: str) -> None:
        """Count an object in the state that it has now.

        Raises:
            AnswerTooLarge: there is no room for it.
        """
        size = estimate_memory(data)
        total = self._total - self._sizes.get(key, 0) + size
        if total > self._limit:
            raise AnswerTooLarge(
                f"{what}: all objects together take more than {self._limit >> 20} MiB of memory"
            )
        self._sizes[key], self._total = size, total

    def clear(self) -> None:
        """Count no object any longer: all are about to be counted anew."""
        self._sizes.clear()
        self._total = 0

    def release(self, key: str) -> None:
        """Count an object no longer."""
        self._total -= self._sizes.pop(key, 0)


def _count_parts(data: Buffer) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
