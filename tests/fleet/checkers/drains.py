"""What becomes of workers that people take out of use."""

from __future__ import annotations

import re

from multiqueue.api.cluster_orders import Orders, read_orders
from multiqueue.api.names import CHECKPOINT_ON
from tests.fleet.checkers.checker import Checker, Report
from tests.fleet.checkers.words import find_job, gpus_on, has, is_manager, is_ours, new_retry
from tests.fleet.history import Change
from tests.fleet.kinds import JOB_PLURALS
from tests.fleet.objects import Json
from tests.fleet.played_kueue import quota_of
from tests.fleet.world import HUB, FleetWorld


class DrainsAreOrderly(Checker):
    """Nothing new goes where people said so; what leaves does so in the numbers that they said.

    What is not forced leaves only for a worker that could hold it.
    """

    UNDER_WAY = 15.0
    """What was on its way when the order was given, or taken back, arrives in so many seconds."""
    MEMORY = 30.0
    """How long room counts that was there, and may have been seen."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._orders: dict[str, Orders] = {}
        self._since: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._forced_at: dict[str, float] = {}
        self._leaving: dict[str, dict[str, str]] = {}
        self._quotas: dict[str, list[tuple[float, int]]] = {}

    def on_change(self, change: Change) -> None:
        if change.cluster == HUB:
            if change.plural == "multikueueclusters":
                self._look_at_order(change)
            elif change.plural == "workloads":
                self._look_at_move(change)
        elif change.plural == "clusterqueues":
            if change.new is not None and change.new.get("spec") != (change.old or {}).get("spec"):
                entry = (change.at, quota_of(change.new))
                self._quotas.setdefault(change.cluster, []).append(entry)
        elif change.verb == "create" and change.plural in {"workloads", *JOB_PLURALS}:
            self._look_at_arrival(change)

    def _look_at_order(self, change: Change) -> None:
        annotations = ((change.new or {}).get("metadata") or {}).get("annotations") or {}
        orders = read_orders(annotations)
        before = self._orders.get(change.key, Orders())
        self._orders[change.key] = orders
        if orders.cordoned != before.cordoned:
            self._since[change.key] = change.at
        for order in (before.drain, orders.drain):
            if order is not None:
                self._asked_at[change.key] = change.at
                if order.force:
                    self._forced_at[change.key] = change.at
        if has(change.new, "Drained") and not has(change.old, "Drained"):
            self._look_for_rest(change)

    def _look_for_rest(self, change: Change) -> None:
        """Who says that nothing is left has looked."""
        self.world.history.note("drained", change.key)
        for job in self.world.list_jobs(change.key):
            if is_ours(job) and self.world.truth.calm_for(change.key) > self.UNDER_WAY:
                self.report(f"{change.key} is drained, and has {job['metadata']['name']}")

    def _look_at_arrival(self, change: Change) -> None:
        name = change.cluster
        if not is_manager(change.actor) or not self._orders.get(name, Orders()).cordoned:
            return
        since = change.at - self._since[name]
        if min(since, self.world.truth.calm_for(name)) > self.UNDER_WAY:
            self.report(f"{change}: nothing new may go there for {since:.1f} s")

    def _look_at_move(self, change: Change) -> None:
        words = new_retry(change)
        match = re.match(r'Cluster "([^"]+)" is being drained(, by force)?', words)
        moves = re.match(r'It moves off cluster "([^"]+)" so that', words)
        if moves is not None and change.new is not None:
            self._look_at_migration(change, moves[1])
        if match is None or change.new is None:
            return
        name, forced = match[1], bool(match[2])
        self.world.history.note("moved", lambda: f"{change.key} from {name}")
        order = self._orders.get(name, Orders()).drain
        if order is None and change.at - self._asked_at.get(name, 0.0) > self.UNDER_WAY:
            self.report(f"{change.key} has to leave {name}, and nobody asked for that")
        allowed = order is not None and order.force
        since = change.at - self._forced_at.get(name, float("-inf"))
        if forced and not allowed and since > self.UNDER_WAY:
            self.report(f"{change.key} has to leave {name} by force, and nobody asked for that")
        if not forced and not self._could_hold(change.new, change.at, name):
            self.report(f"{change.key} has to leave {name}, and no other worker can hold it")
        self._count(name, change.key, order.pace.at_once if order is not None else None)

    def _look_at_migration(self, change: Change, name: str) -> None:
        """Who moves for a gang saves its work, and has a place elsewhere (P-95)."""
        assert change.new is not None
        self.world.history.note("migrated", lambda: f"{change.key} from {name}")
        if not self._could_hold(change.new, change.at, name):
            self.report(f"{change.key} has to leave {name}, and no other worker can hold it")
        if CHECKPOINT_ON not in (change.new["metadata"].get("annotations") or {}):
            self.report(f"{change.key} has to leave {name}, and does not save its work")

    def _could_hold(self, workload: Json, now: float, left: str) -> bool:
        for other in self.world.plan.workers:
            need = gpus_on(self.world, workload, other)
            quotas = self._quotas.get(other, [])
            for index, (_, quota) in enumerate(quotas):
                until = quotas[index + 1][0] if index + 1 < len(quotas) else now
                # A watch that was disturbed may replay what was there long ago.
                since = min(now - until, self.world.truth.calm_for(other))
                if other != left and quota >= need and since <= self.MEMORY:
                    return True
        return False

    def _count(self, name: str, key: str, most: int | None) -> None:
        """At most so many are on their way out: sent round, and still there."""
        known = self._leaving.get(name, {})
        there = {other: uid for other, uid in known.items() if self._job_of(name, other) == uid}
        if uid := self._job_of(name, key):
            there[key] = uid
        self._leaving[name] = there
        if most is not None and len(there) > most:
            self.report(f"{sorted(there)} leave {name} at a time, {most} may")

    def _job_of(self, name: str, key: str) -> str:
        """Return the uid of its job there; one that comes back has another."""
        job = find_job(self.world, name, key)
        return str(job["metadata"]["uid"]) if job is not None else ""
