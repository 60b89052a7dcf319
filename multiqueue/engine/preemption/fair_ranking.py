"""From which queue the next victim comes with fair sharing (E-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.drs import Share, is_borrowing, share_of
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.preemption.candidates import Order, QuotaHolder
from multiqueue.engine.preemption.target import PreemptionRequest

Standing: TypeAlias = tuple[bool, float, bool, bool, Order]
"""(share, descending; first candidate is not evicted; is the preemptor's; its order)."""


class Ranking:
    """Iterates over queues with candidates, always the one to take from next.

    Goes down from the root to the child with the largest share of the moment; of a queue and a
    cohort with the same share, into the cohort. A queue may come many times in a row. What borrows
    nothing drops out for good, and so does what has no candidates left: between two queues, take
    candidates from the first or drop it. That changes where the first one stands, and the cohorts
    above it: a share does not depend on those of its siblings.

    Args:
        request: whose queue may be taken from without borrowing, with all above it.
        candidates: by queue, in the order of preemption.
    """

    __slots__ = ("_candidates", "_cohorts", "_dropped", "_own_path", "_queues", "_request", "_root")

    def __init__(
        self, request: PreemptionRequest, candidates: Mapping[str, Iterable[QuotaHolder]]
    ) -> None:
        self._request = request
        self._candidates = {name: deque(found) for name, found in candidates.items()}
        self._own_path = set(_upwards(request.queue.node))
        self._dropped: set[QuotaNode] = set()
        self._queues: dict[QuotaNode, list[tuple[Standing, CachedQueue]]] = {}
        self._cohorts: dict[QuotaNode, list[QuotaNode]] = {}
        self._root: QuotaNode | None = None
        for name in self._candidates:
            self._place(request.tree.queues[name])
        for queues in self._queues.values():
            heapify(queues)

    def _place(self, queue: CachedQueue) -> None:
        """Note the position of a queue: only queues with candidates are searched."""
        child, cohort = queue.node, queue.node.parent
        if cohort is not None:
            standing = self._standing(queue)
            queues = self._queues.setdefault(cohort, [])
            if standing is not None:
                queues.append((standing, queue))
            child, cohort = cohort, cohort.parent
        while cohort is not None and child not in self._cohorts.get(cohort, ()):
            self._cohorts.setdefault(cohort, []).append(child)
            child, cohort = cohort, cohort.parent
        if cohort is None:
            self._root = child

    def __iter__(self) -> Iterator[CachedQueue]:
        root, own = self._root, self._request.queue
        if own.node.parent is None:
            while self._candidates.get(own.name):
                yield own
            return
        while root is not None and root not in self._dropped:
            queue = self._select(root)
            if queue is not None:
                yield queue
                self._rank_again(queue)

    def take(self, queue: CachedQueue) -> QuotaHolder:
        """Take the first candidate that is left in a queue that has one."""
        return self._candidates[queue.name].popleft()

    def left(self, queue: CachedQueue) -> deque[QuotaHolder]:
        """Return the candidates that are left in a queue; clearing them drops it."""
        return self._candidates[queue.name]

    def drop(self, queue: CachedQueue) -> None:
        """Never come back to a queue."""
        self._candidates[queue.name].clear()

    def _select(self, cohort: QuotaNode) -> CachedQueue | None:
        """Find the next queue below a cohort; None if a queue or cohort dropped out."""
        queues, child = self._queues.get(cohort), self._largest_cohort(cohort)
        queue = queues[0][1] if queues else None
        if child is not None and (queue is None or child[0] >= share_of(queue.node)):
            return self._select(child[1])
        if queue is None:
            self._dropped.add(cohort)
        return queue

    def _rank_again(self, queue: CachedQueue) -> None:
        """Move the queue that came last, which is the first of its cohort."""
        assert queue.node.parent is not None, "only queues in cohorts are ranked"
        queues, standing = self._queues[queue.node.parent], self._standing(queue)
        if standing is None:
            heappop(queues)
        else:
            heapreplace(queues, (standing, queue))

    def _standing(self, queue: CachedQueue) -> Standing | None:
        """Of equal shares, the one whose first candidate is before the other's (E-90) is first.

        None if nothing may be taken from the queue.
        """
        is_own = queue is self._request.queue
        candidates = self._candidates[queue.name]
        if not candidates or not (is_own or is_borrowing(queue.node)):
            return None
        share, order = share_of(queue.node), candidates[0].order
        return (not share.is_endless, -share.value, order[0], is_own, order)

    def _largest_cohort(self, cohort: QuotaNode) -> tuple[Share, QuotaNode] | None:
        """Deviates: of equal shares, the first by name; upstream leaves that to chance."""
        largest: tuple[Share, QuotaNode] | None = None
        for child in sorted(self._cohorts.get(cohort, ()), key=lambda node: node.name):
            if child in self._dropped:
                continue
            if child not in self._own_path and not is_borrowing(child):
                self._dropped.add(child)
                continue
            share = share_of(child)
            if largest is None or share > largest[0]:
                largest = (share, child)
        return largest


def _upwards(node: QuotaNode) -> Iterator[QuotaNode]:
    while node.parent is not None:
        node = node.parent
        yield node
