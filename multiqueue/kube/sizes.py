"""Bounds on the data of a server that are held in memory.

A worker's API server belongs to somebody else. If it answers without end, it must not exhaust the
manager's memory, which all workers share. The limits are far above what real servers send: etcd
takes objects of 1.5 MiB, and a page of 500 Workloads has about 2 MB. A page that is too large is
requested again in smaller pages (`KubeClient.pages`).
"""

from __future__ import annotations

from multiqueue.kube.errors import AnswerTooLarge

MAX_ANSWER_BYTES = 16 << 20
"""Bytes of one answer: an object, or a page of a list."""
LARGE_BYTES = 1 << 20
"""Bytes above which only one answer is read at a time."""
MAX_OBJECT_BYTES = 8 << 20
"""Bytes of one event of a watch."""
MAX_ERROR_BYTES = 64 << 10
"""Bytes read of an error; a Status with many causes is far smaller."""
MAX_PARTS = 1_000_000
"""Values in one answer or event: as Python objects, a million take about 80 MB, and JSON may have
one in two bytes."""
PART_BYTES = 56
"""Approximate bytes that a value takes in memory beside its text."""
MAX_COLLECTION_BYTES = 256 << 20
"""Bytes of all objects of one kind on one worker, by `estimate_memory`: some 20,000 Jobs."""
MAX_SKIMMED_BYTES = 1 << 30
"""The same if little is kept of each object: some 80,000 Pods."""

Buffer = bytes | bytearray


def check_parts(data: Buffer, what: str) -> None:
    """Refuse JSON with too many values, which may be small as a text.

    Raises:
        AnswerTooLarge: there are too many values.
    """
    if len(data) > MAX_PARTS and _count_parts(data) > MAX_PARTS:
        raise AnswerTooLarge(f"{what}: the answer has more than {MAX_PARTS} values")


def estimate_memory(data: Buffer) -> int:
    """Return the approximate number of bytes that an object takes after decoding."""
    return len(data) + PART_BYTES * _count_parts(data)


class MemoryBudget:
    """The memory of all objects of one collection, summed up from their sizes.

    Args:
        limit: Bytes that the objects may take, as `estimate_memory` counts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}
        self._total = 0

    def charge(self, key: str, data: bytes, what: str) -> None:
        """Count an object at its present size.

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
        """Forget all objects, before all are counted anew."""
        self._sizes.clear()
        self._total = 0

    def release(self, key: str) -> None:
        """Stop counting an object."""
        self._total -= self._sizes.pop(key, 0)


def _count_parts(data: Buffer) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
