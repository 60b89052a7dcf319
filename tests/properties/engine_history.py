"""A random history of a small cluster, and what must hold after each event of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.engine.queues.entry import Place
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FungibilityPolicy,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    ResourceGroup,
    StopPolicy,
)
from multiqueue.model.workload import Workload
from tests.engine_world import (
    NAMESPACE,
    T0,
    World,
    condition,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    quota,
    seconds,
    with_changes,
)

QUEUES = ("a", "b", "c", "d")
COHORTS = ("", "left", "right", "root")


@dataclass
class History:
    """One run: a seed decides every event, so a failing one can be repeated."""

    seed: int
    strict: bool = True
    reclaim: tuple[PreemptionPolicy, ...] = tuple(PreemptionPolicy)
    world: World = field(init=False)
    known: dict[str, Workload] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    made: int = 0
    admitted: int = 0
    preempted: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        queues = [self.make_queue(name) for name in QUEUES]
        self.world = World(*queues, local_queues={name: name for name in QUEUES})
        self.world.engine.upsert_cohort(Cohort(name="left", parent="root"))
        self.world.engine.upsert_cohort(
            Cohort(name="right", parent="root", resource_groups=(self.groups(),))
        )

    # ------------------------------------------------------------ objects

    def maybe(self, value: int) -> int | None:
        return value if self.random.random() < 0.3 else None

    def groups(self) -> ResourceGroup:
        pick = self.random.randrange
        flavors = []
        for name in ("x", "y"):
            cpu = quota("cpu", pick(6), borrow=self.maybe(pick(4)), lend=self.maybe(pick(4)))
            flavors.append(flavor_quotas(name, cpu=cpu, gpu=pick(5)))
        return group(*flavors)

    def make_queue(self, name: str) -> ClusterQueue:
        choice = self.random.choice
        return make_queue(
            name,
            self.groups(),
            cohort=choice(COHORTS),
            strategy=choice(list(QueueingStrategy))
            if self.strict
            else QueueingStrategy.BEST_EFFORT_FIFO,
            fungibility=FlavorFungibility(
                when_can_borrow=choice(list(FungibilityPolicy)),
                when_can_preempt=choice(list(FungibilityPolicy)),
            ),
            preemption=Preemption(
                within_cluster_queue=choice(list(PreemptionPolicy)[:3]),
                reclaim_within_cohort=choice(self.reclaim),
                borrow_within_cohort=choice(list(PreemptionPolicy)[:2]),
            ),
            stop_policy=choice([StopPolicy.NONE] * 5 + [StopPolicy.HOLD]),
        )

    def make_workload(self) -> Workload:
        self.made += 1
        pick = self.random.randrange
        count = pick(1, 4)
        return make_workload(
            f"w{self.made:03}",
            queue=self.random.choice(QUEUES),
            at=T0 + seconds(pick(50)),
            priority=pick(3),
            pod_sets=[
                pod_set(f"ps{i}", count=count, min_count=self.maybe(1), cpu=pick(4), gpu=pick(3))
                for i in range(pick(1, 3))
            ],
        )

    # ------------------------------------------------------------ events

    def step(self) -> None:
        """Let one random thing happen, then run the engine."""
        events: list[Callable[[], None]] = [self.create] * 5 + [self.end] * 3
        events += [self.evict, self.change, self.requeue, self.fail_write, self.wait]
        events += [self.reconfigure, self.restructure, self.close_or_open]
        self.random.choice(events)()
        self.run()

    def run(self) -> CyclePlan:
        """Run the engine; one time in ten the writes that follow fail."""
        plan = self.world.cycle()
        self.act_on(plan, failing=self.random.random() < 0.1)
        return plan

    def act_on(self, plan: CyclePlan, *, failing: bool = False) -> None:
        """Write what was decided: who was admitted runs, who was preempted leaves."""
        for decision in plan.decisions:
            self.admitted += isinstance(decision, Admit)
            if isinstance(decision, Admit) and not failing:
                self.running.append(decision.workload)
            elif isinstance(decision, Admit):
                self.world.engine.forget(decision.workload, self.world.now)
        if not failing:
            self.world.write_back(plan)
        for decision in plan.decisions:
            for victim in decision.victims if isinstance(decision, Preempt) else ():
                self.preempted += victim.is_new
                if failing:
                    self.world.engine.preemption_failed(victim.workload, self.world.now)
                elif victim.is_new and victim.workload in self.running:
                    self.evict_running(victim.workload)

    def pick_key(self, keys: list[str]) -> str | None:
        return self.random.choice(sorted(keys)) if keys else None

    def create(self) -> None:
        workload = self.make_workload()
        self.known[workload.key] = workload
        self.world.submit(workload)

    def end(self) -> None:
        key = self.pick_key(self.running)
        if key is not None:
            self.running.remove(key)
            del self.known[key]
            if self.random.random() < 0.5:
                self.world.finish(key.partition("/")[2])
            else:
                self.world.delete(key.partition("/")[2])

    def evict(self) -> None:
        key = self.pick_key(self.running)
        if key is not None:
            self.evict_running(key)

    def evict_running(self, key: str) -> None:
        self.running.remove(key)
        evicted = condition("Evicted", status=True, reason="Preempted", at=self.world.now)
        self.known[key] = with_changes(self.known[key], evicted=evicted)
        self.world.submit(self.known[key])

    def change(self) -> None:
        key = self.pick_key([key for key in self.known if key not in self.running])
        if key is not None:
            old = self.known[key]
            self.known[key] = with_changes(
                old, priority=self.random.randrange(3), generation=old.generation + 1
            )
            self.world.submit(self.known[key])

    def requeue(self) -> None:
        key = self.pick_key([key for key in self.known if key not in self.running])
        if key is not None:
            later = self.world.now + seconds(self.random.randrange(5))
            self.known[key] = with_changes(self.known[key], requeue_at=later)
            self.world.submit(self.known[key])

    def fail_write(self) -> None:
        for key in list(self.known):
            self.world.engine.forget(key, self.world.now)  # only assumed ones would be touched

    def wait(self) -> None:
        self.world.now += seconds(self.random.random() * 3)

    def reconfigure(self) -> None:
        self.world.engine.upsert_cluster_queue(self.make_queue(self.random.choice(QUEUES)))

    def restructure(self) -> None:
        name = self.random.choice(COHORTS[1:])
        if self.random.random() < 0.3:
            self.world.engine.delete_cohort(name)
        else:
            parent = self.random.choice(COHORTS)
            self.world.engine.upsert_cohort(Cohort(name=name, parent=parent))

    def close_or_open(self) -> None:
        name = self.random.choice(QUEUES)
        policy = self.random.choice([StopPolicy.NONE, StopPolicy.NONE, StopPolicy.HOLD])
        self.world.engine.upsert_local_queue(
            LocalQueue(key=f"{NAMESPACE}/{name}", cluster_queue=name, stop_policy=policy)
        )

    # ------------------------------------------------------------ invariants

    def trees(self) -> list[Tree]:
        return list(self.world.engine._cache.trees.values())

    def assert_sums_hold(self) -> None:
        """Each cohort uses what its children do not have themselves (E-33)."""
        for tree in self.trees():
            nodes = [*tree.cohorts.values(), *(q.node for q in tree.queues.values())]
            for cohort in tree.cohorts.values():
                children = [node for node in nodes if node.parent is cohort]
                for slot in range(len(cohort.usage)):
                    want = sum(_borrowed(child, slot) for child in children)
                    assert cohort.usage[slot] == want
            for queue in tree.queues.values():
                holders = self.world.engine._ledger.holders.get(queue.name, {}).values()
                total: dict[tuple[str, str], int] = {}
                for entry in holders:
                    for pair, amount in entry.usage.items():
                        total[pair] = total.get(pair, 0) + amount
                assert queue.usage() == {pair: amount for pair, amount in total.items() if amount}
                assert queue.reserving == len(holders)

    def assert_nothing_is_lost(self) -> None:
        """Every unfinished workload is in exactly one place, and the places know it."""
        engine = self.world.engine
        entries = engine._intake.entries
        assert set(entries) == set(self.known)
        for key, entry in entries.items():
            waits_in = [name for name, p in engine._pending.items() if key in p.members]
            holds = [name for name, h in engine._ledger.holders.items() if key in h]
            if entry.place is Place.HOLDING:
                assert (waits_in, holds) == ([], [entry.charged])
            elif entry.place is Place.NOWHERE:
                assert (waits_in, holds) == ([], [])
            else:
                assert (waits_in, holds) == ([entry.queue], [])
            assert (entry.equals is not None) == (entry.place is Place.QUEUED)
            if entry.equals is not None:
                assert (entry in entry.equals.active) != (entry in entry.equals.parked)


def _borrowed(child: QuotaNode, slot: int) -> int:
    return sum(
        max(0, child.usage[own] - child.local_quota[own])
        for own, above in enumerate(child.up)
        if above == slot
    )
