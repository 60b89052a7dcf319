"""What DisruptionPolicies keep, whatever happens: minimum runs, budgets, and an end of every no."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiqueue.api.disruptions import Stop, StopCause, add_stop
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Cohort, Preemption, PreemptionPolicy
from multiqueue.model.disruption_policy import (
    BudgetRule,
    BudgetScope,
    ClaimRule,
    DisruptionRules,
    NonPreemptibleRule,
    Preference,
    ProtectionRule,
)
from multiqueue.model.resources import is_accelerator
from multiqueue.model.workload import Workload
from tests.builders.engine import flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.properties.engine_history import History
from tests.properties.engine_invariants import assert_all
from tests.properties.engine_specs import Spec

POLICY = "policy"
CAUSES = frozenset({StopCause.QUEUE, StopCause.FAIR_SHARE, StopCause.RECLAIM})


class GovernedHistory(History):
    """A history under one policy that every queue and Cohort names.

    Shape: ``stops`` are all that were written, whatever became of the workload since.
    """

    def __init__(self, seed: int, rules: DisruptionRules) -> None:
        self.rules = rules
        self.decided: dict[str, Stop] = {}
        self.stops: list[tuple[str, Stop]] = []
        super().__init__(seed)
        self.engine.upsert_disruption_policy(rules)

    def put(self, spec: Spec) -> None:
        if isinstance(spec, ClusterQueue | Cohort):
            spec = replace(spec, disruption_policy=POLICY)
        super().put(spec)

    def submit(self, workload: Workload) -> None:
        """Let every workload declare how long it runs, if that may be waited for."""
        if self.rules.patience:
            workload = replace(workload, run_limit=90)
        if self.rules.protection.non_preemptible.percent:
            asks = not workload.replaces and workload.key.endswith(tuple("02468"))
            workload = replace(workload, run_limit=90, non_preemptible=asks)
        super().submit(workload)

    def act(self, plan: CyclePlan, *, at_once: bool) -> None:
        for decision in plan.decisions:
            if isinstance(decision, Preempt):
                for victim in decision.victims:
                    if victim.is_new and victim.stop is not None:
                        self.decided[victim.workload] = victim.stop
        super().act(plan, at_once=at_once)

    def evict(self, key: str, reason: str) -> None:
        super().evict(key, reason)
        if reason == "Preempted" and (stop := self.decided.pop(key, None)) is not None:
            self.stops.append((self.known[key].key, stop))
            self.change(key, stops=add_stop(self.known[key].stops, stop))


policies = st.builds(
    DisruptionRules,
    name=st.just(POLICY),
    prefer=st.sampled_from(Preference),
    max_preempted_workloads=st.sampled_from([0, 1, 2]),
    waiting=st.builds(ClaimRule, passing=st.sampled_from([0, 100])),
    patience=st.sampled_from([0, 600]),
    protection=st.builds(
        ProtectionRule,
        min_run=st.dictionaries(st.sampled_from(sorted(CAUSES)), st.integers(1, 90)),
        growth=st.integers(1, 3),
        max_preemptions=st.sampled_from([0, 1, 2]),
        concede=st.sampled_from([30, 7200]),
    ),
    budgets=st.lists(
        st.builds(
            BudgetRule,
            policy=st.just(POLICY),
            name=st.just("calm"),
            window=st.integers(60, 300),
            max_workloads=st.integers(1, 3),
            per=st.sampled_from(BudgetScope),
            causes=st.just(CAUSES),
        ),
        max_size=1,
    ).map(tuple),
)


PATIENT = DisruptionRules(name=POLICY, patience=600)


@given(st.integers(0, 2**32), policies)
@example(105, PATIENT)  # histories in which somebody waits instead of stopping others
@example(44, PATIENT)
@example(141, PATIENT)
@settings(max_examples=40, deadline=None)
def test_invariants_hold_and_every_no_has_an_end(seed: int, rules: DisruptionRules) -> None:
    history = GovernedHistory(seed, rules)
    for _ in range(40):
        history.step()
        assert_all(history.engine, history.known)
        entries = history.engine.parts.entries.values()
        words = [str(e.explanation.held_back) for e in entries if e.explanation is not None]
        words += [e.explanation.note for e in entries if e.explanation is not None]
        if any("until 20" in each or "by themselves" in each for each in words):
            assert history.engine.next_cycle_at(history.now) is not None
    assert_within_budgets(history)


def assert_within_budgets(history: GovernedHistory) -> None:
    """In no stretch of time as long as the window there are more stops than the budget has."""
    for rule in history.rules.budgets:
        if rule.per is not BudgetScope.POLICY:
            continue  # queues of workloads change; the smaller scopes have tests of their own
        times = sorted(stop.at for _, stop in history.stops)
        for index, at in enumerate(times):
            later = [t for t in times[index:] if t < at + timedelta(seconds=rule.window)]
            assert len(later) <= rule.max_workloads


@given(st.integers(0, 2**32), policies)
@settings(max_examples=30, deadline=None)
def test_nobody_is_stopped_within_its_minimum_run(seed: int, rules: DisruptionRules) -> None:
    history = GovernedHistory(seed, rules)
    for _ in range(40):
        history.event()
        plan = history.decide()
        for decision in plan.decisions:
            if not isinstance(decision, Preempt):
                continue
            new = [victim for victim in decision.victims if victim.is_new]
            most = rules.max_preempted_workloads
            assert not most or len(new) <= most
            for victim in new:
                held = history.known[victim.workload].reservation
                if victim.stop is None or held is None or not held.admitted:
                    continue
                least = rules.protection.min_run.get(victim.stop.cause, 0)
                if victim.stop.cause is StopCause.RECLAIM:
                    least = min(least, rules.protection.concede)
                since = held.reserved_at.replace(microsecond=0)  # as the API keeps it
                assert victim.stop.at >= since + timedelta(seconds=least)
        history.act(plan, at_once=False)


@given(st.integers(0, 2**32), st.sampled_from([20, 50, 100]))
@settings(max_examples=20, deadline=None)
def test_non_preemptible_jobs_hold_no_more_than_their_part(seed: int, part: int) -> None:
    protection = ProtectionRule(non_preemptible=NonPreemptibleRule(percent=part))
    history = GovernedHistory(seed, DisruptionRules(name=POLICY, protection=protection))
    for _ in range(40):
        history.step()
        assert_within_part(history, part)


@given(
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([0, 30, 50, 100]),
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=16),
)
@settings(max_examples=60, deadline=None)
def test_a_lender_takes_back_all_that_it_lent(
    own: int, lent: int, part: int, jobs: list[tuple[int, bool]]
) -> None:
    """P-31: whatever the borrower has, a job of all that is lent starts; who is kept stays."""
    reclaims = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)
    fields = {"cohort": "all", "preemption": reclaims, "disruption_policy": POLICY}
    world = EngineWorld(
        make_queue("borrower", flavor_quotas("default", gpu=own), **fields),
        make_queue("lender", flavor_quotas("default", gpu=lent), **fields),
    )
    protection = ProtectionRule(non_preemptible=NonPreemptibleRule(percent=part))
    world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, protection=protection))
    for index, (gpu, keeps) in enumerate(jobs):
        world.submit(make_job(f"j{index}", "borrower", gpu, non_preemptible=keeps))
        world.write_back(world.cycle(after=1))
    parts = world.engine.parts
    holders = parts.quota_usage.holders.get("borrower", {})
    kept = {k for k, e in holders.items() if parts.disruption.non_preemptibles.find_hold_off(e)}
    if not lent:
        return
    world.submit(make_job("mine", "lender", lent))
    (decision,) = (d for d in world.cycle(after=1).decisions if d.workload.endswith("/mine"))
    assert isinstance(decision, Admit | Preempt), "all that was lent can be taken back"
    if isinstance(decision, Preempt):
        assert kept.isdisjoint(victim.workload for victim in decision.victims)


def make_job(name: str, queue: str, gpu: int, **fields: object) -> Workload:
    return make_workload(name, queue=queue, pod_sets=[pod_set(gpu=gpu)], run_limit=60, **fields)


def assert_within_part(history: History, part: int) -> None:
    parts = history.engine.parts
    find_hold_off = parts.disruption.non_preemptibles.find_hold_off
    for name, holders in parts.quota_usage.holders.items():
        used: Counter[tuple[str, str]] = Counter()
        for holder in holders.values():
            if find_hold_off(holder) is None:
                continue
            usage = holder.usage
            devices = {pair: n for pair, n in usage.items() if is_accelerator(pair[1])}
            used.update(devices or usage)
        node = parts.cache.queues[name].node if name in parts.cache.queues else None
        for pair, amount in used.items():
            assert node is not None, "nobody is kept in a queue that is gone"
            slot = node.slot_by_flavor_resource.get(pair)
            assert amount * 100 <= (0 if slot is None else node.nominal[slot]) * part


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_policy_that_nobody_reaches_decides_as_none(seed: int) -> None:
    """With a policy in force the searches take another way; it leads to the same."""
    bare = History(seed)
    unreached = DisruptionRules(name=POLICY, max_preempted_workloads=1_000_000)
    governed = GovernedHistory(seed, unreached)
    for _ in range(40):
        want, got = bare.step(), governed.step()
        assert [_told(each) for each in got.decisions] == [_told(each) for each in want.decisions]


def _told(decision: object) -> object:
    """The decision without the record and the cost, which a policy adds."""
    if not isinstance(decision, Preempt):
        return decision
    victims = [(v.workload, v.reason, v.is_new) for v in decision.victims]
    return (decision.workload, decision.explanation, victims)
