"""TrainJobs: the pods of their runtimes, and an entry of ours among the runtime patches."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import ReclaimablePod, Toleration
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.related import add_related, related_keys
from multiqueue.jobs.framework.template_kind import RELATED, TemplateKind
from multiqueue.jobs.setup import load_kind
from multiqueue.jobs.trainjob.rendering import merge, render_replicated_jobs
from multiqueue.jobs.trainjob.runtime_patches import MANAGER
from multiqueue.kube.resources import Resource
from tests.job_kinds import ROWS
from tests.unit.webhooks.lookups import Queues

SUPPORTED = load_kind(ROWS["trainer.kubeflow.org/trainjob"])
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
EMPTY = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
INFOS = [
    PodSetInfo(
        name="node",
        count=1,
        labels={"a": "b"},
        node_selector={"zone": "a"},
        tolerations=[Toleration(key="gpu")],
        scheduling_gates=["gate"],
    )
]


def kind() -> TemplateKind:
    assert isinstance(SUPPORTED.integration, TemplateKind)
    return SUPPORTED.integration


def group(name: str, step: str = "", *, replicas: int = 1, **container: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "node", "image": "i", **container}]}}
    labels = {STEP: step} if step else {}
    template = {"metadata": {"labels": labels}, "spec": {"template": pod}}
    return {"name": name, "replicas": replicas, "template": template}


def runtime(*groups: dict[str, Any], **policy: Any) -> dict[str, Any]:
    groups = groups or (group("node", "trainer"),)
    template = {"spec": {"replicatedJobs": list(groups)}}
    return {"metadata": {"name": "rt"}, "spec": {"mlPolicy": policy, "template": template}}


def make(runs_by: dict[str, Any] | None = None, **spec: Any) -> Job:
    job = {
        "metadata": {"name": "train", "namespace": "ns"},
        "spec": {"runtimeRef": {"name": "rt"}, "suspend": True, **spec},
    }
    return job if runs_by is None else {**job, RELATED: runs_by}


def with_jobs(job: Job, **counts: int) -> Job:
    return {**job, "status": {"jobsStatus": [{"name": "node", **counts}]}}


def counts(job: Job) -> dict[str, int]:
    return {pod_set.name: pod_set.count for pod_set in kind().pod_sets(job)}


def test_the_nodes_are_those_of_the_job_else_of_the_runtime() -> None:
    """J-420."""
    initializer = group("model", "model-initializer")
    by = runtime(initializer, group("node", "trainer"), numNodes=2)
    assert counts(make(by)) == {"model": 1, "node": 2}
    assert counts(make(by, trainer={"numNodes": 3})) == {"model": 1, "node": 3}
    assert counts(make(runtime())) == {"node": 1}


def test_the_launcher_may_be_one_of_the_nodes() -> None:
    """J-421."""
    groups = (group("launcher", "trainer"), group("node"))
    job = make(runtime(*groups, mpi={"runLauncherAsNode": True}), trainer={"numNodes": 3})
    assert counts(job) == {"launcher": 1, "node": 2}
    job = make(runtime(*groups, mpi={}), trainer={"numNodes": 3})
    assert counts(job) == {"launcher": 1, "node": 3}


def test_the_trainer_of_a_job_overrides_that_of_its_runtime() -> None:
    """J-422."""
    known = group(
        "node",
        "trainer",
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        resources={"requests": {"cpu": "1", "memory": "1Gi"}},
    )
    trainer = {
        "image": "mine",
        "args": ["--fast"],
        "env": [{"name": "B", "value": "2"}],
        "resourcesPerNode": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": 1}},
    }
    (pod_set,) = kind().pod_sets(make(runtime(known), trainer=trainer))
    (container,) = pod_set.template["spec"]["containers"]
    assert (container["image"], container["args"]) == ("mine", ["--fast"])
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "1Gi"},
        "limits": {"nvidia.com/gpu": 1},
    }


def test_an_initializer_gets_its_source() -> None:
    """J-423."""
    known = group("data", "dataset-initializer")
    known["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "dataset-initializer"
    dataset = {"storageUri": "hf://x/y", "secretRef": {"name": "token"}}
    job = make(runtime(known), initializer={"dataset": dataset})
    (container,) = kind().pod_sets(job)[0].template["spec"]["containers"]
    assert container["env"] == [{"name": "STORAGE_URI", "value": "hf://x/y"}]
    assert container["envFrom"] == [{"secretRef": {"name": "token"}}]


def patch(manager: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"template": {"spec": spec}}}
    jobs = {"replicatedJobs": [{"name": "node", "template": template}]}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": jobs}}}


def test_patches_are_merged_in_their_order_into_the_jobs_of_the_runtime() -> None:
    """J-419, J-441."""
    patches = [patch("a", nodeSelector={"x": "1", "y": "1"}), patch("b", nodeSelector={"x": "2"})]
    by = runtime(group("first"), group("node", "trainer"))
    _, node = kind().pod_sets(make(by, runtimePatches=patches))
    assert node.template["spec"]["nodeSelector"] == {"x": "2", "y": "1"}
    assert [each["name"] for each in node.template["spec"]["containers"]] == ["node"]


def test_a_stale_entry_of_ours_counts_only_while_the_job_runs() -> None:
    patches = [patch(MANAGER, nodeSelector={"zone": "a"})]
    waiting = make(runtime(), runtimePatches=patches)
    running = make(runtime(), runtimePatches=patches, suspend=False)
    assert "nodeSelector" not in kind().pod_sets(waiting)[0].template["spec"]
    assert kind().pod_sets(running)[0].template["spec"]["nodeSelector"] == {"zone": "a"}


def test_lists_are_merged_by_what_identifies_their_entries() -> None:
    present = {"env": [{"name": "a", "value": "1"}], "tolerations": [{"key": "x"}], "gone": 1}
    change = {"env": [{"name": "b"}], "tolerations": [{"key": "y"}], "gone": None}
    assert merge(present, change) == {
        "env": [{"name": "a", "value": "1"}, {"name": "b"}],
        "tolerations": [{"key": "y"}],
    }


def test_rendering_changes_neither_the_job_nor_the_runtime() -> None:
    """J-442."""
    by, trainer = runtime(numNodes=2), {"image": "mine", "resourcesPerNode": {"limits": {"a": 1}}}
    job = make(by, trainer=trainer)
    before = repr(job)
    assert render_replicated_jobs(job, by, own_patch=True)
    assert repr(job) == before


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"name": "rt"}, "runtime 'rt' not found; create the ClusterTrainingRuntime"),
        ({"name": "rt", "kind": "TrainingRuntime"}, "create the TrainingRuntime"),
        ({"name": "rt", "kind": "Recipe"}, "unsupported runtime: Recipe.trainer.kubeflow.org"),
    ],
)
def test_a_job_without_its_runtime_is_invalid(reference: dict[str, str], words: str) -> None:
    """J-417, J-418."""
    job = make(runtimeRef=reference)
    with pytest.raises(InvalidJobError) as error:
        kind().pod_sets(job)
    assert words in str(error.value)
    assert (kind().pods_ready(job), kind().reclaimable_pods(job)) == (False, ())


def test_it_is_read_with_its_runtime() -> None:
    def find(resource: Resource, namespace: str, name: str) -> Job | None:
        asked = (resource.plural, namespace, name)
        return runtime() if asked == ("clustertrainingruntimes", "", "rt") else None

    assert RELATED in add_related(kind(), make(), find)
    here = {"name": "rt", "kind": "TrainingRuntime"}
    assert related_keys(kind(), make(runtimeRef=here)) == (
        "trainer.kubeflow.org/TrainingRuntime/ns/rt",
    )
    assert related_keys(kind(), make(runtimeRef={**here, "apiGroup": "other"})) == ()


def applied(job: Job, change: Any) -> Job:
    return {**job, "spec": {**job["spec"], **change["spec"]}}


def test_a_start_fills_our_entry_and_then_unsuspends() -> None:
    """J-429, J-430: the entry is added if somebody removed it."""
    job = make(runtime())
    first = kind().start_patch(job, INFOS)
    assert not first.completes
    (entry,) = first.patch["spec"]["runtimePatches"]
    (replicated,) = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"] == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "gpu"}],
            "schedulingGates": [{"name": "gate"}],
        },
    }
    second = kind().start_patch(applied(job, first.patch), INFOS)
    assert (second.patch, second.completes) == ({"spec": {"suspend": False}}, True)
    with pytest.raises(InvalidJobError, match="expecting 1 podset, got 2"):
        kind().start_patch(job, INFOS * 2)


def test_a_stop_empties_our_entry_once_no_job_is_active() -> None:
    """J-432, J-433: the trainer takes no change before; nothing is written after."""
    other = patch("other", nodeSelector={"x": "1"})
    running = make(
        runtime(), runtimePatches=[other, patch(MANAGER, nodeSelector={"z": "a"})], suspend=False
    )
    first = kind().stop_patch(with_jobs(running, active=1), ())
    assert first is not None
    assert (first.patch, first.completes) == ({"spec": {"suspend": True}}, False)
    stopping = applied(running, first.patch)
    assert kind().stop_patch(with_jobs(stopping, active=1), ()) is None
    assert kind().has_leftovers(stopping)
    last = kind().stop_patch(with_jobs(stopping, active=0), ())
    assert last is not None
    assert (last.patch, last.completes) == ({"spec": {"runtimePatches": [other, EMPTY]}}, True)
    stopped = applied(stopping, last.patch)
    assert kind().stop_patch(stopped, ()) is None
    assert not kind().has_leftovers(stopped)


def test_it_is_ready_and_releases_pods_by_its_jobs() -> None:
    """J-436, J-438."""
    job = make(runtime(numNodes=3))
    assert not kind().pods_ready(with_jobs(job, active=1))
    assert kind().pods_ready(with_jobs(job, active=1, ready=1))
    assert kind().reclaimable_pods(with_jobs(job, succeeded=1)) == (
        ReclaimablePod(name="node", count=3),
    )
    assert kind().reclaimable_pods(job) == ()


def test_it_ends_by_its_conditions() -> None:
    failed = {"type": "Failed", "status": "True", "message": "too bad"}
    job = {**make(), "status": {"conditions": [failed]}}
    assert kind().finished(job) == Finished(success=False, message="too bad")


@pytest.mark.parametrize(
    "patches", [[], [EMPTY], [patch(MANAGER, nodeSelector={"zone": "a"})]], ids=str
)
def test_every_new_job_has_one_empty_entry(patches: list[Any]) -> None:
    """J-427, J-428: also one that was exported while it ran, and one that names no queue."""
    found = SUPPORTED.webhook.default(make(runtimePatches=patches), Queues(), Configuration())
    assert found.job["spec"]["runtimePatches"] == [EMPTY]


def test_the_copy_on_a_worker_lacks_our_entry() -> None:
    """J-443."""
    other = patch("other")
    assert SUPPORTED.adapter is not None
    copy = SUPPORTED.adapter.remote_job(
        make(runtime(), runtimePatches=[other, EMPTY]), workload_name="w", origin="o"
    )
    assert copy["spec"]["runtimePatches"] == [other]
    copy = SUPPORTED.adapter.remote_job(make(runtimePatches=[EMPTY]), workload_name="w", origin="o")
    assert "runtimePatches" not in copy["spec"]
