"""What DisruptionPolicies change about one search for victims.

Candidates that are protected are left out as if no preemption policy allowed them; the others are
ordered by `prefer`; each one that is taken is set against the budgets.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.api.disruptions import StopCause
from multiqueue.engine.disruption.budget import Spending
from multiqueue.engine.disruption.choice import (
    Ends,
    RankKey,
    Scarcity,
    find_scarcity,
    freed_by,
    rank_key,
)
from multiqueue.engine.disruption.cost import Loss, started_at
from multiqueue.engine.disruption.governance import UNGOVERNED, Governed
from multiqueue.engine.disruption.held_back import Refusals, first_of
from multiqueue.engine.disruption.losses import Losses
from multiqueue.engine.disruption.non_preemptible import NonPreemptibles
from multiqueue.engine.disruption.protection import HoldOff, find_protection
from multiqueue.engine.preemption.candidates import Eligible, QuotaHolder, summed_up
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.disruption_policy import DisruptionRules, Preference

MINUTE = 60


class Narrowed(NamedTuple):
    """The candidates of one queue that may be stopped now.

    Shape: ``source`` are all that preemption policies allow; ``offs`` has each of them, with why it
    may not be stopped, or None; ``first_end`` is the first end of that. ``ordered`` has the
    candidates in each order that was asked for.
    """

    source: Eligible
    eligible: Eligible
    offs: Mapping[str, HoldOff | None]
    first_end: int | None
    ordered: dict[Hashable, Eligible]


class SearchMoment(NamedTuple):
    """What searches of one moment share.

    Shape: ``narrowed`` keeps what was found for a queue: heads of one second ask the same.
    """

    now: int
    losses: Losses
    refusals: Refusals
    narrowed: dict[Hashable, Narrowed]
    non_preemptibles: NonPreemptibles


MOST_NARROWED = 4096
"""Lists that are kept for a moment; a list for one head only is not asked for again."""
MOST_ORDERS = 16
"""Orders of such a list that are kept: ``SmallestThatFits`` has one for each size."""


def cause_of(reason: Reason) -> StopCause:
    """Return the cause that budgets and protection know a preemption by."""
    if reason is Reason.IN_CLUSTER_QUEUE:
        return StopCause.QUEUE
    if reason is Reason.IN_COHORT_FAIR_SHARING:
        return StopCause.FAIR_SHARE
    return StopCause.RECLAIM


class SearchRules:
    """The rules for one search. Mutable: it counts what the search has taken.

    Args:
        request: what asks for room.
        governed: what governs each queue of the tree.
        moment: shared with other searches.
        spending: what the search takes from the budgets.
        prefer: whom to take first; the preemptor's policy, or another one in a second search.

    Shape: ``others`` is the cause for which holders of other queues would leave.
    """

    __slots__ = (
        "__dict__",
        "_governed",
        "_moment",
        "_prefer",
        "_request",
        "_spending",
        "others",
        "own",
    )

    def __init__(
        self,
        request: PreemptionRequest,
        governed: Mapping[str, Governed],
        moment: SearchMoment,
        spending: Spending,
        prefer: Preference,
    ) -> None:
        self.own: DisruptionRules = governed[request.queue.name].rules
        self.others = StopCause.RECLAIM
        self._request = request
        self._governed = governed
        self._moment = moment
        self._spending = spending
        self._prefer = prefer
        if prefer is Preference.LEAST_LOST_WORK:  # the order is another one in the next minute
            moment.refusals.expire_at((moment.now // MINUTE + 1) * MINUTE)

    @cached_property
    def _scarcity(self) -> Scarcity:
        return find_scarcity(self._request)

    @property
    def seeks_ends(self) -> bool:
        """Whether the cheapest of several sets of victims is looked for."""
        return self._prefer is Preference.LEAST_LOST_WORK

    def begin(self) -> None:
        """Begin another attempt, which has taken nobody yet."""
        self._spending.begin()

    def narrow(self, eligible: Eligible, cluster_queue: str) -> Eligible:
        """Return the candidates of a queue that may be stopped now, in the order of `prefer`."""
        governed = self._governed.get(cluster_queue, UNGOVERNED)
        key = (  # hashes of enums would take longer than the rest
            id(eligible),
            cluster_queue == self._request.queue.name,
            self.others is StopCause.RECLAIM,
            self.own.protection.concede,
            self._is_exempt(governed),
        )
        known = self._moment.narrowed
        found = known.get(key)
        if found is None:
            if len(known) >= MOST_NARROWED:
                known.clear()
            found = known[key] = self._narrow(eligible, governed)
        self._moment.refusals.consider(found.offs, found.first_end)
        if self._prefer is Preference.DEFAULT or not found.eligible.candidates:
            return found.eligible
        return self._order(found, governed)

    def _narrow(self, eligible: Eligible, governed: Governed) -> Narrowed:
        offs = {
            holder.entry.key: self._protection(holder.entry, governed)
            for holder in eligible.candidates
        }
        kept = [each for each in eligible.candidates if offs[each.entry.key] is None]
        if len(kept) == len(eligible.candidates):
            return Narrowed(eligible, eligible, offs, None, {})
        first_end = first_of(off.until for off in offs.values() if off is not None)
        left = summed_up(kept, frozenset(eligible.totals))
        return Narrowed(eligible, left, offs, first_end, {})

    def _order(self, found: Narrowed, governed: Governed) -> Eligible:
        is_sized = self._prefer is Preference.SMALLEST_THAT_FITS
        key = (id(self._prefer), self._scarcity.missing if is_sized else 0)
        ordered = found.ordered.get(key)
        if ordered is None:
            if len(found.ordered) >= MOST_ORDERS:
                found.ordered.clear()
            kept = sorted(self._placed(each, governed) for each in found.eligible.candidates)
            ordered = summed_up(kept, frozenset(found.eligible.totals))
            found.ordered[key] = ordered
        return ordered

    def takes(self, entry: Entry) -> bool:
        """Take a candidate if the budgets allow it."""
        if entry.is_leaving:
            return True
        cause, cost = self._cause(entry), self.loss(entry).cost
        namespace = entry.workload.namespace
        if not self._is_exempt(self._governed.get(entry.charged, UNGOVERNED)):
            refusal = self._spending.refuse(entry.charged, namespace, cause, cost)
            if refusal is not None:
                self._moment.refusals.consider({entry.key: refusal}, refusal.until)
                return False
        if self._spending.take(entry.charged, namespace, cause, cost):
            self._moment.refusals.expire_at(self._moment.now + 1)  # others may use up the budget
        return True

    def give_back(self, entry: Entry) -> None:
        """Take a candidate no more."""
        if not entry.is_leaving:
            cause, cost = self._cause(entry), self.loss(entry).cost
            self._spending.take(entry.charged, entry.workload.namespace, cause, cost, sign=-1)

    def begin_ends(self) -> Ends | None:
        """Return where the ends of a search are noted; None if the first one is used."""
        return Ends() if self.seeks_ends else None

    def cost_of(self, targets: list[Target]) -> int:
        """Return what stopping these costs; who leaves anyway is free."""
        return sum(self.loss(t.entry).cost for t in targets if not t.entry.is_leaving)

    def find_excess(self, targets: list[Target]) -> HoldOff | None:
        """Return why so many may not leave for one workload; None if they may."""
        most, dearest = self.own.max_preempted_workloads, self.own.max_device_seconds
        number = sum(not target.entry.is_leaving for target in targets)
        named = f'DisruptionPolicy "{self.own.name}"'
        if most and number > most:
            words = f"it would stop {number} workloads, maxPreemptedWorkloads of {named} is {most}"
            return HoldOff(None, "maxPreemptedWorkloads", words)
        cost = self.cost_of(targets)
        if dearest and cost > dearest:
            words = (
                f"it would cost {cost:,} device-seconds, maxDeviceSeconds of {named} is {dearest:,}"
            )
            # A checkpoint may make it cheaper, and nothing tells of one.
            return HoldOff(self._moment.now + MINUTE, "maxDeviceSeconds", words)
        return None

    def loss(self, entry: Entry) -> Loss:
        """Return what a candidate would lose."""
        rules = self._governed.get(entry.charged, UNGOVERNED).rules
        return self._moment.losses.of(entry, rules.cost)

    def _cause(self, entry: Entry) -> StopCause:
        return StopCause.QUEUE if entry.charged == self._request.queue.name else self.others

    def _is_exempt(self, governed: Governed) -> bool:
        return governed.rules.exempts(self._request.workload.priority)

    def _protection(self, entry: Entry, governed: Governed) -> HoldOff | None:
        rules = governed.rules
        if entry.is_leaving:
            return None
        if rules.problem:
            words = f'DisruptionPolicy "{rules.name}" {rules.problem}'
            return HoldOff(None, "policy", words)
        if (off := self._moment.non_preemptibles.find_hold_off(entry)) is not None:
            return off
        protection = rules.protection
        if not (protection.min_run or protection.max_preemptions) or self._is_exempt(governed):
            return None
        off = find_protection(
            started_at(entry),
            entry.workload.stops,
            self._cause(entry),
            protection,
            concede=self.own.protection.concede,
            now=self._moment.now,
        )
        if off is None:
            return None
        return off._replace(words=f'DisruptionPolicy "{rules.name}": {off.words}')

    def _placed(self, holder: QuotaHolder, governed: Governed) -> QuotaHolder:
        """Return a candidate with its place in the order of `prefer`."""
        entry = holder.entry
        _, priority, *rest = holder.order
        return QuotaHolder(
            (not entry.is_leaving, priority, *self._key(entry, governed), *rest), entry
        )

    def _key(self, entry: Entry, governed: Governed) -> RankKey:
        started = started_at(entry)
        stay = 0 if started is None else self._moment.now - started
        is_by_cost = self._prefer is Preference.LEAST_LOST_WORK
        return rank_key(
            self._prefer,
            freed_by(entry, self._scarcity.scarce),
            missing=self._scarcity.missing,
            cost=self._moment.losses.of(entry, governed.rules.cost).rank if is_by_cost else 0,
            ran=entry.workload.ran_before + stay,
        )
