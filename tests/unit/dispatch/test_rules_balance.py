"""A burst over equal clusters does not end up on one of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.plan import CreateWorkload, SyncJob
from multiqueue.dispatch.decide.view import GroupView
from multiqueue.plugins import Nomination
from tests.unit.dispatch.builders import T0, make_admitted, make_cluster, make_local, make_plan


def test_of_two_that_admitted_at_once_the_one_with_fewer_jobs_wins():
    clusters = [
        make_cluster(name, workload=make_admitted(), jobs=jobs)
        for name, jobs in (("a", 3), ("b", 2))
    ]
    plan = make_plan(make_local(nominated=("a", "b")), *clusters)
    assert plan.steps[0] == SyncJob(cluster="b")


def test_the_one_with_fewer_jobs_is_asked_first():
    """Who is asked first often admits first, by milliseconds."""
    clusters = [make_cluster(name, jobs=jobs) for name, jobs in (("a", 3), ("b", 2))]
    plan = make_plan(
        make_local(nominated=("a", "b")), *clusters, nomination=Nomination(clusters=("a", "b"))
    )
    assert plan.steps[-2:] == (CreateWorkload(cluster="b"), CreateWorkload(cluster="a"))


@pytest.mark.parametrize(("seconds", "winner"), [(1, "b"), (2, "a")])
def test_a_second_is_no_difference_between_two_clusters(seconds: int, winner: str):
    """Their clocks differ, and tell whole seconds."""
    later = T0 + timedelta(seconds=seconds)
    clusters = [
        make_cluster(name, workload=make_admitted(at=at), jobs=jobs)
        for name, at, jobs in (("a", T0, 3), ("b", later, 2))
    ]
    plan = make_plan(make_local(nominated=("a", "b")), *clusters)
    assert plan.steps[0] == SyncJob(cluster=winner)


def test_equals_take_turns_in_being_asked_first():
    clusters = [make_cluster(name) for name in ("a", "b")]
    nomination = Nomination(clusters=("a", "b"))
    asked = Counter(
        decide(
            GroupView(
                key=f"ns/job-{number}",
                clusters=tuple(clusters),
                local=make_local(nominated=("a", "b")),
                nomination=nomination,
            ),
            GroupConfig(),
            T0,
        ).steps[-2]
        for number in range(100)
    )
    assert asked.keys() == {CreateWorkload(cluster="a"), CreateWorkload(cluster="b")}
    assert min(asked.values()) >= 40
