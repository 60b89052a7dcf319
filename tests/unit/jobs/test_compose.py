"""The Workload that is made for a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import ObjectMeta, PodSet, WorkloadPriorityClass
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.framework.compose import (
    compose_workload,
    without_repeated_variables,
    workload_name,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import InvalidJobError
from multiqueue.jobs.framework.priority import (
    JobPriority,
    PriorityClasses,
    PriorityClassNotFoundError,
    resolve_priority,
)
from tests.builders.jobs import make_job

GVK = GroupVersionKind("batch", "v1", "Job")


def stored_job(**what: Any) -> dict[str, Any]:
    job = make_job(**what)
    job["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    return job


def compose(job: dict[str, Any], **options: Any) -> dict[str, Any]:
    return compose_workload(job, GVK, BatchJob().pod_sets(job), JobPriority(value=7), **options)


def test_the_name_is_that_of_the_reference() -> None:
    """E-180."""
    # printf 'Job\nbatch\ntrain\nuid-1' | sha1sum
    assert workload_name(GVK, "train", "uid-1") == "job-train-a6870"
    assert workload_name(GVK, "train", "uid-2") != workload_name(GVK, "train", "uid-1")


def test_a_long_name_is_cut_and_still_tells_jobs_apart() -> None:
    long = "x" * 300
    name = workload_name(GVK, long, "a")
    assert len(name) == 253
    assert name[:-5] == workload_name(GVK, long, "b")[:-5]
    assert name != workload_name(GVK, long, "b")
    assert len(workload_name(GVK, long, "a", limit=63)) == 63


def test_everything_is_in_the_one_write() -> None:
    job = stored_job(labels={"team": "x", "other": "y", names.MAX_EXEC_TIME_SECONDS: "60"})
    body = compose(job, label_keys=("team", "absent"))
    assert body["metadata"]["labels"] == {"team": "x", names.JOB_UID: job["metadata"]["uid"]}
    assert body["metadata"]["finalizers"] == [names.RESOURCE_IN_USE]
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "job",
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    spec = body["spec"]
    assert (spec["queueName"], spec["priority"]) == ("lq", 7)
    assert "active" not in spec
    assert spec["maximumExecutionTimeSeconds"] == 60
    assert [(p["name"], p["count"]) for p in spec["podSets"]] == [("main", 1)]


def test_provisioning_parameters_and_gates_are_copied() -> None:
    annotations = {
        f"{names.PROVREQ_PREFIX}x": "1",
        names.ADMISSION_GATED_BY: "a.io/b",
        names.ALTERNATIVES: "",
        "unrelated": "z",
    }
    assert compose(stored_job(annotations=annotations))["metadata"]["annotations"] == {
        f"{names.PROVREQ_PREFIX}x": "1",
        names.ADMISSION_GATED_BY: "a.io/b",
    }


@pytest.mark.parametrize("text", ["0", "-5", "soon", "", "2147483648"])
def test_a_time_limit_that_is_none_is_ignored(text: str) -> None:
    """J-57: the webhook refuses it."""
    body = compose(stored_job(labels={names.MAX_EXEC_TIME_SECONDS: text}))
    assert "maximumExecutionTimeSeconds" not in body["spec"]


def test_a_repeated_environment_variable_has_its_last_value() -> None:
    """J-90."""
    env = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}, {"name": "a", "value": "3"}]
    template = {"spec": {"containers": [{"name": "c", "env": env}, {"name": "d"}]}}
    assert without_repeated_variables(template)["spec"]["containers"] == [
        {"name": "c", "env": [{"name": "a", "value": "3"}, {"name": "b", "value": "2"}]},
        {"name": "d"},
    ]
    once = {"spec": {"containers": [{"name": "c", "env": env[:2]}]}}
    assert without_repeated_variables(once) is once


def test_more_pod_sets_than_a_workload_has_are_explained() -> None:
    with pytest.raises(InvalidJobError, match="19 pod sets"):
        compose_workload(stored_job(), GVK, [PodSet()] * 19, JobPriority())


def classes(
    *workload: tuple[str, int], pod: dict[str, dict[str, Any]] | None = None
) -> PriorityClasses:
    by_name = {n: WorkloadPriorityClass(metadata=ObjectMeta(name=n), value=v) for n, v in workload}
    pods = {name: {"metadata": {"name": name}, **fields} for name, fields in (pod or {}).items()}
    return PriorityClasses(
        find_workload_class=by_name.get, find_pod_class=pods.get, list_pod_classes=pods.values
    )


def resolved(
    workload_class: str, pod_class: str, known: PriorityClasses
) -> tuple[int, tuple[str, str] | None]:
    priority = resolve_priority(workload_class, pod_class, known)
    reference = priority.reference
    return (priority.value, (reference.kind, reference.name) if reference else None)


def test_the_workload_class_comes_before_that_of_the_pods() -> None:
    """E-12."""
    known = classes(("high", 100), pod={"pods": {"value": 5}})
    assert resolved("high", "pods", known) == (100, ("WorkloadPriorityClass", "high"))
    assert resolved("", "pods", known) == (5, ("PriorityClass", "pods"))


def test_a_class_named_default_is_the_default() -> None:
    known = classes(("default", 3), pod={"pods": {"value": 5}})
    assert resolved("", "pods", known) == (3, ("WorkloadPriorityClass", "default"))


def test_without_the_gate_no_class_is_the_default() -> None:
    known = replace(classes(("default", 3), pod={"pods": {"value": 5}}), has_default=False)
    assert resolved("", "pods", known) == (5, ("PriorityClass", "pods"))


def test_of_several_global_defaults_the_lowest_counts() -> None:
    """E-12."""
    known = classes(
        pod={
            "a": {"value": 9, "globalDefault": True},
            "b": {"value": 4, "globalDefault": True},
            "c": {"value": 1},
        }
    )
    assert resolved("", "", known) == (4, ("PriorityClass", "b"))
    assert resolved("", "", classes()) == (0, None)


@pytest.mark.parametrize(("workload_class", "pod_class"), [("gone", ""), ("", "gone")])
def test_a_class_that_does_not_exist_is_named(workload_class: str, pod_class: str) -> None:
    with pytest.raises(PriorityClassNotFoundError, match='"gone" not found'):
        resolve_priority(workload_class, pod_class, classes())
