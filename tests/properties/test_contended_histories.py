"""What holds where queues take from each other all the time, whoever arrives and ends."""

import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from tests.bench.contended_fleet import ContendedFleet

QUEUES = 8
SEEDS = st.integers(0, 2**32)
OPTIONS = st.sampled_from([EngineOptions(), EngineOptions(fair_sharing=FairSharing())])


@dataclass
class Chronicle(ContendedFleet):
    """A fleet that notes who is admitted where, and who leaves for whom, in order."""

    events: list[object] = field(default_factory=list)

    def run_cycles(self) -> list[CyclePlan]:
        plans = super().run_cycles()
        for plan in plans:
            self.note(plan)
        return plans

    def note(self, plan: CyclePlan) -> None:
        assert not plan.failures, plan.failures
        for decision in plan.decisions:
            if isinstance(decision, Admit):
                self.events.append((decision.workload, decision.admission))
            elif isinstance(decision, Preempt):
                new = tuple((v.workload, v.reason) for v in decision.victims if v.is_new)
                self.events += [(decision.workload, new)] * bool(new)


@dataclass
class Forgetful(Chronicle):
    """A fleet whose engine stops after each cycle, and forgets all that it found."""

    def run_cycles(self) -> list[CyclePlan]:
        plans: list[CyclePlan] = []
        while not plans or plans[-1].exhausted:
            self.forget()
            plans.append(self.engine.run_cycle(self.now))
            self.note(plans[-1])
        return plans

    def forget(self) -> None:
        for entry in self.engine.parts.entries.values():
            entry.memo = None
        for queue in self.engine.parts.cache.queues.values():
            queue.rooms_version = -1
            queue.node.ratio = None


def live(fleet: Chronicle, seed: int) -> None:
    fleet.random = random.Random(seed)
    fleet.submit(12 * QUEUES)
    fleet.drain()
    for _ in range(4):
        fleet.finish(fleet.random.randrange(3))
        fleet.submit(fleet.random.randrange(1, 2 * QUEUES))
        fleet.now = fleet.now.replace(second=fleet.now.second + 1)
        fleet.drain()


@given(SEEDS, OPTIONS)
@settings(max_examples=8, deadline=None)
def test_what_is_remembered_decides_as_what_is_found_anew(
    seed: int, options: EngineOptions
) -> None:
    remembers = Chronicle(QUEUES, options=options)
    forgets = Forgetful(QUEUES, options=replace(options, decision_budget=1))

    live(remembers, seed)
    live(forgets, seed)

    assert remembers.events == forgets.events


@given(SEEDS, OPTIONS)
@settings(max_examples=8, deadline=None)
def test_no_more_have_to_leave_than_arrive(seed: int, options: EngineOptions) -> None:
    fleet = Chronicle(QUEUES, options=options)

    live(fleet, seed)

    assert fleet.preempted <= fleet.made
