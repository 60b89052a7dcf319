"""Reading and writing through the other version loses nothing."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.conversion.convert import convert, converters
from multiqueue.api.names import V1BETA1, V1BETA2
from multiqueue.api.topology_encoding import compress_domains, expand_domains

NAMES = st.text("abcdefghij-", min_size=1, max_size=6)
# What stands in an unknown field does not matter, only that it comes back: a few shapes are enough,
# and quick to draw many times in one object.
JSON = st.sampled_from(
    [None, True, 0, 7, "", "x", [], [None], ["a", {"b": 1}], {}, {"a": {"b": []}}]
)
UNKNOWN = st.dictionaries(st.sampled_from(["xa", "xb", "x-c"]), JSON, max_size=2)
QUANTITIES = st.sampled_from(["0", "1", "500m", "2Gi", "100E", "1e3"])


def optional(**fields: st.SearchStrategy) -> st.SearchStrategy[dict]:
    return st.builds(
        lambda known, extra: {**extra, **known}, st.fixed_dictionaries({}, optional=fields), UNKNOWN
    )


def objects(kind: str, version: str, **fields: st.SearchStrategy) -> st.SearchStrategy[dict]:
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    return optional(**fields).map(lambda body: {**body, **copy.deepcopy(head)})


DOMAINS = st.integers(1, 3).flatmap(
    lambda n: st.tuples(
        st.lists(NAMES, min_size=n, max_size=n),
        st.lists(
            st.tuples(st.lists(NAMES, min_size=n, max_size=n).map(tuple), st.integers(1, 4)),
            max_size=4,
        ),
    )
)
POD_SETS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "template": st.just(
                {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}}
            ),
        },
        optional={
            "count": st.integers(0, 9),
            "topologyRequest": optional(
                required=NAMES,
                podsetSliceRequiredTopologyConstraints=st.just([{"topology": "rack", "size": 2}]),
            ),
        },
    ),
    max_size=3,
    unique_by=lambda pod_set: pod_set["name"],
)
WORKLOADS = objects(
    "Workload",
    V1BETA2,
    spec=optional(
        queueName=NAMES,
        priority=st.integers(),
        preemptionGates=st.just([{"name": "g"}]),
        priorityClassRef=st.sampled_from(
            [
                {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "p"},
                {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"},
                {"group": "example.com", "kind": "Odd", "name": "p"},
            ]
        ),
        podSets=POD_SETS,
    ),
    status=optional(
        accumulatedPastExecutionTimeSeconds=st.integers(0, 9),
        clusterName=NAMES,
        preemptionGates=st.just([{"name": "g", "position": "Open"}]),
        admission=optional(
            podSetAssignments=st.lists(
                st.fixed_dictionaries(
                    {"name": NAMES, "resourceUsage": st.just({"cpu": "1500m"})},
                    optional={"topologyAssignment": DOMAINS.map(lambda d: compress_domains(*d))},
                ),
                max_size=2,
            )
        ),
    ),
)
CLUSTER_QUEUES = objects(
    "ClusterQueue",
    V1BETA2,
    spec=optional(
        cohortName=NAMES,
        admissionChecksStrategy=st.just({"admissionChecks": [{"name": "mk"}]}),
        concurrentAdmissionPolicy=st.just({"migration": {"mode": "TryPreferredFlavors"}}),
        flavorFungibility=st.just({"whenCanBorrow": "TryNextFlavor"}),
        fairSharing=QUANTITIES.map(lambda weight: {"weight": weight}),
        resourceGroups=QUANTITIES.map(
            lambda quota: [{"flavors": [{"resources": [{"name": "cpu", "nominalQuota": quota}]}]}]
        ),
    ),
    status=optional(pendingWorkloads=st.integers(0, 9)),
)
OTHERS = st.one_of(
    objects(
        "LocalQueue", V1BETA2, spec=optional(clusterQueue=NAMES), status=optional(flavorsUsage=JSON)
    ),
    objects("Cohort", V1BETA2, spec=optional(parentName=NAMES)),
    objects("ResourceFlavor", V1BETA2, spec=optional(topologyName=NAMES)),
    objects("AdmissionCheck", V1BETA2, spec=optional(controllerName=NAMES)),
    objects("Topology", V1BETA2, spec=optional(levels=st.just([{"nodeLabel": "rack"}]))),
    objects("WorkloadPriorityClass", V1BETA2, value=st.integers()),
    objects(
        "MultiKueueConfig",
        V1BETA2,
        spec=optional(clusters=st.lists(NAMES), quotaManagement=st.just("Manual")),
    ),
    objects(
        "MultiKueueCluster",
        V1BETA2,
        spec=st.one_of(
            NAMES.map(
                lambda n: {
                    "clusterSource": {"kubeConfig": {"location": n, "locationType": "Secret"}}
                }
            ),
            NAMES.map(lambda n: {"clusterSource": {"clusterProfileRef": {"name": n}}}),
        ),
    ),
)


def without_empty_spec(obj: dict) -> dict:
    """An absent spec comes back as one with nothing but defaults in it."""
    if obj.get("spec") in ({}, {"active": True}, {"retryDelayMinutes": 15}):
        return {name: value for name, value in obj.items() if name != "spec"}
    return obj


@settings(max_examples=200)
@given(st.one_of(WORKLOADS, CLUSTER_QUEUES, OTHERS))
def test_v1beta2_survives_a_trip_through_v1beta1(obj: dict) -> None:
    before = copy.deepcopy(obj)
    there = convert(obj, V1BETA1)
    assert obj == before
    json.dumps(there)
    assert without_empty_spec(convert(there, V1BETA2)) == without_empty_spec(obj)


OLD_WORKLOADS = objects(
    "Workload",
    V1BETA1,
    spec=st.one_of(
        optional(queueName=NAMES),
        optional(
            priorityClassName=NAMES,
            priorityClassSource=st.just("kueue.x-k8s.io/workloadpriorityclass"),
        ).filter(lambda spec: "priorityClassSource" in spec),
        st.just({"priorityClassName": "a", "priorityClassSource": "example.com/odd"}),
    ),
    status=optional(
        accumulatedPastExexcutionTimeSeconds=st.integers(0, 9),
        admission=optional(
            podSetAssignments=DOMAINS.map(
                lambda d: [
                    {
                        "name": "main",
                        "topologyAssignment": {
                            "levels": d[0],
                            "domains": [{"values": list(v), "count": c} for v, c in d[1]],
                        },
                    }
                ]
            )
        ),
    ),
)
OLD_OTHERS = st.one_of(
    objects(
        "ClusterQueue",
        V1BETA1,
        spec=optional(cohort=NAMES),
        status=optional(pendingWorkloadsStatus=st.just({"clusterQueuePendingWorkload": []})),
    ),
    objects(
        "LocalQueue", V1BETA1, status=optional(flavorUsage=JSON, flavors=st.just([{"name": "f"}]))
    ),
    objects(
        "AdmissionCheck",
        V1BETA1,
        spec=optional(controllerName=NAMES, retryDelayMinutes=st.integers(1, 99)),
    ),
    objects(
        "MultiKueueCluster",
        V1BETA1,
        spec=NAMES.map(lambda n: {"kubeConfig": {"location": n, "locationType": "Path"}}),
    ),
    objects("MultiKueueConfig", V1BETA1, spec=optional(clusters=st.lists(NAMES))),
)


def with_old_defaults(obj: dict) -> dict:
    """What v1beta1 always has."""
    if obj["kind"] == "AdmissionCheck" and "spec" in obj:
        obj["spec"].setdefault("retryDelayMinutes", 15)
    if obj["kind"] == "MultiKueueCluster":
        obj.setdefault("spec", {"kubeConfig": {"location": "", "locationType": ""}})
    return without_empty_spec(obj)


@settings(max_examples=200)
@given(st.one_of(OLD_WORKLOADS, OLD_OTHERS))
def test_v1beta1_survives_a_trip_through_v1beta2(obj: dict) -> None:
    there = convert(obj, V1BETA2)
    back = convert(there, V1BETA1)
    assert with_old_defaults(back) == with_old_defaults(copy.deepcopy(obj))


@settings(max_examples=300)
@given(st.sampled_from(sorted(converters())), JSON, JSON, st.sampled_from([V1BETA1, V1BETA2]))
def test_no_object_makes_it_fail(
    kind: tuple[str, str], spec: object, status: object, version: str
) -> None:
    obj = {
        "apiVersion": version,
        "kind": kind[1],
        "metadata": {"name": "x"},
        "spec": spec,
        "status": status,
    }
    for wanted in (V1BETA1, V1BETA2):
        assert convert(obj, wanted)["apiVersion"] == wanted


@given(DOMAINS)
def test_topology_encoding_is_exact(case: tuple[list[str], list]) -> None:
    levels, domains = case
    assert expand_domains(compress_domains(levels, domains)) == domains


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a version"):
        convert({"kind": "Workload"}, "v2")
