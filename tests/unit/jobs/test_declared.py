"""What a JobKind makes of objects, and what it must not say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from multiqueue.api.v1alpha1 import JobKind, JobKindSpec
from multiqueue.api.v1beta2 import PodSet, ReclaimablePod, Toleration
from multiqueue.jobs.declared.adapter import DeclaredAdapter
from multiqueue.jobs.declared.compiled import JobKindRefusedError, compile_kind
from multiqueue.jobs.declared.expressions import (
    KindExpression,
    NoValueError,
    Wanted,
    compile_expressions,
)
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.pod_set_info import StartConflictError
from multiqueue.lib.cel.expression import program
from tests.builders.job_kinds import make_gadget, make_job_kind
from tests.virtual_time import T0

SAMPLES = Path(__file__).parents[3] / "config/samples-jobkinds"
COMPUTED = {
    "templateExpression": "{'spec': {'containers': [{'name': 'c', 'image': self.spec.image}]}}",
    "count": "self.spec.size",
    "admission": {"nodeSelector": "spec.where.nodes", "tolerations": "spec.where.tolerated"},
}


def spec_of(**spec: Any) -> JobKindSpec:
    return msgspec.convert(make_job_kind(**spec), JobKind).spec


def make_kind(**spec: Any) -> DeclaredKind:
    return DeclaredKind(compile_kind(spec_of(**spec)))


def info(pod_set: PodSet, **nodes: str) -> PodSetInfo:
    return PodSetInfo(name=pod_set.name, count=pod_set.count, node_selector=nodes)


def with_status(**status: Any) -> Job:
    return {**make_gadget(), "status": status}


def sample(name: str) -> DeclaredKind:
    job_kind = msgspec.convert(yaml.safe_load((SAMPLES / name).read_text()), JobKind)
    return DeclaredKind(compile_kind(job_kind.spec))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"priorityClass": "self.spec."},
            "BadExpression",
            "spec.priorityClass: does not compile: ",
        ),
        (
            {"podSets": [{"template": "spec.template", "count": "'two'"}]},
            "WrongType",
            "spec.podSets[0].count: must give a value of type int, gives string",
        ),
        (
            {"podSelector": "self.?metadata.?name"},
            "WrongType",
            "add .orValue(...)",
        ),
        (
            {"priorityClass": "self.metadata.name.replace('a', self.metadata.name)"},
            "BadExpression",
            "spec.priorityClass: replace() is not allowed, because it can multiply text",
        ),
        (
            {"priorityClass": "[1].map(a, a).map(a, a).map(a, a).map(a, a).map(a, 'x')[0]"},
            "BadExpression",
            "spec.priorityClass: has 5 loops (all, exists, filter, map, ...); at most 4",
        ),
        (
            {"priorityClass": f"'{'x' * 2048}'"},
            "BadExpression",
            "spec.priorityClass: has 2050 letters; at most 2048 are allowed",
        ),
        (
            {"podSets": [{"template": "spec.a"}, {"template": "spec.b"}]},
            "Invalid",
            'spec.podSets: the name "main" is used twice; names must be unique',
        ),
        ({"podSets": []}, "Invalid", "spec.podSets: at least one pod set is required"),
        (
            {"podSets": [{"name": "main"}]},
            "Invalid",
            "spec.podSets[0]: exactly one of template and templateExpression is required",
        ),
        (
            {"podSets": [{"template": "template", "forEach": "spec.groups"}]},
            "Invalid",
            "spec.podSets[0].nameExpression: is required with forEach, such as item.name",
        ),
        (
            {"suspend": {"suspendedValue": "no", "runningValue": "no"}},
            "Invalid",
            "spec.suspend.runningValue: must differ from suspendedValue",
        ),
        (
            {"multiKueue": {"returnedFields": ["spec.result"]}},
            "Invalid",
            'spec.multiKueue.returnedFields: "spec.result" must be "status" or a field below it',
        ),
        (
            {"group": "jobset.x-k8s.io", "kind": "JobSet", "plural": "jobsets"},
            "BuiltIn",
            'enable the kind with integrations.frameworks: ["jobset.x-k8s.io/jobset"]',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_job_kind_that_cannot_be_used_is_refused(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    with pytest.raises(JobKindRefusedError) as caught:
        compile_kind(spec_of(**spec))
    assert caught.value.reason == reason
    assert message in str(caught.value)


# ---------------------------------------------------------------- expressions


def test_an_expression_that_is_slow_three_times_is_not_evaluated_again() -> None:
    seconds = iter(range(100))
    slow = KindExpression(
        Wanted("spec.podSelector", "'a'", "string"), program("'a'"), lambda: next(seconds)
    )
    assert [slow.value({}) for _ in range(3)] == ["a", "a", "a"]
    with pytest.raises(
        NoValueError, match=r"took 1\.0 s of CPU time and is not evaluated any more"
    ):
        slow.value({})


def test_loops_end() -> None:
    text = "self.map(a, self.map(b, self.map(c, 1)))[0][0][0]"
    found = compile_expressions([Wanted("spec.x", text, "int")])
    with pytest.raises(NoValueError, match="cost limit exceeded"):
        found["spec.x"].value({"self": list(range(100))})


def test_a_value_of_another_type_is_no_value() -> None:
    found = compile_expressions([Wanted("spec.x", "self.a", "int")])
    assert found["spec.x"].value({"self": {"a": 3}}) == 3
    for wrong, named in ((True, "bool"), (None, "null"), ("3", "str"), ({}, "dict")):
        with pytest.raises(NoValueError, match=f"of type int, gives {named}"):
            found["spec.x"].value({"self": {"a": wrong}})


# ---------------------------------------------------------------- pod sets


def test_the_pod_sets_of_a_list_have_the_names_and_counts_of_its_items() -> None:
    group = {
        "forEach": "spec.groups",
        "nameExpression": "item.name",
        "template": "pods",
        "count": "item.replicas + index",
    }
    pods = {"spec": {"containers": [{"name": "c"}]}}
    groups = [{"name": name, "replicas": 2, "pods": pods} for name in ("a", "b")]
    kind = make_kind(podSets=[group])
    job = make_gadget(groups=groups)
    assert [(each.name, each.count) for each in kind.pod_sets(job)] == [("a", 2), ("b", 3)]
    assert kind.template_path(job, 1) == "spec.groups[1].pods"
    started = kind.started(job, [info(each, zone=each.name) for each in kind.pod_sets(job)])
    selectors = [each["pods"]["spec"]["nodeSelector"] for each in started["spec"]["groups"]]
    assert selectors == [{"zone": "a"}, {"zone": "b"}]
    with pytest.raises(InvalidJobError, match='two pod sets with the name "a"'):
        kind.pod_sets(make_gadget(groups=[groups[0], groups[0]]))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (make_gadget(template=None), r"spec\.template: there is no pod template; add one"),
        (make_gadget(size=-1), r"-1 pods are requested with spec\.template"),
        (make_gadget(size=2**31), "2147483648 pods are more than 2147483647"),
        (make_gadget(size="two"), "must give a value of type int, gives str"),  # type: ignore[arg-type]
    ],
)
def test_an_object_that_cannot_be_counted_is_invalid(job: Job, message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        make_kind().pod_sets(job)


def test_a_computed_template_gets_the_admission_where_the_kind_says_and_loses_it() -> None:
    kind = make_kind(podSets=[COMPUTED])
    job = make_gadget(image="i", size=2)
    (pod_set,) = kind.pod_sets(job)
    assert pod_set.template["spec"]["containers"] == [{"name": "c", "image": "i"}]
    toleration = Toleration(key="gpu", operator="Exists")
    admission = PodSetInfo(
        name="main", count=2, node_selector={"zone": "a"}, tolerations=(toleration,)
    )
    started = kind.started(job, [admission])
    assert started["spec"]["where"] == {
        "nodes": {"zone": "a"},
        "tolerated": [{"key": "gpu", "operator": "Exists"}],
    }
    patch = kind.stop_patch(started, [pod_set])
    assert patch is not None
    assert patch.patch == {"spec": {"where": None, "pause": True}}


def test_an_admission_that_has_no_place_does_not_start() -> None:
    kind = make_kind(podSets=[{**COMPUTED, "admission": {}}])
    job = make_gadget(image="i")
    with pytest.raises(StartConflictError, match=r"set podSets\[\]\.admission\.nodeSelector in it"):
        kind.started(job, [info(kind.pod_sets(job)[0], zone="a")])


# ---------------------------------------------------------------- suspend and states


def test_a_field_with_other_words_suspends() -> None:
    kind = make_kind(suspend={"field": "spec.mode", "suspendedValue": "Hold", "runningValue": "Go"})
    job = make_gadget(mode="Go")
    waiting = kind.set_suspended(job, value=True)
    assert (kind.is_suspended(job), kind.is_suspended(waiting)) == (False, True)
    assert kind.set_suspended(waiting, value=False) == job
    assert not make_kind().is_suspended(make_gadget(pause=1))


def test_a_job_that_cannot_be_suspended_is_ended() -> None:
    kind = make_kind(suspend={"field": "spec.pause", "stoppedValue": "Cancelled"})
    running = {**make_gadget(pause=None), "status": {"phase": "Running"}}
    patch = kind.stop_patch(running, ())
    assert patch is not None
    assert patch.patch == {"spec": {"pause": "Cancelled"}}
    assert kind.stop_patch({**running, "spec": {"pause": "Cancelled"}}, ()) is None
    idle = kind.stop_patch({**running, "status": {}}, ())
    assert idle is not None
    assert idle.patch == {"spec": {"pause": True}}


def test_states_are_read_once_there_is_a_status() -> None:
    kind = make_kind()
    assert not kind.is_active(make_gadget())
    assert kind.finished(make_gadget()) is None
    assert kind.is_active(with_status(phase="Running"))
    assert kind.pods_ready(with_status(phase="Running"))
    assert kind.finished(with_status(phase="Done")) == Finished(
        success=True, message="the job succeeded"
    )
    assert kind.finished(with_status(phase="Broken", reason="no disk")) == Finished(
        success=False, message="no disk"
    )


def test_a_state_without_a_value_holds_the_quota_and_is_told() -> None:
    states = {"active": "self.status.pods > 0", "succeeded": "self.status.ok", "failed": "false"}
    kind = make_kind(states=states)
    told: list[str] = []
    kind.on_failure = lambda _job, words: told.append(words)
    job = with_status(phase="x")
    assert kind.is_active(job)
    assert not kind.pods_ready(job)
    assert kind.finished(job) is None
    assert told[0] == "spec.states.active: no such key: pods"
    assert told[-1] == "spec.states.succeeded: no such key: ok"


def test_pods_that_ended_are_reclaimed() -> None:
    states = {**make_job_kind()["spec"]["states"], "reclaimablePods": "{'main': self.status.done}"}
    kind = make_kind(states=states)
    assert kind.reclaimable_pods(with_status(done=2)) == (ReclaimablePod(name="main", count=2),)
    assert kind.reclaimable_pods(with_status(done=0)) == ()


# ---------------------------------------------------------------- workers


def test_the_copy_lacks_what_is_dropped_and_only_the_named_status_returns() -> None:
    remote = {
        "managedByField": "spec.controller",
        "droppedFields": ["spec.ttl"],
        "returnedFields": ["status.phase"],
        "endedStatus": "{'phase': success ? 'Done' : 'Broken'}",
    }
    adapter = DeclaredAdapter(make_kind(multiKueue=remote))
    local = make_gadget(ttl=3, controller="kueue.x-k8s.io/multikueue")
    copy = adapter.remote_job(local, workload_name="w", origin="o")
    assert set(copy["spec"]) == {"pause", "size", "template"}
    there = {**copy, "status": {"phase": "Running", "node": "n"}}
    assert adapter.status_patch(local, there).patch == {"status": {"phase": "Running"}}
    end = Finished(success=False, message="gone")
    assert adapter.final_patch(local, end, T0) == {"status": {"phase": "Broken"}}
    assert "controller" in str(adapter.refusal(make_gadget()))


def test_a_kind_without_words_about_workers_stays_here() -> None:
    adapter = DeclaredAdapter(make_kind(multiKueue=None))
    assert "set spec.multiKueue in it" in str(adapter.refusal(make_gadget()))


# ---------------------------------------------------------------- samples

WORKFLOW: Job = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "hello", "namespace": "ns"},
    "spec": {
        "parallelism": 2,
        "entrypoint": "main",
        "templates": [
            {"name": "main", "steps": [[{"name": "a", "template": "work"}]]},
            {"name": "work", "container": {"image": "i", "resources": {"requests": {"cpu": "1"}}}},
        ],
    },
}
STEP = {"name": "s", "image": "i", "computeResources": {"requests": {"cpu": "1"}}}
RUN: Job = {
    "apiVersion": "tekton.dev/v1",
    "kind": "PipelineRun",
    "metadata": {"name": "hello", "namespace": "ns"},
    "spec": {
        "pipelineSpec": {
            "tasks": [
                {"name": "a", "taskSpec": {"steps": [STEP]}},
                {"name": "b", "taskSpec": {"steps": [STEP]}},
            ]
        }
    },
}


SERVICE: Job = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "hello", "namespace": "ns"},
    "spec": {
        "predictor": {
            "minReplicas": 1,
            "maxReplicas": 2,
            "model": {
                "modelFormat": {"name": "huggingface"},
                "storageUri": "hf://m",
                "resources": {"requests": {"cpu": "1"}},
            },
        }
    },
}
SERVING = {"conditions": [{"type": kind, "status": "True"} for kind in ("PredictorReady", "Ready")]}
STOPPED = {"conditions": [{"type": "PredictorReady", "status": "False", "reason": "Stopped"}]}


def condition(status: str, reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Succeeded", "status": status, "reason": reason}]}


def nodes(phase: str) -> dict[str, Any]:
    return {"phase": "Running", "nodes": {"n": {"type": "Pod", "phase": phase}}}


@pytest.mark.parametrize(
    ("name", "job", "running", "idle", "ends"),
    [
        (
            "argo-workflow.yaml",
            WORKFLOW,
            nodes("Running"),
            nodes("Succeeded"),
            ({"phase": "Succeeded"}, {"phase": "Error"}),
        ),
        (
            "tekton-pipelinerun.yaml",
            RUN,
            condition("Unknown", "Running"),
            condition("Unknown", "PipelineRunPending"),
            (condition("True", "Completed"), condition("False", "Cancelled")),
        ),
        ("kserve-inferenceservice.yaml", SERVICE, SERVING, STOPPED, ()),
    ],
)
def test_a_sample_reads_starts_and_restores_objects_of_its_kind(
    name: str, job: Job, running: Any, idle: Any, ends: Sequence[Any]
) -> None:
    kind = sample(name)
    problems: list[str] = []
    kind.on_failure = lambda _job, words: problems.append(words)
    waiting = kind.set_suspended(job, value=True)
    (pod_set,) = kind.pod_sets(waiting)
    assert pod_set.count == 2
    started = kind.started(waiting, [info(pod_set, zone="a")])
    assert started != job
    assert kind.set_suspended(kind.restored(started, [pod_set]), value=True) == waiting
    assert kind.is_active({**started, "status": running})
    assert not kind.is_active({**started, "status": idle})
    found = [kind.finished({**started, "status": end}) for end in ends]
    assert [end is not None and end.success for end in found] == [True, False][: len(ends)]
    assert kind.pod_selector(job).endswith("=hello")
    assert not problems


def test_the_job_kind_of_the_page_can_be_used() -> None:
    page = (SAMPLES.parents[1] / "docs/job-kinds.md").read_text()
    text = page.split("<!-- declared -->\n```yaml\n")[1].split("```")[0]
    kind = DeclaredKind(compile_kind(msgspec.convert(yaml.safe_load(text), JobKind).spec))
    assert [each.count for each in kind.pod_sets(make_gadget(size=3))] == [3]
    assert kind.is_active(with_status(phase="Running"))
