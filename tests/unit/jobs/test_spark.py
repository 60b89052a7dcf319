"""SparkApplications: pod sets from the fields of their roles."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.v1beta2 import Toleration
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import UnknownFrameworkError, build_registry, load_kind
from multiqueue.jobs.spark.resources import build_resources
from tests.job_kinds import ROWS

ROW = ROWS["sparkoperator.k8s.io/sparkapplication"]
SUPPORTED = load_kind(ROW)
GATE = "kueue.x-k8s.io/topology"


def kind() -> TemplateKind:
    assert isinstance(SUPPORTED.integration, TemplateKind)
    return SUPPORTED.integration


def make(driver: Any = None, executor: Any = None, **spec: Any) -> Job:
    roles = {"driver": driver or {}, "executor": {"instances": 2, **(executor or {})}}
    return {
        "metadata": {
            "name": "app",
            "namespace": "ns",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "spec": {"mode": "cluster", "suspend": True, **roles, **spec},
    }


def with_state(state: str, message: str = "", **executors: str) -> Job:
    status = {"applicationState": {"state": state, "errorMessage": message}}
    return {**make(), "status": {**status, "executorState": executors}}


def infos(**more: Any) -> list[PodSetInfo]:
    return [PodSetInfo(name=role, count=1, **more) for role in ("driver", "executor")]


def test_there_are_a_driver_and_executors() -> None:
    got = [(pod_set.name, pod_set.count) for pod_set in kind().pod_sets(make())]
    assert got == [("driver", 1), ("executor", 2)]
    without = make()
    del without["spec"]["executor"]["instances"]
    assert [pod_set.count for pod_set in kind().pod_sets(without)] == [1, 0]


@pytest.mark.parametrize(
    ("role", "want"),
    [
        ({}, {}),
        ({"cores": 2}, {"requests": {"cpu": "2"}}),
        ({"cores": 2, "coreRequest": "500m"}, {"requests": {"cpu": "500m"}}),
        ({"coreLimit": "3"}, {"limits": {"cpu": "3"}}),
        ({"memory": "512m"}, {"requests": {"memory": "512Mi"}}),
        (
            {"memory": "4G", "memoryLimit": "5gb"},
            {"requests": {"memory": "4Gi"}, "limits": {"memory": "5Gi"}},
        ),
        ({"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}, {"limits": {"nvidia.com/gpu": "1"}}),
    ],
)
def test_resources_are_those_of_the_pods(role: dict[str, Any], want: dict[str, Any]) -> None:
    """J-449 to J-451."""
    assert build_resources(role) == want


def test_a_size_that_java_does_not_know_is_an_error() -> None:
    with pytest.raises(InvalidJobError, match='memory: "much" is not a size like 512m or 4g'):
        kind().pod_sets(make(driver={"memory": "much"}))


def test_a_template_has_what_a_role_says() -> None:
    role = {
        "template": {"metadata": {"labels": {"a": "template", "b": "template"}}},
        "labels": {"a": "role"},
        "sidecars": [{"name": "side"}],
        "nodeSelector": {"disk": "ssd"},
        "priorityClassName": "high",
    }
    driver, _ = kind().pod_sets(make(driver=role))
    assert driver.template["metadata"] == {"labels": {"a": "role", "b": "template"}}
    spec = driver.template["spec"]
    assert [each["name"] for each in spec["containers"]] == ["spark-kubernetes-driver", "side"]
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"disk": "ssd"}, "high")


def test_a_start_and_a_stop_leave_what_the_user_wrote() -> None:
    job = make(driver={"labels": {"a": "b"}, "template": {"metadata": {"labels": {"c": "d"}}}})
    added = infos(
        labels={"x": "y"},
        node_selector={"zone": "a"},
        tolerations=[Toleration(key="gpu")],
        scheduling_gates=[GATE],
    )
    started = kind().started(job, added)
    executor = started["spec"]["executor"]
    assert executor["nodeSelector"] == {"zone": "a"}
    assert executor["template"]["spec"] == {
        "containers": [{"name": "spark-kubernetes-executor"}],
        "schedulingGates": [{"name": GATE}],
    }
    assert started["spec"]["driver"]["labels"] == {"a": "b", "x": "y"}
    stopped = kind().restored(started, kind().pod_sets(job))["spec"]
    assert stopped["executor"] == job["spec"]["executor"]
    assert stopped["driver"]["labels"] == {"a": "b"}


def test_a_global_selector_moves_to_the_roles_and_is_not_lost() -> None:
    """J-457, J-459: Spark allows no selectors of roles beside it."""
    job = make(nodeSelector={"disk": "ssd"})
    wanted = kind().pod_sets(job)
    assert [p.template["spec"]["nodeSelector"] for p in wanted] == [{"disk": "ssd"}] * 2
    started = kind().started(job, infos(node_selector={"zone": "a"}))
    assert "nodeSelector" not in started["spec"]
    assert started["spec"]["driver"]["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    stopped = kind().restored(started, wanted)["spec"]
    assert (
        stopped["driver"]["nodeSelector"] == stopped["executor"]["nodeSelector"] == {"disk": "ssd"}
    )
    assert "nodeSelector" not in stopped


def test_a_stop_keeps_a_count_that_was_changed() -> None:
    admitted = kind().pod_sets(make(executor={"instances": 3}))
    changed = make(executor={"instances": 4})
    assert kind().restored(changed, admitted)["spec"]["executor"] == {"instances": 4}


@pytest.mark.parametrize(
    ("job", "ready", "active"),
    [
        (with_state("SUBMITTED"), False, False),
        (with_state("RUNNING", e1="RUNNING"), False, True),
        (with_state("RUNNING", e1="RUNNING", e2="COMPLETED"), True, True),
        (with_state("PENDING_RERUN", e1="RUNNING", e2="RUNNING"), False, False),
    ],
)
def test_it_is_ready_with_all_executors(job: Job, *, ready: bool, active: bool) -> None:
    """J-460, J-461, J-463."""
    assert (kind().pods_ready(job), kind().is_active(job)) == (ready, active)
    assert kind().finished(job) is None


def test_it_ends_by_its_state() -> None:
    assert kind().finished(with_state("COMPLETED")) == Finished(success=True, message="")
    failed = kind().finished(with_state("SUBMISSION_FAILED", "no image"))
    assert failed == Finished(success=False, message="no image")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"mode": "client"}, "spec.mode"),
        ({"dynamicAllocation": {"enabled": True}}, "spec.dynamicAllocation.enabled"),
    ],
)
def test_pods_that_are_not_known_beforehand_are_refused(spec: dict[str, Any], path: str) -> None:
    (error,) = SUPPORTED.webhook.validate_create(make(**spec), Configuration())
    assert error.path == path


def test_topology_annotations_of_a_role_are_checked() -> None:
    role = {"annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "perhaps"}}
    (error,) = SUPPORTED.webhook.validate_create(make(driver=role), Configuration())
    assert error.path.startswith("spec.driver.template.metadata.annotations")


def test_it_needs_its_gate() -> None:
    config = Configuration(integrations=Integrations(frameworks=(ROW.framework,)))
    with pytest.raises(UnknownFrameworkError, match="needs the feature gate SparkApplicationInt"):
        build_registry(config)
