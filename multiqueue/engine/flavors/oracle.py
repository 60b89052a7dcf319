"""What the flavor search asks about preemption (E-49), and the answer if nobody may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assignment import FlavorMode
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
