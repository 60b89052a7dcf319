"""How much was stopped already, and whether one more stop is within the budgets.

The sums come from the records in the Workloads (`api.disruptions`), so a new leader knows what the
old one did. Beside them count the stops that are decided and not written yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from multiqueue.api.disruptions import LONGEST_WINDOW, Stop, StopCause
from multiqueue.engine.disruption.governance import Governance
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.model.disruption_policy import BudgetRule, BudgetScope, format_seconds
from multiqueue.model.workload import Workload

Account: TypeAlias = tuple[str, str, str]
"""(policy, budget, whose stops): what is added up together."""

_KEPT = int(LONGEST_WINDOW.total_seconds())


class Record(NamedTuple):
    """The stops of one Workload. ``queue`` is the key of its LocalQueue."""

    namespace: str
    queue: str
    stops: tuple[Stop, ...]


class Spent(NamedTuple):
    """What an account has spent; ``first_at`` is the time of the oldest stop, None without one."""

    stops: int
    cost: int
    first_at: int | None = None


NOTHING = Spent(0, 0)


class BookedStop(NamedTuple):
    """One stop as an account sees it."""

    at: int
    stops: int
    cost: int


class StopBook:
    """All stops of the last `LONGEST_WINDOW`, by Workload. Mutable; owned by the engine.

    A Workload that is deleted stays in the book until its stops count no more; only a new process
    forgets it.

    Args:
        governance: who is governed by which budgets.
        queue_of: the ClusterQueue of a LocalQueue, by its key.
        owner_of: the owner of a namespace.
        on_change: called if a stop was added, or is counted no more.
    """

    def __init__(
        self,
        governance: Governance,
        queue_of: Callable[[str], str],
        owner_of: Callable[[str], str],
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._governance = governance
        self._queue_of = queue_of
        self._owner_of = owner_of
        self._written: dict[str, Record] = {}
        self._told: dict[str, Record] = {}
        self._planned: dict[str, Record] = {}
        self._accounts: dict[Account, list[BookedStop]] | None = None

    def observe(self, workload: Workload, *, is_told: bool) -> None:
        """Take over the record of a Workload.

        Args:
            workload: as last seen.
            is_told: whether a stop of it is decided that is not visible yet.
        """
        uid = workload.uid
        known = self._written.get(uid)
        if not is_told and self._told.pop(uid, None) is not None:
            self.forget_sums()
        if workload.stops and (known is None or known.stops != workload.stops):
            self._planned.pop(workload.key, None)
            self._written[uid] = Record(workload.namespace, workload.queue, workload.stops)
            self.forget_sums()

    def tell(self, workload: Workload, stop: Stop) -> None:
        """Count a stop that is decided."""
        self._told[workload.uid] = Record(workload.namespace, workload.queue, (stop,))
        self.forget_sums()

    def is_told(self, uid: str) -> bool:
        """Whether a stop counts that is decided and not written yet."""
        return uid in self._told

    def take_back(self, uid: str) -> bool:
        """Count a stop no more: it was not written, or the Workload is gone.

        Returns whether it was counted.
        """
        if self._told.pop(uid, None) is None:
            return False
        self.forget_sums()
        return True

    def plan_move(self, workload: Workload, stop: Stop) -> None:
        """Count the stop of a move until the record of the Workload has it."""
        self._planned[workload.key] = Record(workload.namespace, workload.queue, (stop,))
        self.forget_sums()

    def drop_move(self, key: str) -> Record | None:
        """Count a move no more; return what was counted."""
        record = self._planned.pop(key, None)
        if record is not None:
            self.forget_sums()
        return record

    @contextmanager
    def without_move(self, key: str) -> Iterator[None]:
        """Do not count the move of a Workload meanwhile."""
        record = self.drop_move(key)
        try:
            yield
        finally:
            if record is not None:
                self._planned[key] = record
                self.forget_sums()

    def forget_sums(self) -> None:
        """Add up anew when asked: a stop, a queue or a policy changed."""
        self._accounts = None
        self._on_change()

    def spent(self, account: Account, window: int, now: int) -> Spent:
        """Return what an account has spent within a window that ends now."""
        if self._accounts is None:
            self._accounts = self._add_up(now)
        booked = self._accounts.get(account, [])
        recent = booked[bisect_right(booked, now - window, key=lambda each: each.at) :]
        if not recent:
            return NOTHING
        stops, cost = sum(each.stops for each in recent), sum(each.cost for each in recent)
        return Spent(stops, cost, recent[0].at)

    def _add_up(self, now: int) -> dict[Account, list[BookedStop]]:
        oldest = now - _KEPT
        for uid, record in list(self._written.items()):
            if all(int(stop.at.timestamp()) <= oldest for stop in record.stops):
                del self._written[uid]
        accounts: dict[Account, list[BookedStop]] = {}
        for record in (*self._written.values(), *self._told.values(), *self._planned.values()):
            cluster_queue = self._queue_of(record.queue)
            for rule in self._governance.of_queue(cluster_queue).budgets:
                account = account_of(rule, cluster_queue, record.namespace, self._owner_of)
                for stop in record.stops:
                    if stop.cause in rule.causes or stop.cause is StopCause.EARLIER:
                        booking = BookedStop(int(stop.at.timestamp()), stop.number, stop.cost)
                        accounts.setdefault(account, []).append(booking)
        for booked in accounts.values():
            booked.sort()
        return accounts


def account_of(
    rule: BudgetRule, cluster_queue: str, namespace: str, owner_of: Callable[[str], str]
) -> Account:
    """Return the account of a budget that a victim belongs to."""
    if rule.per is BudgetScope.CLUSTER_QUEUE:
        whose = cluster_queue
    elif rule.per is BudgetScope.NAMESPACE:
        whose = namespace
    elif rule.per is BudgetScope.OWNER:
        whose = owner_of(namespace)
    else:
        whose = ""
    return rule.policy, rule.name, whose


class Spending:
    """What one search for victims takes from the budgets, beside what they spent before.

    Args:
        book: the stops so far.
        governance: who is governed by which budgets.
        owner_of: the owner of a namespace.
        now: the time.
    """

    def __init__(
        self,
        book: StopBook,
        governance: Governance,
        owner_of: Callable[[str], str],
        now: int,
    ) -> None:
        self._book = book
        self._governance = governance
        self._owner_of = owner_of
        self._now = now
        self._taken: dict[Account, Spent] = {}

    def begin(self) -> None:
        """Begin anew, without anything taken."""
        self._taken.clear()

    def refuse(
        self, cluster_queue: str, namespace: str, cause: StopCause, cost: int
    ) -> HoldOff | None:
        """Return the budget that one more victim would exceed; None if there is none."""
        for rule, account in self._accounts(cluster_queue, namespace, cause):
            refusal = self._refuse(rule, account, cluster_queue, cost)
            if refusal is not None:
                return refusal
        return None

    def take(
        self, cluster_queue: str, namespace: str, cause: StopCause, cost: int, *, sign: int = 1
    ) -> bool:
        """Count a victim (1), or give back what it took (-1); return whether a budget counts it."""
        accounts = [account for _, account in self._accounts(cluster_queue, namespace, cause)]
        for account in accounts:
            taken = self._taken.get(account, NOTHING)
            self._taken[account] = Spent(taken.stops + sign, taken.cost + sign * cost)
        return bool(accounts)

    def _accounts(
        self, cluster_queue: str, namespace: str, cause: StopCause
    ) -> Iterator[tuple[BudgetRule, Account]]:
        for rule in self._governance.of_queue(cluster_queue).budgets:
            if cause in rule.causes:
                yield rule, account_of(rule, cluster_queue, namespace, self._owner_of)

    def _refuse(
        self, rule: BudgetRule, account: Account, cluster_queue: str, cost: int
    ) -> HoldOff | None:
        before = self._book.spent(account, rule.window, self._now)
        taken = self._taken.get(account, NOTHING)
        stops, spent = before.stops + taken.stops, before.cost + taken.cost
        limit = self._device_seconds(rule, cluster_queue)
        window = format_seconds(rule.window)
        if rule.max_workloads and stops >= rule.max_workloads:
            words = f"{stops:,} of {rule.max_workloads:,} stops in {window}"
        elif limit is not None and stops and spent + cost > limit:
            words = f"{spent:,} of {limit:,} device-seconds in {window}, this would take {cost:,}"
        else:
            return None
        until = None if before.first_at is None else before.first_at + rule.window
        whose = f' for {rule.per} "{account[2]}"' if account[2] else ""
        named = f'budget "{rule.name}" of DisruptionPolicy "{rule.policy}"{whose}'
        return HoldOff(until, "budget", f"{named} is used up: {words}")

    def _device_seconds(self, rule: BudgetRule, cluster_queue: str) -> int | None:
        """Return the smaller of both limits; None if there is none."""
        limits = []
        if rule.max_device_seconds:
            limits.append(rule.max_device_seconds)
        if rule.max_lost_percent:
            is_one = rule.per is BudgetScope.CLUSTER_QUEUE
            governance = self._governance
            devices = (
                governance.devices_of(cluster_queue)
                if is_one
                else governance.devices_under(rule.policy)
            )
            limits.append(devices * rule.window * rule.max_lost_percent // 100)
        return min(limits, default=None)
