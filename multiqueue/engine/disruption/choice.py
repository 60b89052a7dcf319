"""Whom to stop first among candidates of the same priority. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.queues.entry import Entry
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import Preference
from multiqueue.model.resources import is_accelerator

MOST_ENDS = 64
"""Candidates that are looked at after the first one that makes enough room."""

SCALE = 2**128
"""Costs by amount are compared as whole numbers, exactly if amounts are below the root of this."""

RankKey: TypeAlias = tuple[Any, ...]


class Scarcity(NamedTuple):
    """What the candidates are measured by, and how much of it the request lacks.

    Shape: ``scarce`` are the contested accelerators, or, without any, all that is contested.
    """

    scarce: frozenset[FlavorResource]
    missing: Amount


def find_scarcity(request: PreemptionRequest) -> Scarcity:
    """Return what the candidates for a request are measured by."""
    needed, node, missing = request.needed(), request.queue.node, 0
    scarce = frozenset(pair for pair in needed if is_accelerator(pair[1])) or needed
    for pair in scarce:
        slot = node.slot_by_flavor_resource[pair]
        missing += max(0, request.usage[slot] - max(0, node.available(slot)))
    return Scarcity(scarce, missing)


def freed_by(entry: Entry, scarce: frozenset[FlavorResource]) -> Amount:
    """Return how much of what is scarce a holder would leave."""
    freed = 0
    for pair, amount in entry.usage.items():
        if pair in scarce:
            freed += amount
    return freed


def rank_key(prefer: Preference, freed: Amount, *, missing: Amount, cost: int, ran: int) -> RankKey:
    """Return where a candidate stands among those of its priority; the smallest is first.

    Args:
        prefer: of the preemptor's policy.
        freed: what the candidate would leave of what is scarce.
        missing: what the request lacks of it.
        cost: of stopping the candidate.
        ran: the seconds that it ran in all its stays.
    """
    if prefer is Preference.LEAST_LOST_WORK:
        return (0, cost * SCALE // freed) if freed > 0 else (1, cost)
    if prefer is Preference.LEAST_RUN:
        return (ran,)
    if prefer is Preference.FEWEST_VICTIMS:
        return (-freed,)
    if prefer is Preference.SMALLEST_THAT_FITS:
        return (0, freed) if freed >= missing else (1, -freed)
    return ()


class Ends:
    """Candidates each of which makes enough room together with the victims taken before it.

    The cheapest such set is used. It costs at most twice the least possible, which is the bound of
    the greedy heuristic for covers.
    """

    __slots__ = ("_best", "_looked", "_peers")

    def __init__(self) -> None:
        self._best: tuple[int, int, int, tuple[Target, ...]] | None = None
        self._peers: object = None
        self._looked = 0

    def note(self, targets: Sequence[Target], cost: int, peers: object) -> None:
        """Note a set of victims that makes enough room.

        Args:
            targets: the victims, of which the last is the end.
            cost: of all of them.
            peers: a value that the end has in common with the candidates that may replace it.
        """
        self._peers = peers
        found = (cost, len(targets), self._looked, tuple(targets))
        if self._best is None or found[:3] < self._best[:3]:
            self._best = found

    def is_over(self, peers: object) -> bool:
        """Whether the search ends before this candidate."""
        if self._best is None:
            return False
        self._looked += 1
        return peers != self._peers or self._looked > MOST_ENDS

    @property
    def cheapest(self) -> tuple[Target, ...]:
        """The cheapest set of victims; empty if there is none."""
        return () if self._best is None else self._best[3]
