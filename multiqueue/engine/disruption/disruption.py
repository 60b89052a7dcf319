"""DisruptionPolicies inside the engine: who may be stopped, at what cost, within which budgets.

Owned by the engine; searches for victims ask it. Without a policy that changes anything, every
question is answered by one look-up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.api.disruptions import Stop
from multiqueue.api.names import split_key
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.budget import Spending, StopBook
from multiqueue.engine.disruption.claims import Claims
from multiqueue.engine.disruption.cost import Loss
from multiqueue.engine.disruption.governance import Governance
from multiqueue.engine.disruption.held_back import Refusals
from multiqueue.engine.disruption.losses import Losses
from multiqueue.engine.disruption.moves import MoveWeight, weigh_move
from multiqueue.engine.disruption.non_preemptible import NonPreemptibles
from multiqueue.engine.disruption.notices import Notices
from multiqueue.engine.disruption.patience import Patience
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.engine.disruption.search_rules import (
    Narrowed,
    SearchMoment,
    SearchRules,
    cause_of,
)
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.queues.entry import Entry, FindRun, find_declared_run
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.model.disruption_policy import DisruptionRules, Preference
from multiqueue.model.owners import find_owner
from multiqueue.model.workload import Workload


class RecordedStop(NamedTuple):
    """A stop for the record of a victim, and what it loses."""

    stop: Stop
    loss: Loss

    def __str__(self) -> str:
        lost, cost = self.loss.true_loss, self.loss.cost
        counted = "" if cost == lost else f" ({cost:,} count)"
        return f"{lost:,} device-seconds have to be done again{counted}"


class Disruption:
    """The policies, the stops so far, and the time of the present cycle. Mutable.

    Args:
        cache: the quota trees.
        quota_usage: who holds quota.
    """

    def __init__(self, cache: Cache, quota_usage: QuotaUsage) -> None:
        self.governance = Governance(cache)
        self.refusals = Refusals()
        self.losses = Losses()
        self.now = 0
        self.claims = Claims(quota_usage.holders)
        self.patience = Patience()
        self.find_run: FindRun = find_declared_run
        self.non_preemptibles = NonPreemptibles(cache, quota_usage, self.governance)
        self.notices = Notices(quota_usage, self.governance, self.losses, self.non_preemptibles)
        self._narrowed: dict[Hashable, Narrowed] = {}

        def owner_of(namespace: str) -> str:
            return find_owner(namespace, cache.namespaces.get(namespace))

        self._owner_of = owner_of

        def queue_of(local_queue: str) -> str:
            record = quota_usage.local_queues.get(local_queue)
            return "" if record is None else record.cluster_queue

        self.book = StopBook(self.governance, queue_of, self._owner_of, self._narrowed.clear)

    def advance(self, now: datetime) -> None:
        """Take over the time, in whole seconds as the API keeps them."""
        seconds = int(now.timestamp())
        if seconds != self.now:
            self.now = seconds
            self.losses.advance(seconds)
            self._narrowed.clear()

    def set_policy(self, name: str, rules: DisruptionRules | None) -> bool:
        """Add, change or (None) remove a policy; return whether that changed anything."""
        self.book.forget_sums()
        self.non_preemptibles.forget()
        return self.governance.set_policy(name, rules)

    def forget_specs(self) -> None:
        """Find out anew who is governed by what."""
        self.governance.forget()
        self.book.forget_sums()
        self.non_preemptibles.forget()

    def order_queues(self, tree: Tree, pending: Mapping[str, PendingQueue]) -> None:
        """Order the queues of a tree by the turns that their policies say (P-67).

        Deviates: from P-67. The policy of each ClusterQueue counts, as it does for claims.
        """
        if tree in self.governance.ordered:
            return
        self.governance.ordered.add(tree)
        governed = self.governance.of_tree(tree)
        for name in tree.queues:
            passing = 0 if governed is None else governed[name].rules.waiting.passing
            queue = pending.get(name)
            if queue is not None and queue.passing != passing:
                queue.let_pass(passing, self.find_run)

    def observe(self, workload: Workload, entry: Entry | None) -> None:
        """Take over the record of a Workload, and its notice; None if it is finished."""
        is_told = entry is not None and (entry.preempted or entry.notice is not None)
        self.book.observe(workload, is_told=is_told)
        self.notices.follow(workload.key, entry)

    def attempts(self, request: PreemptionRequest) -> Iterator[SearchRules] | None:
        """Return the rules of each search that is made for a request; None without any rules.

        If the first search finds too many victims, a second one looks for as few as possible.
        """
        governed = self.governance.of_tree(request.tree)
        if governed is None:
            return None
        moment = SearchMoment(
            self.now, self.losses, self.refusals, self._narrowed, self.non_preemptibles
        )

        def search(prefer: Preference) -> SearchRules:
            spending = Spending(self.book, self.governance, self._owner_of, self.now)
            return SearchRules(request, governed, moment, spending, prefer)

        own = governed[request.queue.name].rules
        if own.problem:
            words = f'DisruptionPolicy "{own.name}" {own.problem}: this queue preempts nobody'
            self.refusals.refuse_plan(HoldOff(None, "policy", words))
            return iter(())
        limited = own.max_preempted_workloads or own.max_device_seconds
        orders = [own.prefer]
        if limited and own.prefer is not Preference.FEWEST_VICTIMS:
            orders.append(Preference.FEWEST_VICTIMS)
        return map(search, orders)

    def notice_end(self, target: Target, preemptor: Workload) -> int:
        """Return until when a victim may save its work first; 0 if it is stopped at once (P-49)."""
        entry, rules = target.entry, self.governance.of_queue(target.entry.charged).rules
        longest, saves = rules.cost.longest_notice, entry.workload.saves
        if not longest or saves is None or not entry.admitted or rules.exempts(preemptor.priority):
            return 0
        if target.reason is Reason.FLAVOR_MIGRATION:
            return 0
        seconds = saves.notice_length(longest)
        return self.now + seconds if seconds else 0

    def weigh_move(self, entry: Entry | None) -> MoveWeight | None:
        """Return what a move costs a holder; its own that is planned does not count against it."""
        if entry is None:
            return None
        spending = Spending(self.book, self.governance, self._owner_of, self.now)
        governed = self.governance.of_queue(entry.charged)
        loss = self.losses.of(entry, governed.rules.cost)
        kept = self.non_preemptibles.find_hold_off(entry)
        with self.book.without_move(entry.key):
            return weigh_move(entry, governed, loss, spending, self.now, kept=kept)

    def stop_of(self, target: Target, queue: str, preemptor: str = "") -> RecordedStop | None:
        """Return the stop to record for a victim; None if no policy governs its tree.

        Args:
            target: the victim.
            queue: the ClusterQueue of the preemptor.
            preemptor: the key of the preemptor; empty: not known.
        """
        entry = target.entry
        is_free = self.governance.of_tree_of(entry.charged) is None
        if is_free or target.reason is Reason.FLAVOR_MIGRATION:
            return None
        governed = self.governance.of_queue(entry.charged)
        loss = self.losses.of(entry, governed.rules.cost)
        if self.notices.is_gone(entry):  # the stop takes nothing from it any more
            loss = Loss(loss.devices, 0, 0, 0)
        at = datetime.fromtimestamp(self.now, UTC)
        namespace, _ = split_key(preemptor)
        stop = Stop(at, cause_of(target.reason), loss.cost, queue, namespace=namespace)
        return RecordedStop(stop, loss)
