"""Somebody else nominates: the list is followed and never written (M-116 to M-118, T-29)."""

from __future__ import annotations

from dataclasses import replace

from multiqueue.dispatch.decide.plan import CreateWorkload, Explain, Nominate, Removal, Trouble
from multiqueue.dispatch.decide.view import Check
from multiqueue.plugins import ClusterVerdict, Nomination
from tests.unit.dispatch.builders import (
    make_admitted,
    make_cluster,
    make_copy,
    make_local,
    make_lost,
    make_plan,
)


def answer(*clusters: str, note: str = "", **reasons: str) -> Nomination:
    verdicts = tuple(
        ClusterVerdict(cluster=name, nominated=True, reason=reasons.get(name, ""))
        for name in clusters
    )
    return Nomination(clusters=clusters, verdicts=verdicts, note=note, external=True)


def test_before_anything_is_nominated_it_says_who_is_waited_for():
    plan = make_plan(make_local(), make_cluster("a"), nomination=answer(note="somebody does"))
    assert plan.steps == (Explain(message="No cluster is nominated yet: somebody does"),)


def test_copies_are_made_where_it_is_nominated_and_nowhere_else():
    plan = make_plan(
        make_local(nominated=("b", "a")),
        make_cluster("a"),
        make_cluster("b"),
        make_cluster("c", workload=make_copy()),
        nomination=answer("b", "a", b="fits"),
    )
    assert plan.removals == (Removal(cluster="c", why="the workload is no longer offered there"),)
    assert plan.steps == (
        Explain(message='The workload is offered to "b" (fits), "a"'),
        CreateWorkload(cluster="a"),
        CreateWorkload(cluster="b"),
    )


def test_names_that_cannot_be_used_are_told_and_left_in_the_list():
    plan = make_plan(
        make_local(nominated=("a", "b", "moon")),
        make_lost("a"),
        make_cluster("b", refusal="is cordoned"),
        nomination=answer("a", "b", a="is not connected", b="is cordoned"),
    )
    assert not any(isinstance(step, Nominate | CreateWorkload) for step in plan.steps)
    message = (
        "No cluster can take the workload now: a is not connected; b is cordoned; "
        "no cluster of this check: moon"
    )
    assert plan.steps == (Explain(message=message, trouble=Trouble.NO_CLUSTER),)


def test_between_two_answers_the_list_is_followed_all_the_same():
    local = make_local(nominated=("b",))
    plan = make_plan(
        local, make_cluster("a", workload=make_copy()), make_cluster("b"), ask_due=False
    )
    assert [removal.cluster for removal in plan.removals] == ["a"]
    assert plan.steps == (CreateWorkload(cluster="b"),)


def test_what_is_said_already_is_not_said_again():
    message = 'The workload is offered to "a"'
    local = replace(make_local(nominated=("a",)), check=Check(name="multikueue", message=message))
    copy = make_cluster("a", workload=make_copy())
    plan = make_plan(local, copy, nomination=answer("a"))
    assert (plan.steps, plan.removals) == ((), ())


def test_an_admission_where_it_is_not_nominated_does_not_win():
    plan = make_plan(
        make_local(nominated=("b",)),
        make_cluster("a", workload=make_admitted()),
        make_cluster("b", workload=make_copy()),
        nomination=answer("b"),
    )
    assert plan.rule == "nominate"
    assert [removal.cluster for removal in plan.removals] == ["a"]
