from __future__ import annotations

import copy
from typing import Any

import pytest

from multiqueue.api.config import Gates
from multiqueue.api.config.gates import Gate
from multiqueue.api.validation.workload import default_workload, validate_workload_create
from multiqueue.api.validation.workload_update import validate_workload_update

RESERVED = {"type": "QuotaReserved", "status": "True"}


def pod_set(name: str = "main", count: int = 2, **fields: Any) -> dict:
    return {"name": name, "count": count, "template": {"spec": {"containers": []}}, **fields}


def with_requests(**requests: str) -> dict:
    container = {"name": "c", "resources": {"requests": requests}}
    return pod_set(template={"spec": {"containers": [container]}})


def workload(
    *pod_sets: dict, status: dict | None = None, annotations: dict | None = None, **spec: Any
) -> dict:
    return {
        "metadata": {"name": "w", "namespace": "n", "annotations": annotations or {}},
        "spec": {"podSets": list(pod_sets) or [pod_set()], "queueName": "q", **spec},
        "status": status or {},
    }


def admitted(obj: dict, **fields: Any) -> dict:
    result = copy.deepcopy(obj)
    assignments = [{"name": p["name"], "count": p["count"]} for p in obj["spec"]["podSets"]]
    result["status"] = {
        "conditions": [RESERVED],
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignments},
        **fields,
    }
    return result


def texts(errors: list) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (workload(pod_set(minCount=1)), []),
        (
            workload(pod_set(minCount=3)),
            [
                (
                    "spec.podSets[0].minCount: Invalid value: 3: "
                    "minCount should be positive and less or equal to count"
                )
            ],
        ),
        (
            workload(pod_set("a", minCount=1), pod_set("b", minCount=1)),
            ["spec.podSets: Invalid value: 2: at most one podSet can use minCount"],
        ),
        (
            workload(pod_set(minCount=1), annotations={"kueue.x-k8s.io/elastic-job": "true"}),
            ["spec.podSets[0].minCount: Forbidden: elastic jobs cannot use partial admission"],
        ),
        (
            workload(with_requests(cpu="-1")),
            [
                (
                    "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid "
                    'value: "-1": '
                    "must be greater than or equal to 0"
                )
            ],
        ),
        (
            workload(with_requests(pods="1")),
            [
                (
                    "spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid "
                    'value: "pods": '
                    "the key is reserved for internal Kueue use"
                )
            ],
        ),
        (
            workload(
                priorityClassRef={"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "p"}
            ),
            [
                (
                    "spec.priority: Required value: priority should not be nil when "
                    "priorityClassRef is set"
                ),
                (
                    'spec.priorityClassRef.kind: Invalid value: "PriorityClass": '
                    "must be WorkloadPriorityClass in group kueue.x-k8s.io"
                ),
            ],
        ),
        (
            workload(status={"conditions": [RESERVED]}),
            ["status.admission: Required value: must be set while QuotaReserved is True"],
        ),
        (
            workload(status={"clusterName": "a", "nominatedClusterNames": ["a"]}),
            [
                (
                    "status.nominatedClusterNames: Forbidden: "
                    "clusterName and nominatedClusterNames are mutually exclusive"
                )
            ],
        ),
        (
            workload(
                status={
                    "reclaimablePods": [{"name": "x", "count": 1}, {"name": "main", "count": 3}]
                }
            ),
            [
                'status.reclaimablePods[x].name: Unsupported value: "x": supported values: "main"',
                (
                    "status.reclaimablePods[main].count: Invalid value: 3: "
                    "should be less or equal to 2"
                ),
            ],
        ),
        (
            workload(status={"admissionChecks": [{"name": "c", "podSetUpdates": [{"name": "x"}]}]}),
            [
                (
                    "status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "
                    '"x": supported values: "main"'
                )
            ],
        ),
        (
            workload(annotations={"kueue.x-k8s.io/admission-gated-by": "a.com/x,nope,a.com/x"}),
            [
                (
                    "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "
                    '"a.com/x,nope,a.com/x": '
                    'gate "nope": must be a domain-prefixed path (such as "acme.io/foo")'
                ),
                (
                    "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "
                    '"a.com/x,nope,a.com/x": '
                    "duplicate gate name: a.com/x"
                ),
            ],
        ),
    ],
)
def test_new_workloads(obj: dict, want: list[str]) -> None:
    assert texts(validate_workload_create(obj)) == want


def test_an_admitted_workload_is_right() -> None:
    assert validate_workload_create(admitted(workload())) == []


def test_assignments_match_the_pod_sets() -> None:
    obj = admitted(workload())
    obj["status"]["admission"]["podSetAssignments"] = [
        {"name": "x", "count": 3, "resourceUsage": {"cpu": "1"}},
        {"name": "main", "count": 2, "resourceUsage": {"gpu": "4", "x": "?"}},
    ]
    got = [error.path for error in validate_workload_create(obj)]
    at = "status.admission.podSetAssignments"
    assert got == [at, f"{at}[0].name", f"{at}[0].resourceUsage[cpu]", f"{at}[1].resourceUsage[x]"]


@pytest.mark.parametrize(
    ("request_", "paths"),
    [
        ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}, []),
        ({"podSetSliceRequiredTopology": "rack"}, ["podSetSliceSize"]),
        ({"podSetSliceSize": 0}, ["podSetSliceRequiredTopology", "podSetSliceSize"]),
        (
            {
                "podSetSliceRequiredTopology": "rack",
                "podSetSliceSize": 2,
                "podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}],
            },
            ["podsetSliceRequiredTopologyConstraints"],
        ),
    ],
)
def test_slices_are_complete(request_: dict, paths: list[str]) -> None:
    obj = workload(pod_set(topologyRequest=request_))
    got = [error.path for error in validate_workload_create(obj)]
    assert got == [f"spec.podSets[0].topologyRequest.{path}" for path in paths]
    assert validate_workload_create(obj, Gates.of(TASValidateWorkloadSliceSize=False)) == []


def test_labels_and_annotations_of_templates() -> None:
    template = {"metadata": {"labels": {"a b": "c"}, "annotations": {"x y": "z"}}}
    obj = workload(pod_set(template=template))
    assert len(validate_workload_create(obj)) == 2
    assert validate_workload_create(obj, Gates.of(WorkloadValidationForPodSetMetadata=False)) == []


def test_negative_requests_are_allowed_without_the_gate() -> None:
    gates = Gates.of(WorkloadValidateResourcesAreNonNegative=False)
    assert validate_workload_create(workload(with_requests(cpu="-1")), gates) == []


def test_a_boost_counts_only_with_its_gate() -> None:
    obj = workload(annotations={"kueue.x-k8s.io/priority-boost": "high"})
    assert validate_workload_create(obj) == []
    assert validate_workload_create(obj, Gates.of(PriorityBoost=True))
    obj["metadata"]["annotations"]["kueue.x-k8s.io/priority-boost"] = "-5"
    assert validate_workload_create(obj, Gates.of(PriorityBoost=True)) == []


def test_defaults_name_a_lone_pod_set() -> None:
    obj = {"spec": {"podSets": [{"minCount": 1}]}}
    assert default_workload(obj)["spec"]["podSets"] == [{"minCount": 1, "name": "main"}]
    gates = Gates.of(PartialAdmission=False)
    assert default_workload(obj, gates)["spec"]["podSets"] == [{"name": "main"}]
    assert obj == {"spec": {"podSets": [{"minCount": 1}]}}


def test_pod_sets_and_queue_stay_while_quota_is_reserved() -> None:
    old = admitted(workload())
    new = copy.deepcopy(old)
    new["spec"]["podSets"][0]["count"] = 3
    new["spec"]["queueName"] = "other"
    got = [error.path for error in validate_workload_update(new, old)]
    assert "spec.podSets" in got
    assert "spec.queueName" in got
    free = workload()
    assert validate_workload_update(workload(pod_set(count=9), queueName="other"), free) == []


def test_empty_objects_are_no_change_of_pod_sets() -> None:
    old = admitted(workload())
    new = copy.deepcopy(old)
    new["spec"]["podSets"][0]["template"]["metadata"] = {}
    assert validate_workload_update(new, old) == []


def test_a_workload_may_shrink_while_quota_is_reserved() -> None:
    old = admitted(workload())
    new = copy.deepcopy(old)
    new["spec"]["podSets"][0]["count"] = 1
    assert validate_workload_update(new, old) == []
    off = Gates({Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES: False})
    assert [e.path for e in validate_workload_update(new, old, off)] == ["spec.podSets"]


def test_reclaimable_pods_of_a_job_that_shrank() -> None:
    """E-186."""
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    two, one = ([{"name": "main", "count": count}] for count in (2, 1))
    old = admitted(workload(annotations=elastic), reclaimablePods=two)
    smaller = copy.deepcopy(old)
    smaller["spec"]["podSets"][0]["count"] = 1
    assert validate_workload_update(smaller, old) == []
    fewer = copy.deepcopy(smaller)
    fewer["status"]["reclaimablePods"] = one
    assert validate_workload_update(fewer, smaller) == []
    assert [e.path for e in validate_workload_update(smaller, fewer)] == [
        "status.reclaimablePods[main].count"
    ]
    as_large = admitted(workload(annotations=elastic), reclaimablePods=one)
    assert [e.path for e in validate_workload_update(as_large, old)] == [
        "status.reclaimablePods[main].count"
    ]


def test_an_admission_that_is_missing_may_stay_so() -> None:
    old = workload(status={"conditions": [RESERVED]})
    assert validate_workload_update(old, old) == []
    assert [e.path for e in validate_workload_update(old, workload())] == ["status.admission"]


def test_types_of_conditions_are_qualified_names() -> None:
    long = workload(status={"conditions": [{**RESERVED, "type": "x" * 64, "status": "False"}]})
    assert [e.path for e in validate_workload_update(long, workload())] == [
        "status.conditions[0].type"
    ]


def test_an_admission_counts_with_the_quota_only() -> None:
    other = admitted(workload())
    other["status"]["admission"]["podSetAssignments"][0]["name"] = "other"
    assert validate_workload_create(other)
    del other["status"]["conditions"]
    assert validate_workload_create(other) == []


def test_an_admission_is_set_and_removed_as_a_whole() -> None:
    old = admitted(workload())
    new = copy.deepcopy(old)
    assignment = new["status"]["admission"]["podSetAssignments"][0]
    assignment["topologyAssignment"] = {"levels": ["rack"], "slices": []}
    assignment["delayedTopologyRequest"] = "Ready"
    assert validate_workload_update(new, old) == []
    assignment["flavors"] = {"cpu": "x"}
    assert [e.path for e in validate_workload_update(new, old)] == ["status.admission"]
    assert validate_workload_update(workload(), old) == []


def test_reclaimable_pods_do_not_come_back() -> None:
    old = admitted(workload(), reclaimablePods=[{"name": "main", "count": 2}])
    fewer = admitted(workload(), reclaimablePods=[{"name": "main", "count": 1}])
    assert [str(e) for e in validate_workload_update(fewer, old)] == [
        "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"
    ]
    assert [str(e) for e in validate_workload_update(admitted(workload()), old)] == [
        "status.reclaimablePods[main]: Required value: cannot be removed while quota is reserved"
    ]
    assert validate_workload_update(old, fewer) == []


def test_updates_of_a_ready_check_stay() -> None:
    """E-153."""

    def state(state_: str, label: str) -> dict:
        update = {"name": "main", "labels": {"a": label}}
        return {"admissionChecks": [{"name": "c", "state": state_, "podSetUpdates": [update]}]}

    old = workload(status=state("Ready", "x"))
    assert validate_workload_update(workload(status=state("Ready", "y")), old)
    assert validate_workload_update(workload(status=state("Pending", "y")), old) == []


def test_the_cluster_is_one_of_those_nominated() -> None:
    """M-19, M-20."""
    nominated = workload(status={"nominatedClusterNames": ["a"]})
    assert validate_workload_update(workload(status={"clusterName": "a"}), nominated) == []
    (error,) = validate_workload_update(workload(status={"clusterName": "b"}), nominated)
    assert "must be one of the nominatedClusterNames ['a']" in error.detail
    on_a = workload(status={"clusterName": "a"})
    assert validate_workload_update(workload(), on_a) == []


def test_a_replacement_slice_may_go_straight_to_its_cluster() -> None:
    """M-20."""
    annotations = {"kueue.x-k8s.io/workload-slice-replacement-for": "n/old"}
    new = workload(annotations=annotations, status={"clusterName": "a"})
    assert validate_workload_update(new, workload(annotations=annotations)) == []


def test_admission_gates_only_open() -> None:
    key = "kueue.x-k8s.io/admission-gated-by"
    old = workload(annotations={key: "a.com/x,a.com/y"})
    assert validate_workload_update(workload(annotations={key: "a.com/y"}), old) == []
    assert validate_workload_update(workload(), old) == []
    spaced = workload(annotations={key: "a.com/y, a.com/x"})
    assert validate_workload_update(spaced, old) == []
    (error,) = validate_workload_update(old, workload(annotations={key: " "}))
    assert error.detail == "cannot add admission gate after creation"
    (error,) = validate_workload_update(old, workload(annotations={key: "a.com/x"}))
    assert error.detail == "can only remove gates, not add new ones"
