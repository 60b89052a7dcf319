"""Which clusters may be asked to take a Workload, and what is said about the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import CLUSTER_NAMES, CORDON, DRAIN
from multiqueue.multikueue.filters import why_not
from multiqueue.multikueue.filters.candidate import Candidate


def candidate(
    name: str = "a", *, wishes: dict[str, str] | None = None, job: dict[str, str] | None = None
) -> Candidate:
    """A cluster and a Workload with annotations of its own, and of its job."""
    return Candidate(
        cluster=api.MultiKueueCluster(metadata=api.ObjectMeta(name=name)),
        workload=api.Workload(metadata=api.ObjectMeta(name="w", annotations=wishes or {})),
        job={"metadata": {"name": "j", "annotations": job}},
    )


@pytest.mark.parametrize(
    ("wish", "is_free"),
    [("", True), (" , ", True), ("a", True), ("b, a", True), ("b", False), ("aa,b", False)],
)
def test_only_clusters_that_are_named_are_asked(wish: str, is_free: bool) -> None:
    words = why_not(candidate(wishes={CLUSTER_NAMES: wish}))
    assert (words == "") is is_free, words


def test_the_job_is_asked_where_the_workload_says_nothing() -> None:
    assert "is not among b" in why_not(candidate(job={CLUSTER_NAMES: "b"}))
    assert why_not(candidate(wishes={CLUSTER_NAMES: "a"}, job={CLUSTER_NAMES: "b"})) == ""


@pytest.mark.parametrize(("mark", "says"), [(CORDON, "is cordoned"), (DRAIN, "is being drained")])
def test_nothing_goes_to_a_cluster_that_is_taken_out_of_use(mark: str, says: str) -> None:
    closed = api.MultiKueueCluster(metadata=api.ObjectMeta(name="a", annotations={mark: "true"}))
    assert why_not(replace(candidate(wishes={CLUSTER_NAMES: "a"}), cluster=closed)) == says
