"""AppWrappers: pod sets of their components, and fields beside them."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Toleration
from multiqueue.jobs.appwrapper.components import ComponentPodSet, list_pod_sets
from multiqueue.jobs.appwrapper.templates import workload_template
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import load_kind
from tests.job_kinds import ROWS

ROW = ROWS["workload.codeflare.dev/appwrapper"]
SUPPORTED = load_kind(ROW)
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}
INDEX = "workload.codeflare.dev.appwrapper/tas-pod-index-label"


def kind() -> TemplateKind:
    assert isinstance(SUPPORTED.integration, TemplateKind)
    return SUPPORTED.integration


def job_component(*, path: str = "template.spec.template", **pod_set: Any) -> dict[str, Any]:
    obj = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE}}
    return {"podSets": [{"path": path, **pod_set}], "template": obj}


def make(*components: dict[str, Any], name: str = "wrap", **status: Any) -> Job:
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"components": list(components)},
        "status": status,
    }


def inferred(api_version: str, obj_kind: str, **spec: Any) -> list[tuple[Any, int]]:
    obj = {"apiVersion": api_version, "kind": obj_kind, "spec": spec}
    return [(pod_set.path, pod_set.count) for pod_set in list_pod_sets({"template": obj})]


def test_pod_sets_are_numbered_over_all_components() -> None:
    service = {"template": {"apiVersion": "v1", "kind": "Service", "spec": {}}}
    job = make(job_component(replicas=2), service, job_component())
    got = [(pod_set.name, pod_set.count) for pod_set in kind().pod_sets(job)]
    assert got == [("wrap-0", 2), ("wrap-1", 1)]


def test_a_pod_and_replicated_kinds_are_known() -> None:
    assert inferred("v1", "Pod", **TEMPLATE["spec"]) == [((), 1)]
    assert inferred("apps/v1", "StatefulSet", template=TEMPLATE, replicas=3) == [
        (("spec", "template"), 3)
    ]
    assert inferred("batch/v1", "Job", template=TEMPLATE, parallelism=4, completions=3) == [
        (("spec", "template"), 3)
    ]


def test_groups_of_known_kinds_are_known() -> None:
    group = {"replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}}
    assert [
        count for _, count in inferred("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[group])
    ] == [6]
    roles = {"Worker": {"replicas": 2, "template": TEMPLATE}, "Master": {"template": TEMPLATE}}
    assert inferred("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=roles) == [
        (("spec", "pytorchReplicaSpecs", "Master", "template"), 1),
        (("spec", "pytorchReplicaSpecs", "Worker", "template"), 2),
    ]
    cluster = {
        "headGroupSpec": {"template": TEMPLATE},
        "workerGroupSpecs": [{"replicas": 0, "template": TEMPLATE}],
    }
    assert [count for _, count in inferred("ray.io/v1", "RayJob", rayClusterSpec=cluster)] == [1, 0]


def test_a_path_may_have_positions() -> None:
    component = {
        "podSets": [{"path": "template.spec.groups[1].template", "annotations": {INDEX: "rank"}}],
        "template": {"spec": {"groups": [{}, {"template": TEMPLATE}]}},
    }
    assert list_pod_sets(component) == [
        ComponentPodSet(
            path=("spec", "groups", 1, "template"), count=1, annotations={INDEX: "rank"}
        )
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("template.spec.nothing", 'the path "template.spec.nothing" of a component leads to no'),
        ("spec.template", 'the path "spec.template" of a component is not like'),
        ("template[x]", 'the path "template[x]" of a component is not like'),
    ],
)
def test_a_path_without_a_template_is_an_error(path: str, words: str) -> None:
    """J-472."""
    with pytest.raises(InvalidJobError) as error:
        kind().pod_sets(make(job_component(path=path)))
    assert words in str(error.value)


def test_one_without_pods_is_an_error() -> None:
    config_map = {"template": {"apiVersion": "v1", "kind": "ConfigMap"}}
    with pytest.raises(InvalidJobError, match="no component has pods; declare them in podSets"):
        kind().pod_sets(make(config_map))


def test_topology_labels_come_from_annotations() -> None:
    """J-473: a malformed count is left out."""
    prefix = "workload.codeflare.dev.appwrapper/tas-"
    annotations = {
        f"{prefix}pod-index-label": "rank",
        f"{prefix}sub-group-index-label": "group",
        f"{prefix}sub-group-count": "many",
    }
    (pod_set,) = kind().pod_sets(make(job_component(annotations=annotations)))
    request = pod_set.topology_request
    assert request is not None
    assert (request.pod_index_label, request.sub_group_index_label) == ("rank", "group")
    assert request.sub_group_count is None


def test_a_start_fills_the_fields_beside_each_component_and_a_stop_empties_them() -> None:
    job = make(job_component(), job_component())
    job["spec"]["suspend"] = True
    infos = [
        PodSetInfo(name="wrap-0", count=1, node_selector={"zone": "a"}),
        PodSetInfo(name="wrap-1", count=1, tolerations=[Toleration(key="gpu")]),
    ]
    started = kind().started(job, infos)
    assert [each["podSetInfos"] for each in started["spec"]["components"]] == [
        [{"nodeSelector": {"zone": "a"}}],
        [{"tolerations": [{"key": "gpu"}]}],
    ]
    stopped = kind().set_suspended(kind().restored(started, kind().pod_sets(job)), value=True)
    assert stopped == job
    with pytest.raises(InvalidJobError, match="expecting 2 podsets, got 1"):
        kind().started(job, infos[:1])


def conditions(**status: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": value} for type_, value in status.items()]


def test_a_failed_one_ends_once_its_objects_are_gone() -> None:
    """J-479."""
    gone, there = conditions(ResourcesDeployed="False"), conditions(ResourcesDeployed="True")
    assert kind().finished(make(phase="Failed", conditions=there)) is None
    assert kind().finished(make(phase="Failed", conditions=gone)) == Finished(
        success=False, message="AppWrapper failed"
    )
    assert kind().finished(make(phase="Succeeded", conditions=there)) == Finished(
        success=True, message="AppWrapper finished successfully"
    )


def test_a_template_gets_the_defaults_of_stored_pods() -> None:
    """J-471."""
    found = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "c", "image": "r/i:5", "ports": [{"containerPort": 1}]},
                {"name": "d", "image": "r:80/i", "resources": {"requests": {"cpu": 1}}},
            ],
            "initContainers": [{"name": "s", "image": "i@sha256:0", "restartPolicy": "Always"}],
            "volumes": [{"name": "v"}],
        },
    }
    got = workload_template(found)
    assert got["metadata"] == {"labels": {"a": "b"}}
    assert got["spec"].keys() & {"volumes", "dnsPolicy"} == {"dnsPolicy"}
    first, second = got["spec"]["containers"]
    assert "ports" not in first
    assert (first["imagePullPolicy"], second["imagePullPolicy"]) == ("IfNotPresent", "Always")
    assert second["resources"] == {"requests": {"cpu": 1}}
    (side,) = got["spec"]["initContainers"]
    assert (side["imagePullPolicy"], side["restartPolicy"]) == ("IfNotPresent", "Always")


@pytest.mark.parametrize("name", ["a.b", "a" * 61, "-a"])
def test_a_name_of_which_no_pod_set_can_be_named_is_refused(name: str) -> None:
    """J-470."""
    (error,) = SUPPORTED.webhook.validate_create(make(job_component(), name=name), Configuration())
    assert error.path == "metadata.name"


def test_a_change_need_not_obey_the_rules_for_new_ones() -> None:
    """J-67: else the finalizers of one that exists could never be removed."""
    old = make(job_component(), name="a.b")
    assert SUPPORTED.webhook.validate_update(old, old, Configuration()) == []


def test_the_end_of_one_that_is_gone_from_the_worker_is_a_phase() -> None:
    adapter = SUPPORTED.adapter
    assert adapter is not None
    end = Finished(success=True, message="")
    job = make(job_component(), phase="Running")
    patch = adapter.final_patch(job, end, now=None)  # type: ignore[arg-type]
    assert patch == {"status": {"phase": "Succeeded", "conditions": []}}
    assert adapter.final_patch(make(phase="Succeeded"), end, now=None) is None  # type: ignore[arg-type]


def test_the_copy_outlives_its_success() -> None:
    """J-147."""
    ttl = "workload.codeflare.dev.appwrapper/successTTLDuration"
    job = make(job_component())
    job["metadata"]["annotations"] = {ttl: "1m"}
    assert SUPPORTED.adapter is not None
    copy = SUPPORTED.adapter.remote_job(job, workload_name="w", origin="o")
    assert ttl not in copy["metadata"]["annotations"]
    assert copy["spec"]["suspend"] is True
