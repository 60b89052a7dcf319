"""What the flavor search asks about preemption, one flavor-resource at a time (E-49)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assignment import FlavorMode
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.search import find_targets
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.lib.amount import Amount
from multiqueue.model.workload import Workload

Oracle: TypeAlias = Callable[[CachedQueue, Workload, int, Amount, int], tuple[FlavorMode, int]]
"""(queue, workload, slot, amount, borrow height now) -> (mode, borrow height after targets left).

Pure, and leaves the quota tree as it found it.
"""


def no_candidates(
    queue: CachedQueue,  # noqa: ARG001
    workload: Workload,  # noqa: ARG001
    slot: int,  # noqa: ARG001
    amount: Amount,  # noqa: ARG001
    borrowing: int,
) -> tuple[FlavorMode, int]:
    """Answer that nobody can be preempted; right for every queue whose policies are Never."""
    return FlavorMode.NO_CANDIDATES, borrowing


class PreemptionOracle:
    """Answers by a search for targets at the usage of the moment.

    Whoever looks for flavors after others were taken out of the tree makes one of his own, whose
    context excludes them (E-70).
    """

    __slots__ = ("_context", "_tree_by_queue")

    def __init__(self, tree_by_queue: Mapping[str, Tree], context: SearchContext) -> None:
        self._tree_by_queue = tree_by_queue
        self._context = context

    def __call__(
        self, queue: CachedQueue, workload: Workload, slot: int, amount: Amount, borrowing: int
    ) -> tuple[FlavorMode, int]:
        """Say what a preemption for this amount of one flavor-resource would be."""
        request = PreemptionRequest(
            tree=self._tree_by_queue[queue.name],
            queue=queue,
            workload=workload,
            usage={slot: amount},
            contested=frozenset((slot,)),
        )
        targets = find_targets(request, self._context)
        self._context.latest.note(request, targets)
        if not targets:
            return FlavorMode.NO_CANDIDATES, borrowing
        with without(request.tree, (target.entry for target in targets), request.needed()):
            borrowing = queue.node.borrow_height(slot, amount)[0]
        takes_own = any(target.entry.charged == queue.name for target in targets)
        return (FlavorMode.PREEMPT if takes_own else FlavorMode.RECLAIM), borrowing
