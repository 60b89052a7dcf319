"""I-9: whatever happens, one cluster at a time preempts for a Workload, each for its five minutes.

Workers are cut off and come back, requests get lost, the manager is killed between any two writes;
only what was opened on a copy that is gone is forgotten by the next manager.
At the end, when everything heals, every cluster that is blocked has had its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from multiqueue.dispatch.decide import plan as steps
from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.decide.view import GroupView, Opening
from tests.properties.multikueue_fleet import (
    CONFIG,
    FIRST_CHANCE,
    Fleet,
    PromiseBrokenError,
    Worker,
    make_fleet,
)

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
TIMEOUT = CONFIG.preemption_timeout


@dataclass
class GatedFleet(Fleet):
    """Copies are gated; workers obey."""

    started_at: datetime | None = None
    lossy: bool = False
    openings: dict[str, datetime] = field(default_factory=dict)

    def view(self) -> GroupView:
        return replace(super().view(), opening=self.memory.opening)

    def _state(self, worker: Worker, seen: set[str]) -> ClusterState:
        state = super()._state(worker, seen)
        if worker.up or worker.name in seen:
            return state
        return replace(state, first_chance_until=(self.started_at or self.now) + FIRST_CHANCE)

    def _apply(self, step: steps.Step) -> bool:
        if not isinstance(step, steps.OpenGate):
            return super()._apply(step)
        self.memory.opening = Opening(cluster=step.cluster, at=step.at)
        worker = self.workers[step.cluster]
        if not worker.up or self.lossy or worker.workload is None:
            return True
        self._note(step)
        worker.workload = replace(worker.workload, gate_opened_at=step.at, blocked_at=None)
        worker.seen_workload = worker.workload
        return True

    def _note(self, step: steps.OpenGate) -> None:
        others = [at for name, at in self.openings.items() if name != step.cluster]
        if any(step.at - at < TIMEOUT for at in others):
            raise PromiseBrokenError(f"I-9: {step} so soon after {self.openings}")
        self.openings[step.cluster] = step.at

    def _create_workload(self, worker: Worker) -> bool:
        done = super()._create_workload(worker)
        if worker.workload is not None and not worker.workload.is_gated:
            worker.workload = replace(worker.workload, is_gated=True)
            worker.seen_workload = worker.workload
        return done

    def restart(self) -> None:
        """What the copies do not tell is forgotten; a copy that is gone preempts no more."""
        gone = [name for name in self.openings if self.workers[name].workload is None]
        for name in gone:
            del self.openings[name]
        self.started_at = self.now
        super().restart()

    def reserve(self) -> None:
        if self.local is not None and not self.local.has_quota:
            self.openings.clear()
        super().reserve()

    def block(self, worker: Worker) -> None:
        """The worker finds that only a preemption would help, and that the gate is closed."""
        copy = worker.workload
        if copy is not None and copy.gate_opened_at is None and copy.admitted_at is None:
            worker.workload = replace(copy, blocked_at=copy.blocked_at or self.now)


class OneAtATime(RuleBasedStateMachine):
    fleet: GatedFleet

    @initialize(race=st.booleans())
    def begin(self, race):
        plain = make_fleet(NAMES, race=race)
        self.fleet = GatedFleet(
            workers=plain.workers, local=plain.local, race=race, reservations=1, memory=plain.memory
        )

    @rule(writes=st.none() | st.integers(0, 5), crash=st.booleans(), lossy=st.booleans())
    def manager_acts(self, writes, crash, lossy):
        self.fleet.lossy = lossy
        if not self.fleet.step(writes=writes) or crash:
            self.fleet.restart()

    @rule(name=names)
    def worker_is_blocked(self, name):
        self.fleet.step()
        self.fleet.block(self.fleet.workers[name])
        self.news_arrive(name)
        self.fleet.step()

    @rule(name=names)
    def news_arrive(self, name):
        if self.fleet.workers[name].up:
            self.fleet.workers[name].deliver()

    @rule(name=names)
    def network_breaks(self, name):
        self.fleet.cut(self.fleet.workers[name])

    @rule(name=names)
    def network_heals(self, name):
        self.fleet.heal(self.fleet.workers[name])

    @rule(seconds=st.sampled_from([1, 60, 299, 300, 1000]))
    def time_passes(self, seconds):
        self.fleet.now += timedelta(seconds=seconds)

    @rule()
    def it_is_evicted_and_queued_again(self):
        self.fleet.evict()
        self.fleet.step()
        self.fleet.core()
        self.fleet.step()
        self.fleet.reserve()

    def teardown(self):
        if not hasattr(self, "fleet"):
            return
        fleet = self.fleet
        fleet.race, fleet.lossy = True, False
        for worker in fleet.workers.values():
            fleet.heal(worker)
        for _ in range(12):
            fleet.now += TIMEOUT
            fleet.core()
            fleet.reserve()
            fleet.step()
            for worker in fleet.workers.values():
                fleet.block(worker)
                worker.deliver()
            fleet.step()
        opened = {n for n, w in fleet.workers.items() if w.workload and w.workload.gate_opened_at}
        assert opened == set(NAMES), f"stuck: {fleet.local} {opened}"


TestOneAtATime = OneAtATime.TestCase
TestOneAtATime.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
