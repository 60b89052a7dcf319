from __future__ import annotations

import copy
from typing import Any

import pytest

from multiqueue.api.config import Gates
from multiqueue.api.config.gates import Gate
from multiqueue.api.validation.cluster_queue import (
    default_cluster_queue,
    validate_cluster_queue_create,
    validate_cluster_queue_update,
    warn_cluster_queue,
)
from multiqueue.api.validation.cohort import validate_cohort_create, validate_cohort_update


def quota(name: str = "cpu", **limits: Any) -> dict:
    return {"name": name, "nominalQuota": "10", **limits}


def group(*flavors: tuple[str, list[dict]], covered: list[str] | None = None) -> dict:
    names = covered or [resource["name"] for resource in flavors[0][1]]
    return {
        "coveredResources": names,
        "flavors": [{"name": name, "resources": resources} for name, resources in flavors],
    }


def cluster_queue(*groups: dict, **spec: Any) -> dict:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"cohortName": "c", "resourceGroups": list(groups), **spec},
    }


def texts(errors: list) -> list[str]:
    return [str(error) for error in errors]


def test_a_good_queue_has_no_errors_and_no_warnings() -> None:
    obj = cluster_queue(group(("a", [quota(borrowingLimit="1", lendingLimit="10")])))
    assert validate_cluster_queue_create(obj) == []
    assert warn_cluster_queue(obj) == []


GROUPS = "spec.resourceGroups[0]"
FLAVOR = f"{GROUPS}.flavors[0]"


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (
            cluster_queue(group(("a", [quota(nominalQuota="-1")]))),
            (
                f'{FLAVOR}.resources[0].nominalQuota: Invalid value: "-1": must be greater than or '
                "equal to 0"
            ),
        ),
        (
            cluster_queue(group(("a", [quota(lendingLimit="11")]))),
            (
                f'{FLAVOR}.resources[0].lendingLimit: Invalid value: "11": '
                "must be less than or equal to the nominalQuota, 10"
            ),
        ),
        (
            cluster_queue(group(("a", [quota(lendingLimit="1")])), cohortName=""),
            (
                f'{FLAVOR}.resources[0].lendingLimit: Invalid value: "1": must be nil when '
                "cohortName is empty"
            ),
        ),
        (
            cluster_queue(group(("a", [quota()])), group(("b", [quota()]))),
            'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
        ),
        (
            cluster_queue(group(("a", [quota()])), group(("a", [quota("gpu")]))),
            'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
        ),
        (
            cluster_queue(group(("a", [quota("x")]), covered=["cpu"])),
            (
                f'{FLAVOR}.resources[0].name: Invalid value: "x": must match the name in '
                "coveredResources"
            ),
        ),
        (
            cluster_queue(group(("a", [quota()]), covered=["cpu", "memory"])),
            (
                f'{GROUPS}: Invalid value: ["cpu"]: '
                "flavors must have the same number of resources as the coveredResources"
            ),
        ),
        (
            cluster_queue(fairSharing={"weight": "-1"}),
            'spec.fairSharing.weight: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            cluster_queue(fairSharing={"weight": "1n"}),
            'spec.fairSharing.weight: Invalid value: "1n": must be greater than 1n, or 0',
        ),
        (
            cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            (
                'spec.preemption: Invalid value: "Never": '
                "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
            ),
        ),
        (
            cluster_queue(
                flavorFungibility={
                    "preference": "BorrowingOverPreemption",
                    "whenCanBorrow": "TryNextFlavor",
                    "whenCanPreempt": "MayStopSearch",
                }
            ),
            (
                'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": '
                "may only be set when whenCanPreempt is TryNextFlavor"
            ),
        ),
        (
            cluster_queue(
                group(("a", [quota()])),
                admissionChecksStrategy={"admissionChecks": [{"name": "x", "onFlavors": ["b"]}]},
            ),
            (
                "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: "
                'Unsupported value: "b": supported values: "a"'
            ),
        ),
        (
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            (
                "spec.namespaceSelector.matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ),
        ),
        (
            cluster_queue(
                namespaceSelector={
                    "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]
                }
            ),
            (
                "spec.namespaceSelector.matchExpressions[0].values: Forbidden: "
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ),
        ),
    ],
)
def test_errors_name_path_value_and_rule(obj: dict, want: str) -> None:
    assert texts(validate_cluster_queue_create(obj)) == [want]


def test_totals_are_limited() -> None:
    many = [
        group(*((f"f{i}-{j}", [quota(f"r{i}")]) for j in range(64)), covered=[f"r{i}"])
        for i in range(5)
    ]
    got = texts(validate_cluster_queue_create(cluster_queue(*many)))
    assert got == ["spec.resourceGroups: Too many: 320: must have at most 256 items"]


def test_quotas_per_group_are_limited() -> None:
    resources = [quota(f"r{i}") for i in range(33)]
    obj = cluster_queue(group(*((f"f{j}", resources) for j in range(16))))
    got = texts(validate_cluster_queue_create(obj))
    assert got == [f"{GROUPS}.flavors: Too many: 528: must have at most 512 items"]


def test_resources_in_another_order_are_accepted_with_a_warning() -> None:
    obj = cluster_queue(group(("a", [quota("memory"), quota()]), covered=["cpu", "memory"]))
    assert validate_cluster_queue_create(obj) == []
    (warning,) = warn_cluster_queue(obj)
    assert "another order than coveredResources [cpu, memory]" in warning


def test_a_borrowing_limit_without_cohort_is_accepted_with_a_warning() -> None:
    obj = cluster_queue(group(("a", [quota(borrowingLimit="1")])), cohortName="")
    assert validate_cluster_queue_create(obj) == []
    (warning,) = warn_cluster_queue(obj)
    assert "borrowingLimit: has no effect without cohortName" in warning


def test_unknown_flavors_of_checks_may_stay_but_not_come() -> None:
    strategy = {"admissionChecks": [{"name": "x", "onFlavors": ["gone"]}]}
    old = cluster_queue(group(("a", [quota()])), admissionChecksStrategy=strategy)
    changed = copy.deepcopy(old)
    changed["spec"]["stopPolicy"] = "Hold"
    assert validate_cluster_queue_update(changed, old) == []
    strict = Gates.of(RejectUpdatesToCQWithInvalidOnFlavors=True)
    assert validate_cluster_queue_update(changed, old, strict)
    clean = cluster_queue(group(("a", [quota()])))
    assert validate_cluster_queue_update(old, clean)


def test_the_concurrent_admission_policy_is_immutable_and_limited() -> None:
    policy = {
        "migration": {
            "mode": "RetainFirstAdmission",
            "constraints": {"lastAcceptableFlavorName": "x"},
        }
    }
    obj = cluster_queue(concurrentAdmissionPolicy=policy, queueingStrategy="StrictFIFO")
    assert validate_cluster_queue_create(obj) == []
    on = Gates({Gate.CONCURRENT_ADMISSION: True})
    got = {error.path for error in validate_cluster_queue_create(obj, on)}
    at = "spec.concurrentAdmissionPolicy"
    assert got == {
        at,
        "spec.queueingStrategy",
        f"{at}.migration.constraints",
        f"{at}.migration.constraints.lastAcceptableFlavorName",
    }
    good = cluster_queue(group(("a", [quota()])))
    with_policy = cluster_queue(
        group(("a", [quota()])),
        concurrentAdmissionPolicy={"migration": {"mode": "TryPreferredFlavors"}},
    )
    assert validate_cluster_queue_create(with_policy, on) == []
    (error,) = validate_cluster_queue_update(with_policy, good)
    assert error.detail == "field is immutable"


def test_defaults_complete_a_queue_without_changing_the_argument() -> None:
    obj = {"metadata": {"name": "q"}, "spec": {"fairSharing": {"weight": 2}}}
    before = copy.deepcopy(obj)
    got = default_cluster_queue(obj)
    assert obj == before
    assert got["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    assert got["spec"] == {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "withinClusterQueue": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
        "fairSharing": {"weight": "2"},
    }
    assert default_cluster_queue(got) == got


def test_defaults_survive_wrong_types() -> None:
    for spec in ("x", 3, [], {"preemption": "x", "resourceGroups": "x", "flavorFungibility": 1}):
        default_cluster_queue({"metadata": {"finalizers": "x"}, "spec": spec})
        validate_cluster_queue_create({"metadata": {}, "spec": spec})


def test_limits_of_a_cohort_need_a_parent_and_may_exceed_the_nominal_quota() -> None:
    obj = {
        "spec": {"resourceGroups": [group(("a", [quota(borrowingLimit="1", lendingLimit="99")]))]}
    }
    got = [error.path.rpartition(".")[2] for error in validate_cohort_create(obj)]
    assert got == ["borrowingLimit", "lendingLimit"]
    obj["spec"]["parentName"] = "p"
    assert validate_cohort_update(obj, obj) == []
