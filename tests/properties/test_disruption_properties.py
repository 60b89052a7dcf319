"""What DisruptionPolicies keep, whatever happens: minimum runs, budgets, and an end of every no."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiqueue.api.disruptions import Stop, StopCause, add_stop
from multiqueue.engine.plan import CyclePlan, Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Cohort
from multiqueue.model.disruption_policy import (
    BudgetRule,
    BudgetScope,
    ClaimRule,
    DisruptionRules,
    Preference,
    ProtectionRule,
)
from multiqueue.model.workload import Workload
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
        super().submit(replace(workload, run_limit=90) if self.rules.patience else workload)

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
