from __future__ import annotations

from multiqueue.api.conversion.convert import convert
from multiqueue.api.names import V1BETA1, V1BETA2


def up(kind: str, **body: object) -> dict:
    obj = {"apiVersion": V1BETA1, "kind": kind, "metadata": {"name": "x"}, **body}
    return convert(obj, V1BETA2)


def down(kind: str, **body: object) -> dict:
    obj = {"apiVersion": V1BETA2, "kind": kind, "metadata": {"name": "x"}, **body}
    return convert(obj, V1BETA1)


def test_cohort_is_renamed() -> None:
    assert up("ClusterQueue", spec={"cohort": "a"})["spec"] == {"cohortName": "a"}
    assert down("ClusterQueue", spec={"cohortName": "a"})["spec"] == {"cohort": "a"}


def test_the_plain_list_of_checks_becomes_a_strategy() -> None:
    got = up("ClusterQueue", spec={"admissionChecks": ["a", "b"]})["spec"]
    assert got == {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}
    assert up("ClusterQueue", spec={"admissionChecks": []})["spec"] == {}


def test_the_plain_list_of_checks_wins_over_a_strategy() -> None:
    strategy = {"admissionChecks": [{"name": "b", "onFlavors": ["c"]}]}
    got = up("ClusterQueue", spec={"admissionChecks": ["a"], "admissionChecksStrategy": strategy})
    assert got["spec"] == {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}
    got = up("ClusterQueue", spec={"admissionChecks": [], "admissionChecksStrategy": strategy})
    assert got["spec"] == {"admissionChecksStrategy": strategy}


def test_what_is_empty_is_left_out() -> None:
    spec = {
        "resourceGroups": [],
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": []},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": []}]},
    }
    want = {
        "namespaceSelector": {},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]},
    }
    assert up("ClusterQueue", spec=spec)["spec"] == want
    got = up("ClusterQueue", spec={"admissionChecksStrategy": {"admissionChecks": []}})["spec"]
    assert got == {"admissionChecksStrategy": {}}
    assert up("Cohort", spec={"resourceGroups": []})["spec"] == {}
    assert up("LocalQueue", spec=None)["spec"] == {}


def test_what_is_empty_but_of_another_type_stays_to_be_refused() -> None:
    spec = {
        "resourceGroups": {},
        "namespaceSelector": {"matchLabels": [], "matchExpressions": {}},
        "admissionChecksStrategy": {"admissionChecks": {}},
    }
    assert up("ClusterQueue", spec=spec)["spec"] == spec


def test_a_check_without_a_name_has_an_empty_one() -> None:
    strategy = {"admissionChecks": [{"onFlavors": ["a"]}]}
    got = up("ClusterQueue", spec={"admissionChecksStrategy": strategy})["spec"]
    want = {"admissionChecks": [{"name": "", "onFlavors": ["a"]}]}
    assert got == {"admissionChecksStrategy": want}


def test_quantities_of_pod_templates_are_spelled_as_go_does() -> None:
    written = {"cpu": 2, "memory": "1024Mi", "x": "0.5", "bad": "x"}
    read = {"cpu": "2", "memory": "1Gi", "x": "500m", "bad": "x"}

    def pod_sets(quantities: dict) -> list[dict]:
        resources = {"requests": quantities, "limits": quantities}
        containers = [{"name": "c", "resources": resources}]
        pod = {
            "initContainers": containers,
            "containers": containers,
            "resources": resources,
            "overhead": quantities,
        }
        return [{"template": {"metadata": {}, "spec": pod}}]

    got = up("Workload", spec={"podSets": pod_sets(dict(written))})
    assert got["spec"]["podSets"] == pod_sets(read)


def test_old_words_of_fungibility_mean_stop() -> None:
    spec = {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}
    want = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    assert up("ClusterQueue", spec=spec)["spec"]["flavorFungibility"] == want


def test_empty_enums_are_defaults() -> None:
    got = up(
        "ClusterQueue", spec={"queueingStrategy": "", "preemption": {"withinClusterQueue": ""}}
    )
    want = {"queueingStrategy": "BestEffortFIFO", "preemption": {"withinClusterQueue": "Never"}}
    assert got["spec"] == want


def test_priority_class_and_its_source_become_a_reference() -> None:
    spec = {"priorityClassName": "p", "priorityClassSource": "scheduling.k8s.io/priorityclass"}
    want = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}
    got = up("Workload", spec=spec)
    assert got["spec"] == {"priorityClassRef": want}
    assert convert(got, V1BETA1)["spec"] == spec


def test_a_class_without_source_is_dropped_as_upstream_does() -> None:
    assert up("Workload", spec={"priorityClassName": "p"})["spec"] == {}


def test_the_misspelt_time_is_renamed() -> None:
    got = up("Workload", status={"accumulatedPastExexcutionTimeSeconds": 5})["status"]
    assert got == {"accumulatedPastExecutionTimeSeconds": 5}


def test_what_v1beta1_cannot_say_travels_in_an_annotation() -> None:
    got = down("Workload", spec={"preemptionGates": [{"name": "g"}]})
    assert got["spec"] == {}
    want = '{"preemptionGates":[{"name":"g"}]}'
    assert got["metadata"]["annotations"] == {"kueue.x-k8s.io/v1beta2-only-fields": want}
    back = convert(got, V1BETA2)
    assert back["spec"] == {"preemptionGates": [{"name": "g"}]}
    assert back["metadata"] == {"name": "x"}


def test_an_unreadable_annotation_stays() -> None:
    metadata = {"name": "x", "annotations": {"kueue.x-k8s.io/v1beta2-only-fields": "{"}}
    assert up("Workload", metadata=metadata)["metadata"] == metadata


def test_kubeconfig_moves_into_cluster_source() -> None:
    """M-15."""
    spec = {"kubeConfig": {"location": "w1", "locationType": "Secret"}}
    assert up("MultiKueueCluster", spec=spec)["spec"] == {"clusterSource": spec}
    assert down("MultiKueueCluster", spec={"clusterSource": spec})["spec"] == spec


def test_topology_domains_become_slices() -> None:
    domains = [{"values": ["b", "h-1"], "count": 2}, {"values": ["b", "h-2"], "count": 2}]
    assignment = {"levels": ["block", "host"], "domains": domains}
    status = {
        "admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": assignment}]}
    }
    got = up("Workload", status=status)["status"]["admission"]["podSetAssignments"][0]
    assert got["topologyAssignment"] == {
        "levels": ["block", "host"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "b"},
                    {"individual": {"prefix": "h-", "roots": ["1", "2"]}},
                ],
                "podCounts": {"universal": 2},
            }
        ],
    }
    assert down("Workload", status=up("Workload", status=status)["status"])["status"] == status


def test_a_few_bytes_cannot_ask_for_any_number_of_domains() -> None:
    part = {"domainCount": 2**62, "valuesPerLevel": [], "podCounts": {"universal": 1}}
    assignment = {"topologyAssignment": {"levels": [], "slices": [part, part]}}
    status = {"admission": {"podSetAssignments": [assignment]}}
    assert down("Workload", status=status)["status"] == status


def test_a_strategy_without_rules_keeps_what_else_it_says() -> None:
    spec = {"admissionChecks": ["a"], "admissionChecksStrategy": {"more": 1}}
    want = {"admissionChecks": [{"name": "a"}], "more": 1}
    assert up("ClusterQueue", spec=spec)["spec"] == {"admissionChecksStrategy": want}


def test_what_else_a_cluster_source_says_stays_in_it() -> None:
    spec = {"clusterSource": {"kubeConfig": {"location": "w"}, "more": {"a": 1}}}
    there = down("MultiKueueCluster", spec=spec)
    assert there["spec"] == {"kubeConfig": {"location": "w"}}
    assert convert(there, V1BETA2)["spec"] == spec
