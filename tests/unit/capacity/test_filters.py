"""Which clusters may be asked to take a Workload, and what is said about the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import (
    CLUSTER_NAMES,
    CLUSTER_SELECTOR,
    CLUSTER_TAINTS,
    CLUSTER_TOLERATIONS,
    CORDON,
    DRAIN,
)
from multiqueue.capacity.filters import Candidate, list_constraints, why_avoid, why_not


def candidate(
    name: str = "a",
    *,
    constraints: dict[str, str] | None = None,
    job: dict[str, str] | None = None,
    taints: str = "",
    **labels: str,
) -> Candidate:
    """A cluster and a Workload with annotations of its own, and of its job."""
    annotations = {CLUSTER_TAINTS: taints} if taints else {}
    metadata = api.ObjectMeta(name=name, labels=labels, annotations=annotations)
    return Candidate(
        cluster=api.MultiKueueCluster(metadata=metadata),
        workload=api.Workload(metadata=api.ObjectMeta(name="w", annotations=constraints or {})),
        job={"metadata": {"name": "j", "annotations": job}},
    )


@pytest.mark.parametrize(
    ("wanted", "is_free"),
    [("", True), (" , ", True), ("a", True), ("b, a", True), ("b", False), ("aa,b", False)],
)
def test_only_clusters_that_are_named_are_asked(wanted: str, is_free: bool) -> None:
    """M-102."""
    words = why_not(candidate(constraints={CLUSTER_NAMES: wanted}))
    assert (words == "") is is_free, words


def test_the_job_is_asked_where_the_workload_says_nothing() -> None:
    assert f"is not in {CLUSTER_NAMES} (b)" in why_not(candidate(job={CLUSTER_NAMES: "b"}))
    assert why_not(candidate(constraints={CLUSTER_NAMES: "a"}, job={CLUSTER_NAMES: "b"})) == ""


@pytest.mark.parametrize(("mark", "says"), [(CORDON, "is cordoned"), (DRAIN, "is being drained")])
def test_nothing_goes_to_a_cluster_that_is_taken_out_of_use(mark: str, says: str) -> None:
    closed = api.MultiKueueCluster(metadata=api.ObjectMeta(name="a", annotations={mark: "true"}))
    assert why_not(replace(candidate(constraints={CLUSTER_NAMES: "a"}), cluster=closed)) == says


@pytest.mark.parametrize(
    ("wanted", "is_free"),
    [
        ("", True),
        ("gpu=h100", True),
        ("gpu==h100,zone!=us", True),
        ("gpu in (a100, h100)", True),
        ("gpu notin (h100)", False),
        ("zone", True),
        ("!zone", False),
        ("!spot", True),
        ("gpu=a100", False),
    ],
)
def test_clusters_are_selected_by_their_labels(wanted: str, is_free: bool) -> None:
    words = why_not(candidate(constraints={CLUSTER_SELECTOR: wanted}, gpu="h100", zone="eu"))
    assert (words == "") is is_free, words
    assert is_free or words == f'is not selected by "{wanted}" (multiqueue.dev/cluster-selector)'


def test_a_selector_that_cannot_be_read_keeps_it_from_all() -> None:
    words = why_not(candidate(job={CLUSTER_SELECTOR: "gpu in h100"}, gpu="h100"))
    assert words.startswith(
        'cannot be selected: multiqueue.dev/cluster-selector "gpu in h100" is malformed: '
    )


@pytest.mark.parametrize(
    ("taints", "tolerations", "want"),
    [
        ("team=x:NoSchedule", "", "team=x:NoSchedule"),
        ("team:NoSchedule", "team=x", "team:NoSchedule"),
        ("team=x:NoSchedule", "team=x:NoSchedule", ""),
        ("team=x:NoSchedule", "team=x", ""),
        ("team=x:NoSchedule", "team:NoSchedule", ""),
        ("team=x:NoSchedule", "team", ""),
        ("team=x:NoSchedule", "*", ""),
        ("team=x:NoSchedule", "team=y, team=x:PreferNoSchedule", "team=x:NoSchedule"),
        ("a:NoSchedule,b:NoSchedule", "a", "b:NoSchedule"),
        ("team=x:PreferNoSchedule", "", ""),
    ],
)
def test_taints_keep_off_what_does_not_tolerate_them(taints, tolerations, want) -> None:
    words = why_not(candidate(taints=taints, constraints={CLUSTER_TOLERATIONS: tolerations}))
    assert words == (
        f"has taint {want}, which is not in multiqueue.dev/cluster-tolerations" if want else ""
    )


def test_a_soft_taint_only_puts_a_cluster_behind_others() -> None:
    soft = "spot:PreferNoSchedule"
    assert why_avoid(candidate(taints=soft)) == "has taint spot:PreferNoSchedule"
    assert why_avoid(candidate(taints=soft, constraints={CLUSTER_TOLERATIONS: "spot"})) == ""
    assert why_avoid(candidate(taints="spot:NoSchedule")) == ""
    assert why_avoid(candidate(taints="spot")) == ""


def test_taints_that_cannot_be_read_close_their_cluster_and_tolerations_all() -> None:
    assert why_not(candidate(taints="team=x:NoExecute")).startswith(
        "is closed: its multiqueue.dev/taints is malformed: "
    )
    assert why_not(candidate(constraints={CLUSTER_TOLERATIONS: "a b"})).startswith(
        "cannot be asked: multiqueue.dev/cluster-tolerations is malformed: "
    )


def test_all_wishes_are_listed_for_those_who_watch_for_changes() -> None:
    one = candidate(
        constraints={CLUSTER_NAMES: " a "}, job={CLUSTER_NAMES: "b", CLUSTER_SELECTOR: "c"}
    )
    assert list_constraints(one.workload, one.job) == ("a", "c", "")
