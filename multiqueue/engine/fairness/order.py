"""The order of a cycle with fair sharing: a tournament for every place (E-64, E-65).

At each cohort the winners of its child cohorts and the heads of its queues compete; the one whose
subtree would have the smallest share wins, and competes one cohort higher. Whoever takes a head
decides on it before taking the next, so each place is given at the usage of the moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from multiqueue.engine.cache.drs import (
    NO_USAGE,
    Share,
    is_borrowing_any_of,
    passed_up,
    share_of,
)
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import FairSharing, TurnRules
from multiqueue.engine.queues.entry import Rank, TimeRank
from multiqueue.engine.world import Head
from multiqueue.lib.amount import Amount

Standing: TypeAlias = tuple[bool, bool, Share, Rank | TimeRank]
"""(yields to preemptors, borrows what it asks for, share, rank): the smallest
wins; no two are equal."""
_RULES = TurnRules()


class _Contender(NamedTuple):
    """A head that competes at one cohort; ``child`` is the queue or cohort that sent it.

    Heaps order contenders by standing. A child has one serial at a time; contenders with an older
    one are out.
    """

    standing: Standing
    serial: int
    child: QuotaNode
    head: Head


class FairOrder:
    """Yields the heads of one tree, one by one.

    Cost: `pop` looks at the path of the head before, which alone can have changed: a share does not
    depend on those of its siblings. At each cohort there it costs the logarithm of the siblings.

    Args:
        heads: of one tree; of two in the same queue only the later one competes.
        sharing: which rules of fair sharing are in force.
        rules: what counts beside the shares.
    """

    __slots__ = (
        "_alone",
        "_arenas",
        "_behind",
        "_changed",
        "_heads",
        "_rules",
        "_serial",
        "_serials",
        "_sharing",
    )

    def __init__(
        self, heads: Iterable[Head], sharing: FairSharing, rules: TurnRules = _RULES
    ) -> None:
        competing = {head.queue.name: head for head in heads}.values()
        self._sharing = sharing
        self._rules = rules
        self._heads = {head.entry: head for head in competing}
        self._alone: list[Head] = []
        self._arenas: dict[QuotaNode, list[_Contender]] = {}
        self._serials: dict[QuotaNode, int] = {}
        self._serial = 0
        self._changed: dict[QuotaNode | None, dict[QuotaNode, None]] = {}
        self._behind = Counter(
            victim for head in competing for victim in head.entry.displaced if victim in self._heads
        )
        for head in competing:
            if head.entry not in self._behind:
                self._enter(head)

    def __iter__(self) -> Iterator[Head]:
        while (head := self.pop()) is not None:
            yield head

    def pop(self) -> Head | None:
        """Take the next head at the current usage; None after the last.

        A head that had to leave for another one competes only after that; see `engine.head_order`.
        """
        head = self._alone.pop() if self._alone else self._final()
        if head is None:
            return None
        self._serials.pop(head.queue.node, None)
        self._touch(head.queue.node)
        for victim in head.entry.displaced & self._behind.keys():
            self._behind[victim] -= 1
            if not self._behind[victim]:
                self._enter(self._heads[victim])
        return head

    def _enter(self, head: Head) -> None:
        node = head.queue.node
        if node.parent is None:
            self._alone.append(head)
            return
        self._send(node.parent, node, head)
        self._touch(node)

    def _touch(self, queue: QuotaNode) -> None:
        """Let every cohort above a queue choose its winner again."""
        cohort = queue.parent
        while cohort is not None:
            self._changed.setdefault(cohort.parent, {})[cohort] = None
            cohort = cohort.parent

    def _final(self) -> Head | None:
        """Return the winner of the tree."""
        for root in self._changed.get(None, ()):
            return self._winner(root)
        return None

    def _winner(self, cohort: QuotaNode) -> Head | None:
        for child in self._changed.pop(cohort, ()):
            self._serials.pop(child, None)
            sent = self._winner(child)
            if sent is not None:
                self._send(cohort, child, sent)
        arena = self._arenas.get(cohort)
        while arena and self._serials.get(arena[0].child) != arena[0].serial:
            heappop(arena)
        return arena[0].head if arena else None

    def _send(self, cohort: QuotaNode, child: QuotaNode, head: Head) -> None:
        self._serial += 1
        self._serials[child] = self._serial
        contender = _Contender(self._standing(head, child), self._serial, child, head)
        heappush(self._arenas.setdefault(cohort, []), contender)

    def _standing(self, head: Head, child: QuotaNode) -> Standing:
        """Judge a subtree as if the head were admitted."""
        node, requested = head.queue.node, _requested(head)
        while node is not child:
            assert node.parent is not None, "a head comes from below the child that sends it"
            node, requested = node.parent, passed_up(node, requested)
        borrows = self._sharing.prioritize_non_borrowing and is_borrowing_any_of(node, requested)
        rules = self._rules
        yields = rules.preemptors_first and not head.is_preemptor
        rank = head.rank(by_priority=rules.by_priority)
        return (yields, borrows, share_of(node, requested), rank)


def _requested(head: Head) -> Mapping[int, Amount]:
    """Return what a head would use, by slot of its queue; what fits nowhere uses nothing."""
    if not isinstance(head.verdict, Nominated) or head.verdict.assignment.mode is Mode.NO_FIT:
        return NO_USAGE
    return {slot: amount for slot, amount in head.verdict.assignment.usage.items() if amount > 0}
