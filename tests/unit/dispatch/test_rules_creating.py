"""A job whose creation is slow: another worker must not be chosen meanwhile (I-1)."""

from __future__ import annotations

from datetime import timedelta

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan, Nominate, SyncJob
from multiqueue.dispatch.decide.rules.choose_winner import choose
from multiqueue.dispatch.decide.rules.nominate import nominate
from multiqueue.dispatch.decide.view import GroupView
from multiqueue.plugins import Nomination
from tests.unit.dispatch.builders import T0, make_admitted, make_cluster, make_local


def plan_for(*, first_creates: bool):
    """Two workers admitted it in the same second; meanwhile the first got more other jobs."""
    local = make_local(nominated=("a", "b"))
    clusters = (
        make_cluster("a", workload=make_admitted(), jobs=5, creating=first_creates),
        make_cluster("b", workload=make_admitted(), jobs=1),
    )
    return choose(GroupView(key="ns/w", local=local, clusters=clusters), GroupConfig(), T0)


def chosen(plan) -> list[str]:
    return [step.cluster for step in plan.steps if isinstance(step, SyncJob)]


def test_the_one_with_fewer_jobs_is_chosen_first():
    assert chosen(plan_for(first_creates=False)) == ["b"]


def test_while_its_job_is_being_created_the_one_that_was_chosen_stays_chosen():
    plan = plan_for(first_creates=True)
    assert chosen(plan) == ["a"]
    assert [removal.cluster for removal in plan.removals] == ["b"]


def test_nobody_else_gets_the_job_while_its_creation_elsewhere_is_under_way():
    local = make_local(nominated=("a", "b"))
    creating = make_cluster("a", creating=True)
    clusters = (creating, make_cluster("b", workload=make_admitted()))
    plan = choose(GroupView(key="ns/w", local=local, clusters=clusters), GroupConfig(), T0)
    assert chosen(plan) == []
    assert 'but "a" may still run its job' in plan.why


def nominate_elsewhere(*, lost_for: timedelta) -> GroupPlan | None:
    """The job of "a" was created, the latch was not written, and "a" is out of reach since."""
    lost = make_cluster("a", reachable=False, may_run_unseen=True, lost_at=T0 - lost_for)
    view = GroupView(
        key="ns/w",
        local=make_local(nominated=("a", "b")),
        clusters=(lost, make_cluster("b")),
        nomination=Nomination(clusters=("b",)),
    )
    return nominate(view, GroupConfig(worker_lost_timeout=timedelta(minutes=15)), T0)


def nominated(plan: GroupPlan | None) -> list[tuple[str, ...]]:
    return [step.clusters for step in plan.steps if isinstance(step, Nominate)]


def test_a_cluster_out_of_reach_that_may_have_the_job_stays_nominated():
    """The next manager learns from the nominations alone where a job may be."""
    assert nominated(nominate_elsewhere(lost_for=timedelta(minutes=1))) == []


def test_a_cluster_that_was_given_up_is_not_nominated_any_more():
    assert nominated(nominate_elsewhere(lost_for=timedelta(minutes=16))) == [("b",)]
