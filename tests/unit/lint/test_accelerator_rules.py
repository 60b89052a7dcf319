"""What else decides on accelerators: other quotas, rights, weights, bare nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lint.objects import cluster_queue, flavor, local_queue, node, obj, quota, told

GPU = "nvidia.com/gpu"
FAIR = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
SECTION = "admissionFairSharing: {usageHalfLifeTime: 1h%s}\n"


def resource_quota(*keys: str) -> dict[str, Any]:
    spec = {"hard": dict.fromkeys(keys, "8")}
    return obj("ResourceQuota", "limits", spec, namespace="n", version="v1")


@pytest.mark.parametrize(
    ("limits", "queues", "want"),
    [
        ([f"requests.{GPU}"], [local_queue()], True),
        (["requests.cpu", "pods"], [local_queue()], False),
        ([f"requests.{GPU}"], [local_queue(namespace="other")], False),
    ],
    ids=["accelerators in a queued namespace", "other resources", "no queue in the namespace"],
)
def test_a_resource_quota_on_accelerators_is_found_where_jobs_are_queued(
    limits: list[str], queues: list[dict[str, Any]], *, want: bool
) -> None:
    got = told("resource-quota-on-accelerators", resource_quota(*limits), *queues)
    assert got == (
        [f'spec.hard[requests.{GPU}]: limits {GPU} in namespace "n", which has LocalQueue "q"']
        if want
        else []
    )


def role(verbs: list[str], resources: list[str], group: str, **labels: str) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    version = "rbac.authorization.k8s.io/v1"
    return obj("ClusterRole", "r", version=version, rules=[rule], labels=labels)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (role(["*"], ["clusterqueues"], "kueue.x-k8s.io"), 1),
        (role(["*"], ["*"], "*"), 1),
        (role(["get", "list"], ["*"], "kueue.x-k8s.io"), 0),
        (role(["*"], ["*"], "apps"), 0),
        (role(["*"], ["*"], "*", **{"kubernetes.io/bootstrapping": "rbac-defaults"}), 0),
    ],
    ids=["queues", "everything", "verbs are listed", "another group", "of Kubernetes"],
)
def test_every_verb_on_queues_is_found(found: dict[str, Any], want: int) -> None:
    assert len(told("role-wildcard", found)) == want


def test_fair_admission_needs_its_section() -> None:
    rule, queue = "fair-admission-not-configured", cluster_queue("cq", **FAIR)
    assert told(rule, queue, config="namespace: kueue-system\n") == [
        (
            "spec.admissionScope.admissionMode: is UsageBasedAdmissionFairSharing, but the "
            "configuration has no admissionFairSharing"
        )
    ]
    assert not told(rule, queue, config=SECTION % "")
    assert not told(rule, queue), "the configuration is not known"
    assert not told(rule, cluster_queue("cq"), config="namespace: kueue-system\n")


@pytest.mark.parametrize(
    ("weights", "want"),
    [("", 1), (", resourceWeights: {memory: 0}", 0), (", resourceWeights: {memory: 0.001}", 1)],
    ids=["by default", "not at all", "still by the thousand bytes"],
)
def test_bytes_must_not_weigh_like_devices(weights: str, want: int) -> None:
    queue = cluster_queue("cq", quota(GPU), quota("memory", "1Ti"), **FAIR)
    assert len(told("fair-admission-weighs-bytes", queue, config=SECTION % weights)) == want


@pytest.mark.parametrize(("limit", "want"), [("8", 1), ("7", 0)], ids=["all", "all but one"])
def test_a_lending_limit_of_everything_is_found(limit: str, want: int) -> None:
    queue = cluster_queue("cq", quota(GPU, "8", lendingLimit=limit), cohortName="c")
    assert len(told("lends-everything", queue)) == want


def gpu_node(name: str, **fields: Any) -> dict[str, Any]:
    made = node(name, **fields)
    made["status"]["allocatable"][GPU] = "8"
    return made


def test_nodes_with_accelerators_should_have_a_taint() -> None:
    taint = {"key": GPU, "effect": "NoSchedule"}
    objects = [flavor(), cluster_queue("cq", quota(GPU)), gpu_node("guarded", taints=[taint])]
    rule = "accelerator-nodes-without-taint"
    assert not told(rule, *objects)
    assert not told(rule, *objects, node("without-devices"))
    assert told(rule, *objects, gpu_node("bare")) == [
        f'spec.nodeLabels: 1 of 2 nodes with {GPU} have no taint, such as "bare"'
    ]
