"""Who is asked, in which order, and who may preempt."""

from __future__ import annotations

from multiqueue.api import names
from tests.fleet.checkers.checker import SLACK, Checker, Report
from tests.fleet.checkers.fleet import NobodyWaitsForTheStuck
from tests.fleet.checkers.words import has, is_manager, is_ours, nominated_of
from tests.fleet.history import Change
from tests.fleet.objects import Json
from tests.fleet.world import HUB, HUB_SECONDS, FleetWorld

FOREVER = float("inf")


class CopiesAreNominated(Checker):
    """I-10: the nomination is recorded first, and an outside dispatcher's is nobody else's."""

    UNDER_WAY = 15.0
    """Requests that were sent before a nomination was taken back arrive in so many seconds."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._until: dict[tuple[str, str], float] = {}

    def on_change(self, change: Change) -> None:
        if change.plural != "workloads":
            return
        if change.cluster == HUB:
            self._look_at_nomination(change)
        elif change.verb == "create" and is_manager(change.actor):
            leading = (name for name, host in self.world.leads_to.items() if host == change.cluster)
            until = max(
                self._until.get((change.key, name), -FOREVER) for name in (change.cluster, *leading)
            )
            # A watch of the manager that hangs shows it an old nomination for longer.
            patience = self.UNDER_WAY if self.world.is_hub_heard else HUB_SECONDS
            if change.at - until > patience:
                self.report(f"{change}: it was not nominated for {change.cluster}")

    def _look_at_nomination(self, change: Change) -> None:
        before, after = nominated_of(change.old), nominated_of(change.new)
        for name in {*before, *after}:
            self._until[change.key, name] = FOREVER if name in after else change.at
        if before == after or self.world.plan.dispatcher != "external" or change.new is None:
            return
        latched = bool((change.new.get("status") or {}).get("clusterName"))
        if change.actor.startswith("manager-") and not latched and not has(change.new, "Evicted"):
            self.report(f"{change}: {before} became {after}, which is not its to say")


class RoundsAreOrderly(Checker):
    """I-10, for the incremental dispatcher: steps, their order, their time, and no way back."""

    def __init__(self, world: FleetWorld, report: Report, fitness: NobodyWaitsForTheStuck) -> None:
        super().__init__(world, report)
        self._fitness = fitness
        self._begun: dict[str, float] = {}

    def on_change(self, change: Change) -> None:
        if self.world.plan.dispatcher != "incremental":
            return
        if change.cluster != HUB or change.plural != "workloads":
            return
        before, after = nominated_of(change.old), nominated_of(change.new)
        if before != after and after and change.new is not None:
            self._judge(change, before, after, change.new)

    def _judge(
        self, change: Change, before: tuple[str, ...], after: tuple[str, ...], workload: Json
    ) -> None:
        key, plan = change.key, self.world.plan
        fit = {name for name in plan.workers if self._fitness.is_fit(key, name, workload)}
        for name in before:
            if name not in after and name in fit:
                self.report(f"{key} is not offered to {name} any more, which is well")
        added = [name for name in after if name not in before and not self._has_copy(key, name)]
        if not added:
            return
        if len(added) > plan.step:
            self.report(f"{key} is offered to {added} in one round, {plan.step} at a time")
        places = [plan.order.index(name) for name in added]
        if places != sorted(places):
            self.report(f"{key} is offered to {added}, out of order")
        for name in plan.order[: max(places)]:
            if name not in after and name in fit and name in self.world.configured:
                self.report(f"{key} is offered to {added} before {name}, which is well")
        since = change.at - self._begun.get(key, -FOREVER)
        if before and since < plan.round_seconds - self._slack and fit.intersection(before):
            self.report(f"{key} is offered to {added} {since:.1f} s after the last round began")
        self._begun[key] = change.at

    def _has_copy(self, key: str, name: str) -> bool:
        """Whether it is there still: who was lost for a moment comes back with its place."""
        return self.world.workers[name].find("workloads", key) is not None

    @property
    def _slack(self) -> float:
        return SLACK + sum(map(abs, self.world.plan.skews.values()))


class OneWorkerPreempts(Checker):
    """I-9: gates are opened one at a time, and who has none open preempts nobody."""

    TIMEOUT = 300.0

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self._opened: dict[str, tuple[str, str, float]] = {}

    def on_change(self, change: Change) -> None:
        if not self.world.plan.gated or change.cluster == HUB or change.plural != "workloads":
            return
        if change.new is None:
            return
        if is_ours(change.new) and is_open(change.new) and not is_open(change.old):
            self._note_opening(change, change.new)
        if has(change.new, "Preempted") and not has(change.old, "Preempted"):
            self._look_at_victim(change, change.new)

    def _note_opening(self, change: Change, copy: Json) -> None:
        epoch = (copy["metadata"].get("annotations") or {}).get(names.DISPATCH_EPOCH, "")
        last = self._opened.get(change.key)
        self.world.history.note("gate opened", lambda: f"{change.cluster}: {change.key}")
        if last is not None and last[1:2] == (epoch,) and last[0] != change.cluster:
            since = change.at - last[2]
            if since < self.TIMEOUT - SLACK - sum(map(abs, self.world.plan.skews.values())):
                self.report(
                    f"{change.key} may preempt on {change.cluster}, {since:.1f} s after {last[0]}"
                )
        self._opened[change.key] = (change.cluster, epoch, change.at)

    def _look_at_victim(self, change: Change, victim: Json) -> None:
        conditions = victim["status"]["conditions"]
        message = next(c for c in conditions if c["type"] == "Preempted").get("message", "")
        for copy in self.world.workers[change.cluster].list_all("workloads"):
            uid = copy["metadata"]["uid"]
            if f"UID: {uid}," in message and is_ours(copy) and is_gated(copy):
                self.world.history.note("preempted there", lambda: str(change))
                if not is_open(copy):
                    name = copy["metadata"]["name"]
                    self.report(f"{change}: for {name}, whose gate is closed")


def is_gated(copy: Json) -> bool:
    """Whether a copy has our gate."""
    gates = copy["spec"].get("preemptionGates") or ()
    return any(gate["name"] == names.MULTIKUEUE_GATE for gate in gates)


def is_open(copy: Json | None) -> bool:
    """Whether our gate of a copy is open."""
    gates = ((copy or {}).get("status") or {}).get("preemptionGates") or ()
    return any(g["name"] == names.MULTIKUEUE_GATE and g.get("position") == "Open" for g in gates)
