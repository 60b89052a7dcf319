from datetime import UTC, datetime
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.lib.amount import UNLIMITED
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.cluster_queue import (
    AdmissionMode,
    CheckRule,
    FlavorFungibility,
    FungibilityPolicy,
    FungibilityPreference,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    StopPolicy,
    build_admission_check,
    build_cluster_queue,
    build_cohort,
    build_local_queue,
)
from multiqueue.model.resource_flavor import build_resource_flavor, build_topology

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
LATER_AT = datetime(2026, 1, 1, 1, tzinfo=UTC)


def true(type_: str, reason: str = "", *, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": LATER}


def cluster_queue(**spec: Any) -> Any:
    obj = {"metadata": {"name": "cq"}, "spec": spec}
    return build_cluster_queue(decode(api.ClusterQueue, obj))


def test_a_bare_cluster_queue_has_the_defaults() -> None:
    got = cluster_queue()

    assert (got.name, got.cohort, got.namespace_selector) == ("cq", "", None)
    assert got.strategy is QueueingStrategy.BEST_EFFORT_FIFO
    assert got.stop_policy is StopPolicy.NONE
    assert got.fungibility == FlavorFungibility()
    assert got.preemption == Preemption()
    assert got.weight == parse_quantity("1")


def test_a_cluster_queue_has_quotas_policies_and_checks() -> None:
    resource = {"name": "cpu", "nominalQuota": "2", "borrowingLimit": "1", "lendingLimit": "100E"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [resource]}]}
    got = cluster_queue(
        resourceGroups=[group],
        flavorFungibility={
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "MayStopSearch",
            "preference": "PreemptionOverBorrowing",
        },
        preemption={
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
        },
        admissionChecksStrategy={"admissionChecks": [{"name": "ac", "onFlavors": ["f"]}]},
        fairSharing={"weight": "500m"},
    )

    assert got.resource_groups[0].flavors[0].quotas == {
        "cpu": Quota(nominal=2000, borrowing_limit=1000, lending_limit=UNLIMITED)
    }
    assert got.fungibility == FlavorFungibility(
        when_can_borrow=FungibilityPolicy.TRY_NEXT_FLAVOR,
        when_can_preempt=FungibilityPolicy.MAY_STOP_SEARCH,
        preference=FungibilityPreference.PREEMPTION_OVER_BORROWING,
    )
    assert got.preemption == Preemption(
        within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=PreemptionPolicy.ANY,
        borrow_within_cohort=PreemptionPolicy.LOWER_PRIORITY,
        borrow_max_priority_threshold=3,
    )
    assert got.checks == (CheckRule(name="ac", on_flavors=frozenset({"f"})),)
    assert got.weight == parse_quantity("0.5")


def test_preemption_without_borrowing_never_borrows() -> None:
    got = cluster_queue(preemption={"reclaimWithinCohort": "Any"}, flavorFungibility={})

    assert got.preemption.borrow_within_cohort is PreemptionPolicy.NEVER
    assert got.fungibility.preference is FungibilityPreference.BORROWING_OVER_PREEMPTION


def test_other_kinds_keep_what_decides() -> None:
    cohort = decode(api.Cohort, {"metadata": {"name": "co"}, "spec": {"parentName": "root"}})
    queue = decode(
        api.LocalQueue,
        {
            "metadata": {"name": "q", "namespace": "ns", "deletionTimestamp": CREATED},
            "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"},
        },
    )
    check = decode(
        api.AdmissionCheck,
        {
            "metadata": {"name": "ac"},
            "spec": {"controllerName": "example.com/c"},
            "status": {"conditions": [true("Active")]},
        },
    )
    flavor = decode(
        api.ResourceFlavor,
        {"metadata": {"name": "f"}, "spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}},
    )
    topology = decode(
        api.Topology, {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    )

    assert build_cohort(cohort).parent == "root"
    assert build_local_queue(queue).terminating
    assert build_local_queue(queue).stop_policy is StopPolicy.HOLD
    assert build_admission_check(check).active
    assert build_resource_flavor(flavor).topology_name == "t"
    assert build_topology(topology).levels == ("rack",)


def test_an_unknown_admission_mode_is_no_fair_sharing() -> None:
    got = cluster_queue(admissionScope={"admissionMode": "-1"})
    assert got.admission_mode is AdmissionMode.NONE
