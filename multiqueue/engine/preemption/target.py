"""What a search for victims is asked, and what it answers (E-86, E-95)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.workload import Workload


class Target(NamedTuple):
    """A workload that has to leave, and by which rule.

    ``reason`` is one of the ``IN_C…`` ones, or FLAVOR_MIGRATION for a variant of the same job.
    """

    entry: Entry
    reason: Reason


class PreemptionRequest(Value, frozen=True, kw_only=True, gc=False):
    """What would fit if others left.

    Shape: ``usage`` is everything asked for, by slot of the queue's node; ``contested`` are the
    slots that need a preemption (E-86). ``is_placeable`` is asked at the usage of the moment, after
    quota fits, whether the pods find their topology domains too; None if no topology is asked.
    """

    tree: Tree
    queue: CachedQueue
    workload: Workload
    usage: Mapping[int, Amount]
    contested: frozenset[int]
    is_placeable: Callable[[], bool] | None = None

    def needed(self) -> frozenset[FlavorResource]:
        """Return what is contested by name, as other queues number their slots differently."""
        slots = self.queue.node.slot_by_flavor_resource
        return frozenset(pair for pair, slot in slots.items() if slot in self.contested)
