"""What managers do to their workers, and with each other."""

from __future__ import annotations

from multiqueue.api import names
from tests.fleet.checkers.checker import Checker, Report
from tests.fleet.checkers.words import gpus_on, has, is_ours, is_stamped, waits
from tests.fleet.history import Change
from tests.fleet.kinds import plural_of
from tests.fleet.objects import Json
from tests.fleet.played_kueue import quota_of
from tests.fleet.world import HUB, FleetWorld


class NothingForeignTouched(Checker):
    """I-3."""

    def on_change(self, change: Change) -> None:
        if change.cluster == HUB or not change.actor.startswith("manager-"):
            return
        for what, obj in (("was", change.old), ("becomes", change.new)):
            if obj is not None and not is_ours(obj) and not is_stamped(obj):
                self.report(f"{change}: it {what} none of ours")


class NobodyWaitsForTheStuck(Checker):
    """I-7, I-10: whoever has quota is offered to every healthy worker in no time."""

    PATIENCE = 15.0
    HEALTHY = 90.0
    MEMORY = 65.0
    """How long a manager believes what it met on a worker: `REFUSAL_FOR`, and a bit."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._since: dict[tuple[str, str], float] = {}

    def on_step(self) -> None:
        world, now = self.world, self.world.clock()
        pairs: dict[tuple[str, str], Json] = {}
        if world.leader is not None:
            for workload in filter(waits, world.hub.list_all("workloads")):
                key = f"team-a/{workload['metadata']['name']}"
                pairs.update({(key, name): workload for name in world.configured})
        for (key, name), workload in pairs.items():
            if self._refuses(name, key, workload):
                self._since[key, name] = now + self.MEMORY
            elif not self._is_healthy(name):
                self._since[key, name] = max(now, self._since.get((key, name), now))
        self._since = {pair: self._since.get(pair, now) for pair in pairs}
        for (key, name), since in self._since.items():
            if now - since > self.PATIENCE:
                self._judge(key, name, pairs[key, name])

    def is_fit(self, key: str, name: str, workload: Json) -> bool:
        """Whether nothing has spoken against a worker for a while, for all that is known."""
        since = self._since.get((key, name), 0.0)
        refuses = self._refuses(name, key, workload)
        return self._is_healthy(name) and not refuses and since <= self.world.clock()

    def _is_healthy(self, name: str) -> bool:
        truth = self.world.truth
        return truth.calm_for(name) >= self.HEALTHY and truth.is_connected(name)

    def _judge(self, key: str, name: str, workload: Json) -> None:
        nominated = workload["status"].get("nominatedClusterNames") or ()
        copies = [server.find("workloads", key) for server in self.world.workers.values()]
        if any(has(copy, "QuotaReserved") for copy in copies):
            return  # one is on its way: the others wait for it, or went for it
        if name in nominated:
            if self.world.workers[name].find("workloads", key) is None:
                self.report(f"{key} is nominated for {name} and has no copy there")
        elif self.world.plan.dispatcher == "all" and not nominated:
            self.report(f"{key} waits for a cluster while {name} is well")
        elif self.world.plan.dispatcher == "incremental" and not nominated:
            self.report(f"{key} is offered to nobody while {name} is well")

    def _refuses(self, name: str, key: str, workload: Json) -> bool:
        """Whether something on the worker or about it speaks against it."""
        server = self.world.workers[name]
        cluster = self.world.hub.find("multikueueclusters", name) or {"metadata": {}}
        if {names.CORDON, names.DRAIN} & (cluster["metadata"].get("annotations") or {}).keys():
            return True
        queue = server.find("clusterqueues", "cq")
        if queue is None or quota_of(queue) < gpus_on(self.world, workload, name):
            return True
        owners = workload["metadata"].get("ownerReferences") or ()
        for plural, found in (
            ("workloads", key),
            *((plural_of(owner["kind"]), f"team-a/{owner['name']}") for owner in owners),
        ):
            obj = server.find(plural, found)
            if obj is not None and not is_ours(obj):
                return True
        return False


class OneLeads(Checker):
    """Of two managers one works."""

    def on_change(self, change: Change) -> None:
        del change
        self.on_step()

    def on_step(self) -> None:
        leading = [
            manager.group
            for manager in self.world.managers
            if manager.is_leading and not manager.is_paused
        ]
        if len(leading) > 1:
            self.report(f"{', '.join(leading)} lead at once")
