"""A random history of a small cluster: events, the engine's decisions, and what a shell does.

What the engine decides is written or fails, at once or later, and comes back as events, mixed with
those of users and machines. A seed decides everything, so a failing history can be repeated.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import (
    Admit,
    CyclePlan,
    Evict,
    PlaceFailed,
    PlacePods,
    Preempt,
    Requeue,
    Skip,
)
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    ClusterQueue,
    Cohort,
    LocalQueue,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import PENDING, Node
from multiqueue.model.workload import Admission, Workload
from tests.builders.engine import (
    NAMESPACE,
    READY,
    T0,
    condition,
    make_workload,
    reserved,
    seconds,
    with_changes,
)
from tests.properties.engine_specs import ALWAYS, COHORTS, LOCAL_QUEUES, NODES, QUEUES, Draw, Spec

QUIET = 8
"""Rounds in a row with no more than refusals; who waits for places is looked at for ever."""


def feed(engine: Engine, specs: Iterable[Spec]) -> None:
    """Tell an engine of these objects."""
    upserts: dict[type, Callable[..., None]] = {
        ResourceFlavor: engine.upsert_resource_flavor,
        Topology: engine.upsert_topology,
        Node: engine.upsert_node,
        AdmissionCheckInfo: engine.upsert_admission_check,
        Cohort: engine.upsert_cohort,
        ClusterQueue: engine.upsert_cluster_queue,
        LocalQueue: engine.upsert_local_queue,
    }
    for spec in specs:
        upserts[type(spec)](spec)


class History:
    """One run.

    Shape: ``specs`` and ``known`` (by key, unfinished) are the objects of the API. ``landing`` are
    admissions decided and not written yet, ``telling`` victims that were not told yet.
    ``counts`` are decisions by type, ``preempted`` preemptions by preemptor and victim.
    """

    def __init__(
        self,
        seed: int,
        *,
        best_effort: bool = False,
        options: EngineOptions | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.elastic = seed % 3 == 0
        placed = self.random.random() < 0.4
        self.draw = Draw(random=self.random, placed=placed, best_effort=best_effort)
        self.options = options or self.draw.options()
        self.engine = Engine(self.options)
        self.now = T0
        self.specs: dict[tuple[type, str], Spec] = {}
        self.known: dict[str, Workload] = {}
        self.landing: dict[str, Admission] = {}
        self.telling: list[str] = []
        self.made = 0
        self.counts: Counter[str] = Counter()
        self.preempted: Counter[tuple[str, str]] = Counter()
        self.engine.upsert_namespace(NAMESPACE, {})
        for spec in self.draw.specs():
            self.put(spec)
        self.wait(60)
        self.engine.run_cycle(self.now)

    def put(self, spec: Spec) -> None:
        name = spec.key if isinstance(spec, LocalQueue) else spec.name
        self.specs[type(spec), name] = spec
        feed(self.engine, [spec])

    def submit(self, workload: Workload) -> None:
        self.known[workload.key] = workload
        self.engine.upsert_workload(workload, self.now)

    def change(self, key: str, **changes: object) -> None:
        self.submit(with_changes(self.known[key], **changes))

    def trees(self) -> Sequence[Tree]:
        return [tree for _, tree in sorted(self.engine.parts.cache.trees.items())]

    # ------------------------------------------------------------ cycles

    def step(self) -> CyclePlan:
        """Let one random thing happen, then run the engine and do what it decided."""
        self.event()
        return self.run()

    def run(self) -> CyclePlan:
        plan = self.decide()
        self.act(plan, at_once=False)
        return plan

    def decide(self) -> CyclePlan:
        self.engine.next_cycle_at(self.now)  # as the shell asks after every event
        return self.engine.run_cycle(self.now)

    def act(self, plan: CyclePlan, *, at_once: bool) -> None:
        assert not plan.failures, plan.failures
        for decision in plan.decisions:
            self.counts[type(decision).__name__] += 1
            if isinstance(decision, Admit):
                self.counts["Replace"] += bool(decision.replaces)
                self.landing[decision.workload] = decision.admission
                self.write(decision.workload, at_once=at_once)
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    if victim.is_new:
                        self.preempted[decision.workload, victim.workload] += 1
                        self.tell(victim.workload, at_once=at_once)
            elif isinstance(decision, Evict):
                self.evict(decision.workload, str(decision.reason))
            elif isinstance(decision, PlacePods):
                self.place(decision, at_once=at_once)

    def settle(self, most: int = 300) -> int:
        """Do what is decided, at once and without failure, until all is quiet; count the rounds."""
        for key in list(self.telling):
            self.evict_victim(key)
        for key in list(self.landing):
            self.land(key)
        quiet = 0
        for number in range(most):
            plan = self.decide()
            self.act(plan, at_once=True)
            leaving = [key for key, workload in self.known.items() if is_leaving(workload)]
            for key in leaving:
                self.leave(key)
            while self.replaced():
                self.finish_replaced()
            moved = [d for d in plan.decisions if not isinstance(d, Requeue | Skip | PlaceFailed)]
            quiet = 0 if moved or leaving else quiet + (not plan.exhausted)
            at = self.engine.next_cycle_at(self.now)
            if not plan.exhausted and (quiet == QUIET or (quiet and at is None)):
                return number
            self.now = max(self.now, at or self.now)
        raise AssertionError("the engine does not come to rest")

    # ------------------------------------------------------------ what a shell does

    def write(self, key: str, *, at_once: bool) -> None:
        """Write an admission, now or later; or fail."""
        chance = 0.0 if at_once else self.random.random()
        if chance < 0.75:
            self.land(key)
        elif chance < 0.85:
            self.engine.confirm(key) if self.draw.chance(0.5) else None
        else:
            del self.landing[key]
            if chance < 0.95:
                later = self.now + seconds(2) if self.draw.chance(0.3) else None
                self.engine.forget(key, self.now, retry_at=later)
            else:
                self.engine.set_aside(key, self.now)

    def land(self, key: str) -> None:
        """Let a written admission come back; it ends the eviction before it (E-83)."""
        old, admission = self.known[key], self.landing.pop(key)
        queue = self.specs.get((ClusterQueue, admission.cluster_queue))
        assert isinstance(queue, ClusterQueue)
        new = with_changes(old, evicted=None, requeued=None, requeue_at=None, checks={})
        flavors = {name for ps in admission.pod_sets for name in ps.flavors.values()}
        is_checked = any(not r.on_flavors or r.on_flavors & flavors for r in queue.checks)
        self.submit(reserved(new, admission, admitted=not is_checked, at=self.now))

    def tell(self, key: str, *, at_once: bool) -> None:
        """Evict a victim, now or later; or fail."""
        chance = 0.0 if at_once else self.random.random()
        if chance < 0.6:
            self.evict_victim(key)
        elif chance < 0.9:
            self.telling.append(key)
        else:
            self.engine.preemption_failed(key, self.now)

    def evict_victim(self, key: str) -> None:
        if key in self.telling:
            self.telling.remove(key)
        if key in self.landing:
            self.land(key)
        if key in self.known and self.known[key].reservation is not None:
            self.evict(key, "Preempted")

    def evict(self, key: str, reason: str) -> None:
        evicted = condition("Evicted", status=True, reason=reason, at=self.now)
        self.change(key, evicted=evicted)

    def place(self, decision: PlacePods, *, at_once: bool) -> None:
        key = decision.workload
        if not at_once and self.draw.chance(0.2):
            self.engine.places_failed(key, self.now)
            return
        old = self.known[key].reservation
        assert old is not None
        new = replace(old, admission=decision.admission, admitted=True)
        self.change(key, reservation=new, unhealthy_nodes=())

    # ------------------------------------------------------------ events

    def event(self) -> None:
        """Let one random thing happen."""
        often: list[Callable[[], object]] = [self.create, self.create, self.create, self.stop]
        often += [self.end, self.end, self.create, self.hear, self.check]
        often += [self.grow, self.finish_replaced] if self.elastic else []
        seldom = [self.disturb, self.edit, self.hold_back, self.wait, self.sample, self.shrink]
        seldom += [self.reconfigure, self.restructure, self.close_or_open, self.change_node]
        self.random.choice(often + often + seldom)()

    def pick(self, keys: Iterable[str]) -> str | None:
        ordered = sorted(keys)
        return self.random.choice(ordered) if ordered else None

    def pick_holder(self) -> str | None:
        return self.pick(k for k, w in self.known.items() if w.reservation is not None)

    def create(self) -> None:
        self.made += 1
        at = (self.now - T0).total_seconds() - self.draw.upto(50)
        workload = self.draw.workload(f"w{self.made:03}", at=int(at))
        self.submit(workload)

    def grow(self) -> None:
        """Let an elastic job ask for more pods: by a slice that replaces the one it has."""
        key = self.pick(k for k, w in self.known.items() if w.reservation and not is_leaving(w))
        if key is None or any(w.replaces == key for w in self.known.values()):
            return
        old = self.known[key]
        self.made += 1
        grown = [replace(ps, count=ps.count + self.draw.upto(3)) for ps in old.pod_sets]
        name = f"w{self.made:03}"
        workload = make_workload(name, at=self.now, pod_sets=grown, priority=old.priority)
        self.submit(with_changes(workload, queue=old.queue, replaces=key))
        if self.draw.chance(0.1):  # by hand: the two name each other
            self.change(key, replaces=workload.key)

    def finish_replaced(self) -> None:
        """Let a slice be finished that another one took over from."""
        key = self.pick(self.replaced())
        if key is not None:
            workload = self.known.pop(key)
            self.engine.upsert_workload(with_changes(workload, finished=True), self.now)

    def replaced(self) -> Sequence[str]:
        """Slices whose successor has its admission written."""
        successors = {w.replaces for w in self.known.values() if w.reservation is not None}
        return [key for key in self.known if key in successors and key not in self.landing]

    def end(self) -> None:
        key = self.pick(self.known)
        if key is None:
            return
        workload = self.known.pop(key)
        self.landing.pop(key, None)
        if self.draw.chance(0.5):
            self.engine.upsert_workload(with_changes(workload, finished=True), self.now)
        else:
            self.engine.delete_workload(key, self.now)

    def stop(self) -> None:
        """Let the pods of an evicted workload have ended."""
        key = self.pick(key for key, workload in self.known.items() if is_leaving(workload))
        if key is not None:
            self.leave(key)

    def leave(self, key: str) -> None:
        self.change(key, reservation=None, pods_ready=False, unhealthy_nodes=(), checks={})

    def hear(self) -> None:
        """Let a write that took its time have happened."""
        if self.telling and self.draw.chance(0.5):
            self.evict_victim(self.random.choice(self.telling))
        elif (key := self.pick(self.landing)) is not None:
            self.land(key)

    def check(self) -> None:
        """Let the checks of a workload have an outcome, or its pods be ready, or not."""
        key = self.pick_holder()
        if key is None:
            return
        workload = self.known[key]
        old = workload.reservation
        assert old is not None
        if old.admitted:
            self.change(key, pods_ready=not workload.pods_ready)
        elif self.draw.chance(0.2):
            self.evict(key, "AdmissionCheck")
        else:
            waits = any(ps.delayed_topology == PENDING for ps in old.admission.pod_sets)
            new = replace(old, admitted=not waits)
            self.change(key, reservation=new, checks={ALWAYS: READY})

    def disturb(self) -> None:
        """Evict somebody, let one of its nodes fail, or deactivate it."""
        key = self.pick_holder()
        if key is None:
            return
        kind = self.draw.upto(4)
        if kind == 0:
            self.evict(key, "PodsReadyTimeout")
        elif kind == 1:
            self.change(key, active=False)
        else:
            self.fail_node(key)

    def fail_node(self, key: str) -> None:
        """Let a node fail under a workload."""
        old = self.known[key].reservation
        assert old is not None
        used = [n for ps in old.admission.pod_sets if ps.topology for n in ps.topology.nodes()]
        if (node := self.pick(used)) is not None:
            self.specs.pop((Node, node), None)
            self.engine.delete_node(node)
            self.change(key, unhealthy_nodes=(node,))

    def edit(self) -> None:
        """Change a workload, or tell of it again: it may be as it was before a write."""
        key = self.pick(self.known)
        if key is None:
            return
        old = self.known[key]
        kind = self.draw.upto(3)
        if kind == 0:
            self.change(key, priority=self.draw.upto(3), generation=old.generation + 1)
        elif kind == 1:
            self.change(key, active=True)
        elif kind == 2 and old.reservation is None and key not in self.landing:
            pod_sets = self.draw.workload("any", at=0).pod_sets
            self.change(key, pod_sets=pod_sets, generation=old.generation + 1)
        else:
            self.change(key)

    def hold_back(self) -> None:
        key = self.pick(k for k, w in self.known.items() if w.reservation is None)
        if key is not None and key not in self.landing:
            self.change(key, requeue_at=self.now + seconds(self.draw.upto(5)))

    def shrink(self) -> None:
        """Let pods of a workload be done with (E-5)."""
        key = self.pick_holder()
        if key is None:
            return
        old = self.known[key].reservation
        assert old is not None
        pod_sets = tuple(
            replace(ps, usage={name: amount // 2 for name, amount in ps.usage.items()})
            for ps in old.admission.pod_sets
        )
        admission = replace(old.admission, pod_sets=pod_sets)
        self.change(key, reservation=replace(old, admission=admission))

    def wait(self, most: float = 3) -> None:
        self.now += seconds(self.random.random() * most)

    def sample(self) -> None:
        if self.engine.usage is not None:
            self.now += seconds(5)
            for name in LOCAL_QUEUES:
                self.engine.usage.sample(f"{NAMESPACE}/{name}", self.now)

    def reconfigure(self) -> None:
        name = self.draw.one(*QUEUES)
        if self.draw.chance(0.2):
            self.engine.delete_cluster_queue(name)
        self.put(self.draw.cluster_queue(name))

    def restructure(self) -> None:
        name = self.draw.one(*COHORTS[1:])
        if self.draw.chance(0.3):
            self.specs.pop((Cohort, name), None)
            self.engine.delete_cohort(name)
        else:
            self.put(self.draw.cohort(name, self.draw.one(*COHORTS)))

    def close_or_open(self) -> None:
        if self.draw.chance(0.3):
            self.put(AdmissionCheckInfo(name=ALWAYS, active=self.draw.chance(0.7)))
            return
        policy = self.draw.one(StopPolicy.NONE, StopPolicy.NONE, StopPolicy.HOLD)
        self.put(self.draw.local_queue(self.draw.one(*LOCAL_QUEUES), policy))

    def change_node(self) -> None:
        """Let a node come, change or go, or a pod of somebody else take some of it."""
        name = self.draw.one(*NODES)
        kind = self.draw.upto(2)
        if kind == 0:
            self.specs.pop((Node, name), None)
            self.engine.delete_node(name)
        elif kind == 1:
            self.put(self.draw.node(name))
        else:
            requests = {"cpu": 1000} if self.draw.chance(0.5) else None
            self.engine.set_pod_usage(f"other/{name}", name, requests)


def is_leaving(workload: Workload) -> bool:
    """Whether a workload was told to stop and holds its quota still."""
    is_told = workload.evicted is not None or not workload.active
    return is_told and workload.reservation is not None


def rebuilt(history: History, shuffle: random.Random | None) -> Engine:
    """Return an engine that was just started, and was told of all objects in some order."""
    engine = Engine(history.options)
    specs = list(history.specs.values())
    workloads = history.known.values()
    calls: list[Callable[[], None]] = [lambda: engine.upsert_namespace(NAMESPACE, {})]
    calls += [lambda spec=spec: feed(engine, [spec]) for spec in specs]
    calls += [lambda w=w: engine.upsert_workload(w, history.now) for w in workloads]
    if shuffle is not None:
        shuffle.shuffle(calls)
    for call in calls:
        call()
    return engine
