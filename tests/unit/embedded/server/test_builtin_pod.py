"""Pods: defaults, admission, validation, updates, binding."""

from typing import Any

import pytest

from multiqueue.embedded.server.builtin.pod import POD_SUBRESOURCES, qos_class
from multiqueue.embedded.server.builtin.pod_defaults import pull_policy
from multiqueue.embedded.server.kinds import AdmissionRefused
from tests.unit.embedded.server.kind_builders import (
    RequestWorld,
    admitted,
    container,
    create_causes,
    created,
    pod,
    texts,
    update_causes,
)


def test_a_pod_gets_the_defaults_of_kubernetes() -> None:
    got = admitted("", "pods", pod()).obj["spec"]
    assert got == {
        "containers": [
            {
                "name": "main",
                "image": "trainer:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, want: str) -> None:
    assert pull_policy(image) == want


def test_a_limit_is_the_request_too() -> None:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": 1}}
    got = admitted("", "pods", pod(containers=[container(resources=resources)])).obj
    want = {"cpu": "1", "nvidia.com/gpu": "1"}
    assert got["spec"]["containers"][0]["resources"]["requests"] == want


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        (
            {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}},
            "Guaranteed",
        ),
        (
            {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}},
            "Burstable",
        ),
    ],
)
def test_qos_class(resources: dict, want: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == want


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        ({}, [], (None, 0)),
        ({"priorityClassName": "high"}, [priority_class("high", 9)], ("high", 9)),
        ({}, [priority_class("usual", 5, globalDefault=True)], ("usual", 5)),
    ],
    ids=["none is zero", "the class decides", "the global default applies"],
)
def test_priority_comes_from_the_class(spec: dict, classes: list, want: tuple) -> None:
    got = created("", "pods", pod(**spec), *classes)["spec"]
    assert (got.get("priorityClassName"), got["priority"]) == want


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 7}, "the integer value of priority (7) must not be provided"),
    ],
    ids=["unknown class", "own number"],
)
def test_admission_refuses(spec: dict, words: str) -> None:
    with pytest.raises(AdmissionRefused) as refusal:
        created("", "pods", pod(**spec))
    assert words in str(refusal.value)


def test_a_new_pod_is_pending_whatever_it_says() -> None:
    got = created("", "pods", {**pod(), "status": {"phase": "Running"}})
    assert got["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_so() -> None:
    got = created("", "pods", pod(schedulingGates=[{"name": "x.io/wait"}]))
    assert got["status"]["conditions"][0]["reason"] == "SchedulingGated"


def resources(**more: Any) -> dict[str, Any]:
    return pod(containers=[container(resources=more)])


WHERE = "spec.containers[0].resources"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (
            resources(requests={"cpu": "-1"}),
            f'{WHERE}.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            resources(requests={"nvidia.com/gpu": "1"}),
            f"{WHERE}.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            resources(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
            f'{WHERE}.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
            f'{WHERE}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            resources(requests={"gpus": "2"}),
            f'{WHERE}.requests: Invalid value: "gpus": must be a standard resource for containers',
        ),
        (pod(containers=[]), "spec.containers: Required value"),
        (pod(containers=[{"name": "a"}]), "spec.containers[0].image: Required value"),
        (pod(containers=[{"image": "a"}]), "spec.containers[0].name: Required value"),
        (
            pod(containers=[container(), container()]),
            'spec.containers[1].name: Duplicate value: "main"',
        ),
        (
            pod(restartPolicy="Maybe"),
            ('spec.restartPolicy: Unsupported value: "Maybe": '
            'supported values: "Always", "OnFailure", "Never"'),
        ),
        (
            pod(tolerations=[{"key": "a", "operator": "Like"}]),
            ('spec.tolerations[0].operator: Unsupported value: "Like": '
            'supported values: "Equal", "Exists"'),
        ),
        (
            pod(terminationGracePeriodSeconds=-1),
            ("spec.terminationGracePeriodSeconds: Invalid value: -1: "
            "must be greater than or equal to 0"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_mistake_is_explained(given: dict, want: str) -> None:
    assert texts(create_causes("", "pods", given)) == [want]


def test_node_affinity_is_checked() -> None:
    expressions = [
        {"key": "a", "operator": "In"},
        {"key": "b", "operator": "Exists", "values": ["x"]},
        {"key": "c", "operator": "Gt", "values": ["1", "2"]},
        {"key": "d", "operator": "Is"},
    ]
    hard = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": hard}}
    assert len(create_causes("", "pods", pod(affinity=affinity))) == 4


def test_a_pod_is_mostly_immutable() -> None:
    old = created("", "pods", pod())
    new = {**old, "spec": {**old["spec"], "nodeSelector": {"a": "b"}}}
    got = texts(update_causes("", "pods", old, new))
    assert len(got) == 1
    assert got[0].startswith("spec: Forbidden: pod updates may not change fields other than")


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [container(image="other:2")]},
        {"activeDeadlineSeconds": 60},
        {"schedulingGates": [], "nodeSelector": {"a": "b"}},
    ],
    ids=["image", "deadline", "a gated pod's gates and node selector"],
)
def test_some_fields_of_a_pod_may_change(change: dict) -> None:
    old = created("", "pods", pod(schedulingGates=[{"name": "x.io/wait"}]))
    new = {**old, "spec": {**old["spec"], **change}}
    assert texts(update_causes("", "pods", old, new)) == []


def test_gates_cannot_be_added() -> None:
    old = created("", "pods", pod())
    new = {**old, "spec": {**old["spec"], "schedulingGates": [{"name": "x.io/wait"}]}}
    got = texts(update_causes("", "pods", old, new))
    assert got == ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed"]


def bind(obj: dict[str, Any], target: str) -> dict[str, Any]:
    binding = POD_SUBRESOURCES[0]
    assert binding.apply is not None
    return binding.apply(obj, {"target": {"kind": "Node", "name": target}}, RequestWorld())


def test_binding_puts_a_pod_on_a_node_once() -> None:
    bound = bind(created("", "pods", pod()), "n1")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(ValueError, match='is already assigned to node "n1"'):
        bind(bound, "n2")


def test_a_gated_pod_cannot_be_bound() -> None:
    gated = created("", "pods", pod(schedulingGates=[{"name": "x.io/wait"}]))
    with pytest.raises(ValueError, match="has non-empty"):
        bind(gated, "n1")
