"""A burst over equal clusters does not end up on one of them."""

from __future__ import annotations

from multiqueue.multikueue.plan import CreateWorkload, SyncJob
from multiqueue.plugins import Nomination
from tests.unit.multikueue.builders import make_admitted, make_cluster, make_local, make_plan


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
