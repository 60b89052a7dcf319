"""Orchestrated preemption: which copy may preempt, and when (T-174 to T-177, G-16)."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.decide.plan import CreateWorkload, GroupPlan, OpenGate, Removal
from multiqueue.dispatch.decide.view import Opening
from multiqueue.plugins import Nomination
from tests.unit.dispatch.builders import (
    A_MINUTE,
    CONFIG,
    T0,
    make_cluster,
    make_copy,
    make_local,
    make_lost,
    make_nomination,
    make_plan,
    make_ready,
    minutes,
)

TIMEOUT = CONFIG.preemption_timeout
WAITING = make_local(nominated=("a", "b"))


def make_blocked(name: str = "a", *, ago: timedelta = A_MINUTE, **fields: object) -> ClusterState:
    """A cluster whose copy could run by preempting, and may not."""
    copy = make_copy(is_gated=True, blocked_at=T0 - ago)
    return make_cluster(name, workload=copy, **fields)


def make_opened(name: str = "b", *, ago: timedelta = A_MINUTE, **fields: object) -> ClusterState:
    """A cluster whose copy may preempt."""
    copy = make_copy(is_gated=True, gate_opened_at=T0 - ago, **fields)
    return make_cluster(name, workload=copy)


def opened(plan: GroupPlan) -> list[tuple[str, datetime]]:
    return [(step.cluster, step.at) for step in plan.steps if isinstance(step, OpenGate)]


def plan_for(*clusters: ClusterState, **fields: object) -> GroupPlan:
    return make_plan(WAITING, *clusters, **{"ask_due": False, **fields})


def test_the_copy_that_has_been_blocked_longest_may_preempt():
    """T-174, M-181."""
    plan = plan_for(make_blocked("a"), make_blocked("b", ago=minutes(2)))
    assert plan.rule == "open_gate"
    assert opened(plan) == [("b", T0)]


def test_of_two_that_were_blocked_at_once_the_first_by_name_may():
    assert opened(plan_for(make_blocked("b"), make_blocked("a"))) == [("a", T0)]


def test_another_one_waits_until_the_first_had_its_time():
    """T-176, M-181."""
    plan = plan_for(make_blocked("a"), make_opened("b", ago=TIMEOUT - minutes(1)))
    assert opened(plan) == []
    assert plan.wait == minutes(1)


def test_then_the_next_one_may_too():
    """T-175; G-16: whatever keeps the first from running, a victim that stays, say (M-182)."""
    plan = plan_for(make_blocked("a"), make_opened("b", ago=TIMEOUT))
    assert opened(plan) == [("a", T0)]


def test_one_that_needs_no_preemption_is_not_opened():
    """T-177, M-185."""
    calm = make_cluster("a", workload=make_copy(is_gated=True))
    plan = plan_for(calm, make_opened("b", ago=TIMEOUT))
    assert opened(plan) == []
    assert plan.rule == "nominate"


def test_a_copy_that_is_blocked_by_somebody_else_s_gate_is_left_alone():
    copy = make_copy(blocked_at=T0)
    assert opened(plan_for(make_cluster("a", workload=copy))) == []


def test_only_what_may_win_is_opened():
    assert opened(plan_for(make_blocked("c"))) == []
    assert opened(plan_for(make_blocked("a", refusal="is cordoned"))) == []
    stale = make_copy(is_gated=True, blocked_at=T0, epoch="e1")
    assert opened(plan_for(make_cluster("a", workload=stale))) == []


def test_one_that_the_dispatcher_takes_back_is_not_opened():
    plan = plan_for(make_blocked("a"), nomination=make_nomination("b"))
    assert Removal(cluster="a", why="the workload is no longer offered there") in plan.removals
    assert opened(plan) == []


def test_nomination_goes_on_beside_it():
    """A worker whose gate cannot be opened holds up nobody (M-93)."""
    plan = plan_for(make_blocked("a"), make_cluster("b"), nomination=make_nomination("a", "b"))
    assert CreateWorkload(cluster="b") in plan.steps
    assert plan.steps[-1] == OpenGate(cluster="a", at=T0)
    assert plan_for(make_blocked("a"), ask_due=True).ask


def test_it_looks_again_when_the_dispatcher_or_the_gate_wants_it():
    clusters = [make_blocked("a"), make_opened("b", ago=minutes(1))]
    soon = plan_for(
        *clusters, nomination=Nomination(clusters=("a", "b")), ask_again_at=T0 + minutes(2)
    )
    late = plan_for(
        *clusters, nomination=Nomination(clusters=("a", "b")), ask_again_at=T0 + minutes(9)
    )
    assert (soon.wait, late.wait) == (minutes(2), TIMEOUT - minutes(1))


def test_a_request_that_was_lost_is_sent_again_as_what_it_was():
    plan = plan_for(
        make_blocked("a"), make_blocked("b"), opening=Opening(cluster="b", at=T0 - minutes(1))
    )
    assert opened(plan) == [("b", T0 - minutes(1))]


def test_one_that_had_its_time_in_vain_comes_after_the_others():
    """M-182."""
    before = Opening(cluster="a", at=T0 - TIMEOUT)
    clusters = [make_blocked("a", ago=minutes(9)), make_blocked("b")]
    assert opened(plan_for(*clusters, opening=before)) == [("b", T0)]
    assert opened(plan_for(clusters[0], opening=before)) == [("a", T0)]


def test_what_a_former_manager_may_have_opened_on_a_worker_that_is_away_counts():
    """It was opened before the worker was lost, if at all."""
    lost = make_lost("b", ago=minutes(1), first_chance_until=T0 - minutes(1))
    plan = plan_for(make_blocked("a"), lost)
    assert opened(plan) == []
    assert plan.wait == TIMEOUT - minutes(1)
    assert opened(plan_for(make_blocked("a"), make_lost("b", ago=minutes(1)))) == [("a", T0)]


def test_no_gate_is_opened_for_what_does_not_wait_for_a_cluster():
    blocked = make_blocked("a")
    for local in (
        make_ready(None),
        make_local(nominated=("a",), evicted_at=T0),
        make_local(nominated=("a",), has_quota=False),
        make_local(nominated=("a",), other_checks_ready=False),
        make_local(nominated=("a",), job=None),
    ):
        assert opened(make_plan(local, blocked, ask_due=False)) == []
