"""Room that is kept for one waiting Workload of a cohort tree: EASY backfilling with late claims.

A Workload that waits for others to end, for longer than its DisruptionPolicy says, gets a claim.
Its start is when enough holders of quota have ended, by the run times that they declare. From then
on another Workload starts only if that does not make the start later. Who ranks before it is not
held up, nor is who stays within the quota of another ClusterQueue, unless the policy of that one
says so.

Deviates: from P-69 to P-78. Ranks are those of the time of submission, not of turns (P-67): who
waited long enough for a claim is passed by nobody more for taking less. There is one claim for each
tree, because the room of one flavor may depend on the loans of another. Only declared run times
(maximumExecutionTimeSeconds) count; a start that depends on other holders is unknown, and nothing
is kept for it. A claim is about quota, so flavors with a topology have none.

Units: times are whole seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.cost import started_at
from multiqueue.engine.disruption.held_back import format_seconds_since_epoch
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.queues.entry import Entry, QueuePlace, rank_of
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import ClaimRule
from multiqueue.model.workload import Workload

LOOK_AGAIN = 60
"""Seconds after which a Workload that would hold up a claim is tried again at the latest."""
_GRACE = 60
"""Seconds that a holder which was told to leave is expected to take."""

Usage = Mapping[FlavorResource, Amount]


class Claim(NamedTuple):
    """What is kept for whom: its flavors are those that it was refused on.

    Shape: ``is_own`` says that it keeps room from other owners of quota, too: nothing is borrowed,
    and others leave for it already.
    """

    entry: Entry
    cluster_queue: str
    usage: Usage
    rule: ClaimRule
    is_own: bool = False


class Claims:
    """The claim of each tree, by its key. Mutable; owned by the engine."""

    def __init__(self, holders: Mapping[str, Mapping[str, Entry]]) -> None:
        self._holders = holders
        self._claims: dict[str, Claim] = {}
        self._promised: dict[str, dict[Entry, Claim]] = {}

    def promise(self, tree: Tree, claim: Claim) -> None:
        """Keep room for a preemptor while those that were told to leave save their work (P-54)."""
        self._promised.setdefault(tree.key, {})[claim.entry] = claim

    def all_of(self, tree: Tree) -> list[Claim]:
        """Return all claims of a tree."""
        aged, promised = self.of(tree), self._promised.get(tree.key)
        found = [] if aged is None else [aged]
        if promised is None:
            return found
        kept = {entry: claim for entry, claim in promised.items() if is_waiting(claim, tree)}
        if kept:
            self._promised[tree.key] = kept
        else:
            del self._promised[tree.key]
        return [*kept.values(), *found]

    def of(self, tree: Tree) -> Claim | None:
        """Return the claim of a tree; None if nobody waits with one."""
        claim = self._claims.get(tree.key)
        if claim is None or is_waiting(claim, tree):
            return claim
        del self._claims[tree.key]
        return None

    def make(self, tree: Tree, claim: Claim, now: int) -> int | None:
        """Make or renew a claim; return its start, None if this one has none.

        A claim goes to the first in the order of the queue whose start is known and near enough.
        """
        holder = self.of(tree)
        if holder is not None and _is_before(holder.entry, claim.entry):
            return None
        start = self.find_start(tree, claim, now)
        if start is not None and now < start <= now + claim.rule.horizon:
            self._claims[tree.key] = claim
            return start
        if holder is not None and holder.entry is claim.entry:
            del self._claims[tree.key]
        return None

    def list_ending(self, tree: Tree, now: int) -> dict[str, Entry]:
        """Return the holders of quota in a tree whose end is known, by key."""
        holders = self._list_holders(tree)
        return {each.key: each for each in holders if holder_end(each, now) is not None}

    def end(self, tree: Tree, entry: Entry) -> bool:
        """End the claims of a Workload; return whether it had one."""
        claim, promised = self._claims.get(tree.key), self._promised.get(tree.key)
        was_promised = promised is not None and promised.pop(entry, None) is not None
        if claim is None or claim.entry is not entry:
            return was_promised
        del self._claims[tree.key]
        return True

    def find_start(self, tree: Tree, claim: Claim, now: int) -> int | None:
        """Return when a claim can start if nobody else does; None if that is not known (P-72)."""
        return find_start(tree, claim, self._list_holders(tree), now)

    def would_delay(self, tree: Tree, claim: Claim, other: ClaimPasser, now: int) -> int | None:
        """Return the start that another Workload would make later; None if it may start (P-74)."""
        if claim.entry is other.entry or _is_before(other.entry, claim.entry):
            return None
        holders = list(self._list_holders(tree))
        start = find_start(tree, claim, holders, now)
        if start is None or start > now + claim.rule.horizon:
            return None
        end = find_end(other.entry.workload, now, now)
        if end is not None and end <= start:
            return None
        victims = {victim.key for victim in other.victims}
        gone = [h for h in holders if h.key in victims or _ends_by(h, start, now)]
        with without(tree, gone), _with_usage(tree, other):
            return None if has_room(tree, claim) else start

    def _list_holders(self, tree: Tree) -> Iterable[Entry]:
        for name in tree.queues:
            yield from self._holders.get(name, {}).values()


class ClaimPasser(NamedTuple):
    """Who could start now, with what, and who would leave for it."""

    entry: Entry
    cluster_queue: str
    usage: Usage
    victims: tuple[Entry, ...] = ()


@contextmanager
def _with_usage(tree: Tree, candidate: ClaimPasser) -> Iterator[None]:
    """Count the usage of a candidate inside the block."""
    node = tree.queues[candidate.cluster_queue].node
    amounts = [(node.slot(pair), amount) for pair, amount in candidate.usage.items()]
    for slot, amount in amounts:
        node.add_usage(slot, amount)
    try:
        yield
    finally:
        for slot, amount in amounts:
            node.remove_usage(slot, amount)


def _is_before(one: Entry, other: Entry) -> bool:
    return rank_of(one.workload) < rank_of(other.workload)


def is_waiting(claim: Claim, tree: Tree) -> bool:
    """Whether the Workload of a claim still waits in the queue that it had then."""
    entry, queue = claim.entry, tree.queues.get(claim.cluster_queue)
    if queue is None or not queue.is_active or entry.queue != claim.cluster_queue:
        return False
    return entry.place in {QueuePlace.QUEUED, QueuePlace.PARKED}


def find_start(tree: Tree, claim: Claim, holders: Iterable[Entry], now: int) -> int | None:
    """Let holders end one after another, the soonest first, until there is room (P-72)."""
    ends = sorted(
        (end, holder.key, holder)
        for holder in holders
        if (end := holder_end(holder, now)) is not None
    )
    if has_room(tree, claim):
        return now
    low, high = 0, len(ends)
    with without(tree, (holder for _, _, holder in ends)):
        if not has_room(tree, claim):
            return None
    while low < high:  # more room is never less
        middle = (low + high) // 2
        with without(tree, (holder for _, _, holder in ends[: middle + 1])):
            if has_room(tree, claim):
                high = middle
            else:
                low = middle + 1
    return ends[low][0]


def has_room(tree: Tree, claim: Claim) -> bool:
    """Whether the quota that a claim needs is free at the present usage, own and borrowed."""
    node = tree.queues[claim.cluster_queue].node
    return all(
        amount <= max(0, node.available(node.slot(pair))) for pair, amount in claim.usage.items()
    )


def holder_end(holder: Entry, now: int) -> int | None:
    """Return when a holder of quota ends at the latest; None if it does not say (P-73)."""
    if holder.is_leaving:
        return (now if holder.notice is None else max(now, holder.notice.by)) + _GRACE
    started = started_at(holder)
    return find_end(holder.workload, now if started is None else started, now)


def find_end(workload: Workload, started: int, now: int) -> int | None:
    """Return when a Workload that started then ends by its declared run time; None without one.

    Who is overdue is expected to take as long again, and a minute at most.
    """
    if not workload.run_limit:
        return None
    end = started + workload.run_limit - workload.ran_before
    overdue = now - end
    return end if overdue < 0 else now + min(_GRACE, overdue + 1)


def _ends_by(holder: Entry, moment: int, now: int) -> bool:
    end = holder_end(holder, now)
    return end is not None and end <= moment


def describe_claim(start: int) -> str:
    """Say what is kept, and from when on."""
    return f"room is kept for this Workload, which starts by {format_seconds_since_epoch(start)}"


def describe_delay(workload: Workload, start: int) -> str:
    """Say why a Workload may not pass a claim."""
    promised = format_seconds_since_epoch(start)
    why = (
        f"it may run for {workload.run_limit - workload.ran_before}s"
        if workload.run_limit
        else "it declares no maximumExecutionTimeSeconds"
    )
    return f"Workload fits, but it would delay one that is promised to start by {promised}: {why}"
