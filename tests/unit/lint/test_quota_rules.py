from __future__ import annotations

import pytest

from multiqueue.lint.finding import Severity
from tests.unit.lint.objects import (
    MULTIKUEUE,
    check,
    checked,
    cluster_queue,
    find,
    flavor,
    local_queue,
    namespace,
    node,
    obj,
    quota,
    told,
    world,
)

GPU = {"gpu": "a100"}
WITHIN = {"preemption": {"reclaimWithinCohort": "Any"}}


def test_a_borrowing_limit_without_cohort_does_nothing() -> None:
    queue = cluster_queue("a", quota(borrowingLimit="4"))
    (found,) = find("limit-without-cohort", queue)
    assert found.path == "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit"
    assert found.what == "may borrow 4 cpu, but there is no cohort to borrow from"
    queue["spec"]["cohortName"] = "c"
    assert not find("limit-without-cohort", queue)


def test_a_lending_limit_without_cohort_is_refused() -> None:
    got = told("invalid", cluster_queue("a", quota(lendingLimit="4")))
    assert "lendingLimit" in got[0]
    assert "must be nil when cohortName is empty" in got[0]


def test_a_cohort_without_parent_has_nobody_to_borrow_from() -> None:
    groups = cluster_queue("x", quota(borrowingLimit="4"))["spec"]["resourceGroups"]
    (found,) = find("limit-without-cohort", obj("Cohort", "c", {"resourceGroups": groups}))
    assert found.todo == "set spec.parentName, or remove the limit"


def test_the_old_name_of_the_cohort_counts() -> None:
    queue = cluster_queue("a", quota(borrowingLimit="4"), cohort="c")
    queue["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    assert not find("limit-without-cohort", queue)


def test_nothing_is_reclaimed_without_a_cohort() -> None:
    assert told("reclaim-without-cohort", cluster_queue("a", **WITHIN)) == [
        "spec.preemption.reclaimWithinCohort: is Any, but the queue is in no cohort"
    ]
    assert not find("reclaim-without-cohort", cluster_queue("a", cohortName="c", **WITHIN))
    assert not find("reclaim-without-cohort", cluster_queue("a"))


@pytest.mark.parametrize(
    ("queue", "severity"),
    [
        (cluster_queue("a", cohortName="c"), Severity.WARNING),
        (cluster_queue("a", quota(lendingLimit="2"), cohortName="c"), Severity.INFO),
        (cluster_queue("a", quota(lendingLimit="0"), cohortName="c"), None),
        (cluster_queue("a", quota(nominal="0"), cohortName="c"), None),
        (cluster_queue("a", cohortName="c", **WITHIN), None),
        (cluster_queue("a"), None),
    ],
    ids=["lends all", "lends some", "lends nothing", "has nothing", "reclaims", "alone"],
)
def test_lent_quota_comes_back_only_where_it_is_reclaimed(
    queue: dict[str, object], severity: Severity | None
) -> None:
    found = find("lent-and-never-reclaimed", queue)
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_a_cohort_of_one_has_nobody_to_borrow_from() -> None:
    lonely = cluster_queue("a", quota(borrowingLimit="4"), cohortName="pool")
    assert told("cohort-of-one", lonely) == [
        'spec.cohortName: no other ClusterQueue is in cohort "pool"'
    ]
    assert find("cohort-of-one", lonely)[0].severity is Severity.INFO
    assert find("cohort-of-one", lonely, complete=["ClusterQueue"])[0].severity is Severity.WARNING
    assert not find("cohort-of-one", lonely, cluster_queue("b", cohortName="pool"))
    assert not find("cohort-of-one", cluster_queue("a", cohortName="pool"))


def test_cohorts_of_one_tree_are_one() -> None:
    a = cluster_queue("a", quota(borrowingLimit="4"), cohortName="left")
    b = cluster_queue("b", cohortName="right")
    cohorts = [obj("Cohort", name, {"parentName": "root"}) for name in ("left", "right")]
    assert not find("cohort-of-one", a, b, *cohorts)
    assert find("cohort-of-one", a, b, cohorts[0])


def test_a_cohort_with_quota_of_its_own_lends() -> None:
    a = cluster_queue("a", quota(nominal="0"), cohortName="pool")
    groups = cluster_queue("x")["spec"]["resourceGroups"]
    assert find("cohort-of-one", a)
    assert not find("cohort-of-one", a, obj("Cohort", "pool", {"resourceGroups": groups}))


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        (cluster_queue("a", resourceGroups=[]), "has no flavor with a quota"),
        (cluster_queue("a", quota(nominal="0")), "every nominalQuota is 0"),
        (
            cluster_queue("a", quota(nominal="0", borrowingLimit="0"), cohortName="c"),
            "nothing can be borrowed",
        ),
    ],
)
def test_a_queue_without_quota_admits_nothing(queue: dict[str, object], says: str) -> None:
    (got,) = told("queue-without-quota", queue)
    assert says in got


def test_a_queue_that_lives_on_loans_is_fine() -> None:
    queue = cluster_queue("a", quota(nominal="0"), cohortName="c")
    assert not find("queue-without-quota", queue)


def test_quotas_are_compared_with_the_nodes_of_the_flavor() -> None:
    nodes = [node("n1", labels=GPU), node("n2", labels=GPU), node("n3", cpu="100")]
    queues = [cluster_queue("a", quota(nominal="10")), cluster_queue("b", quota(nominal="7"))]
    a100 = flavor("f", nodeLabels=GPU)
    assert told("quota-exceeds-nodes", a100, *queues, *nodes) == [
        "quotas promise 17 cpu, 2 nodes have 16"
    ]
    assert not find("quota-exceeds-nodes", a100, queues[0], *nodes)
    assert not find("quota-exceeds-nodes", a100, *queues)


def test_a_manager_of_workers_needs_no_nodes() -> None:
    queue = cluster_queue("a", quota(nominal="99"), admissionChecksStrategy=checked("mk"))
    objects = [flavor("f", nodeLabels=GPU), queue, node("n1", labels=GPU)]
    assert find("quota-exceeds-nodes", *objects)
    assert not find("quota-exceeds-nodes", *objects, check("mk", MULTIKUEUE, "c"))
    assert not find("flavor-without-nodes", *objects[:2], node("n2"), check("mk", MULTIKUEUE, "c"))


def test_a_weight_of_zero_makes_any_share_infinite() -> None:
    queue = cluster_queue("a", cohortName="c", fairSharing={"weight": "0"})
    assert find("fair-sharing-weight", queue)[0].severity is Severity.WARNING
    assert not find("fair-sharing-weight", cluster_queue("a", fairSharing={"weight": "0"}))
    half = cluster_queue("a", cohortName="c", fairSharing={"weight": "0.5"})
    assert not find("fair-sharing-weight", half)


def test_a_weight_does_nothing_where_fair_sharing_is_off() -> None:
    queue = cluster_queue("a", cohortName="c", fairSharing={"weight": "2"})
    (found,) = find("fair-sharing-weight", queue, config="")
    assert found.severity is Severity.INFO
    on = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}"
    assert not find("fair-sharing-weight", queue, config=on)


def test_an_owner_has_one_share_in_a_cohort() -> None:
    """P-121: by the label of its namespaces."""
    on = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}"
    owner = {"multiqueue.dev/owner": "x"}
    objects = [
        *(cluster_queue(name, cohortName="c") for name in ("a", "b", "y")),
        cluster_queue("d", cohortName="other"),
        *(
            local_queue(to, to=to, namespace=ns)
            for to, ns in (("a", "x1"), ("b", "x2"), ("d", "x2"))
        ),
        local_queue(to="y", namespace="y"),
        namespace("x1", **owner),
        namespace("x2", **owner),
    ]
    (found,) = find("owner-with-several-shares", *objects, config=on)
    assert found.what == (
        'owner "x" has ClusterQueue "a" in Cohort "c", too, so it has two shares there'
    )
    assert not find("owner-with-several-shares", *objects[:-1], config=on)
    assert not find("owner-with-several-shares", *objects, config="")


def test_cycles_of_cohorts_end_the_search_for_their_root() -> None:
    cohorts = [obj("Cohort", a, {"parentName": b}) for a, b in (("x", "y"), ("y", "x"))]
    got = world(cluster_queue("a", cohortName="y"), *cohorts).queues_by_root
    assert list(got) == ["x"]
