"""Kubeflow's training jobs and MPIJob: their replica types, their priority, their own rules."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import load_kind
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.job_kinds import ROWS
from tests.unit.webhooks.lookups import Queues

CONFIG = Configuration()
GROUP = {
    names.PODSET_REQUIRED_TOPOLOGY: "example.com/rack",
    names.PODSET_GROUP_NAME: "g",
}


def load(kind: str) -> SupportedKind:
    return load_kind(ROWS[f"kubeflow.org/{kind.lower()}"])


def replicas(
    count: int | None = 1, *, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"annotations": annotations} if annotations else {}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}
    return {"template": template} if count is None else {"replicas": count, "template": template}


def make(kind: str, types: dict[str, Any], *, status: Any = None, **spec: Any) -> Job:
    row = load(kind).integration
    field = {
        "JAXJob": "jaxReplicaSpecs",
        "MPIJob": "mpiReplicaSpecs",
        "PaddleJob": "paddleReplicaSpecs",
        "PyTorchJob": "pytorchReplicaSpecs",
        "TFJob": "tfReplicaSpecs",
        "XGBoostJob": "xgbReplicaSpecs",
    }[kind]
    return {
        "apiVersion": row.gvk.api_version,
        "kind": kind,
        "metadata": {"name": "j", "namespace": "ns", "labels": {names.QUEUE_NAME: "lq"}},
        "spec": {field: types, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("kind", "types", "want"),
    [
        ("PyTorchJob", ["Worker", "Master"], ["master", "worker"]),
        ("PyTorchJob", ["Worker"], ["worker"]),
        ("PaddleJob", ["Worker", "Master"], ["master", "worker"]),
        ("XGBoostJob", ["Worker", "Master"], ["master", "worker"]),
        (
            "TFJob",
            ["Evaluator", "PS", "Chief", "Worker", "Master"],
            ["chief", "master", "ps", "worker", "evaluator"],
        ),
        ("TFJob", ["Worker", "Watcher"], ["worker"]),
        ("JAXJob", ["Worker", "Master"], ["worker"]),
        ("MPIJob", ["Worker", "Launcher"], ["launcher", "worker"]),
        ("MPIJob", ["Launcher"], ["launcher"]),
    ],
)
def test_pod_sets_have_the_order_of_the_kind(kind: str, types: list[str], want: list[str]) -> None:
    """J-374, J-391, J-405: types that the kind does not have are left out."""
    job = make(kind, {type_: replicas() for type_ in types})
    assert [each.name for each in load(kind).integration.pod_sets(job)] == want


def test_a_type_without_replicas_has_one_pod() -> None:
    job = make("PyTorchJob", {"Master": replicas(None), "Worker": replicas(3)})
    assert [each.count for each in load("PyTorchJob").integration.pod_sets(job)] == [1, 3]


def test_a_type_that_is_null_is_no_pod_set() -> None:
    job = make("MPIJob", {"Launcher": replicas(), "Worker": None})
    assert [each.name for each in load("MPIJob").integration.pod_sets(job)] == ["launcher"]


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({}, "the TFJob has no pod template"),
        ({"Watcher": replicas()}, "the TFJob has no pod template"),
        ({"PS": replicas(-1)}, r'"PS": -1 pods are requested with spec.tfReplicaSpecs\[PS\]'),
        ({"PS": "two"}, "not what a TFJob looks like"),
    ],
)
def test_a_job_without_sense_is_explained(types: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidJobError, match=words):
        load("TFJob").integration.pod_sets(make("TFJob", types))


@pytest.mark.parametrize(
    ("policy", "classes", "want"),
    [
        ({"priorityClass": "policy"}, ("chief", "worker"), "policy"),
        ({}, ("", "worker"), "worker"),
        ({}, ("chief", "worker"), "chief"),
        ({}, ("", ""), ""),
    ],
)
def test_the_scheduling_policy_names_the_priority_first(
    policy: dict[str, str], classes: tuple[str, str], want: str
) -> None:
    """J-379."""
    types = dict(zip(("Chief", "Worker"), classes, strict=True))
    specs = {type_: replicas(priorityClassName=name) for type_, name in types.items()}
    job = make("TFJob", specs, runPolicy={"schedulingPolicy": policy})
    assert load("TFJob").integration.priority_class(job) == want


def conditions(**values: str) -> list[dict[str, str]]:
    return [{"type": k, "status": v, "message": f"says {k}"} for k, v in values.items()]


@pytest.mark.parametrize(
    ("status", "ready", "active", "end"),
    [
        ({}, False, False, None),
        ({"conditions": conditions(Created="True")}, False, False, None),
        ({"conditions": conditions(Running="True")}, True, False, None),
        ({"conditions": conditions(Running="False")}, False, False, None),
        ({"replicaStatuses": {"Worker": {"active": 2}}}, False, True, None),
        ({"replicaStatuses": {"Worker": {"active": 0, "failed": 1}}}, False, False, None),
        (
            {"conditions": conditions(Succeeded="True")},
            False,
            False,
            Finished(success=True, message="says Succeeded"),
        ),
        (
            {"conditions": conditions(Succeeded="False", Failed="True")},
            False,
            False,
            Finished(success=False, message="says Failed"),
        ),
    ],
)
def test_what_the_status_says(
    status: dict[str, Any], *, ready: bool, active: bool, end: Finished | None
) -> None:
    """J-376..J-378."""
    job, integration = make("XGBoostJob", {}, status=status), load("XGBoostJob").integration
    got = (integration.pods_ready(job), integration.is_active(job), integration.finished(job))
    assert got == (ready, active, end)


def test_a_start_and_a_stop_are_one_write_each() -> None:
    """J-375."""
    integration = load("PyTorchJob").integration
    job = make(
        "PyTorchJob",
        {"Master": replicas(), "Worker": replicas(2)},
        runPolicy={"suspend": True, "cleanPodPolicy": "None"},
    )
    wanted = integration.pod_sets(job)
    infos = [
        PodSetInfo(name=name, count=count, node_selector={"zone": name})
        for name, count in (("master", 1), ("worker", 2))
    ]
    running = apply_merge_patch(job, integration.start_patch(job, infos).patch)
    assert running["spec"]["runPolicy"] == {"suspend": False, "cleanPodPolicy": "None"}
    selectors = [each.template["spec"]["nodeSelector"] for each in integration.pod_sets(running)]
    assert selectors == [{"zone": "master"}, {"zone": "worker"}]
    stopping = integration.stop_patch(running, wanted)
    assert stopping is not None
    stopped = apply_merge_patch(running, stopping.patch)
    assert integration.pod_sets(stopped) == wanted
    assert integration.stop_patch(stopped, wanted) is None


def test_pods_are_found_by_the_labels_of_their_operator() -> None:
    """J-160."""
    operators = {
        kind: load(kind).integration.pod_selector(make(kind, {}))
        for kind in ("PyTorchJob", "MPIJob")
    }
    labels = "training.kubeflow.org/job-name=j,training.kubeflow.org/operator-name="
    assert operators == {
        "PyTorchJob": f"{labels}pytorchjob-controller",
        "MPIJob": f"{labels}mpi-operator",
    }


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("PyTorchJob", "kubeflow.org/training-operator"),
        ("MPIJob", "kubeflow.org/mpi-operator"),
    ],
)
def test_a_job_of_a_multikueue_queue_is_delegated(kind: str, own: str) -> None:
    """J-380, J-412: unless somebody else's controller is to run it."""
    webhook, queues = load(kind).webhook, Queues(multikueue=frozenset({"ns/lq"}))
    for before, after in (
        (None, names.MULTIKUEUE_CONTROLLER),
        (own, names.MULTIKUEUE_CONTROLLER),
        ("example.com/mine", "example.com/mine"),
    ):
        policy = {"managedBy": before} if before else {}
        job = make(kind, {"Worker": replicas()}, runPolicy=policy)
        got = webhook.default(job, queues, CONFIG).job["spec"]["runPolicy"]
        assert got == {"managedBy": after, "suspend": True}


def test_the_copy_is_run_by_the_operator_of_its_worker_and_stays() -> None:
    """J-385, J-148: the time to live stays on the manager."""
    adapter = load("XGBoostJob").adapter
    assert adapter is not None
    policy = {
        "managedBy": names.MULTIKUEUE_CONTROLLER,
        "ttlSecondsAfterFinished": 5,
        "cleanPodPolicy": "All",
    }
    job = make("XGBoostJob", {"Worker": replicas()}, runPolicy=policy)
    assert adapter.refusal(job) is None
    got = adapter.remote_job(job, workload_name="w", origin="here")
    assert got["spec"]["runPolicy"] == {"cleanPodPolicy": "All", "suspend": True}


@pytest.mark.parametrize(
    ("managed_by", "want"), [(names.MULTIKUEUE_CONTROLLER, 5), ("", None), ("example.com/x", None)]
)
def test_the_time_to_live_is_ours_to_keep_if_the_job_runs_on_workers(
    managed_by: str, want: int | None
) -> None:
    policy = {"ttlSecondsAfterFinished": 5, **({"managedBy": managed_by} if managed_by else {})}
    job = make("TFJob", {}, runPolicy=policy)
    assert load("TFJob").integration.time_to_live(job) == want


def offsets(**more: Any) -> tuple[Any, ...]:
    """Default an MPIJob; return the rank offsets of launcher and workers."""
    launcher = more.pop("launcher", replicas())
    config = Configuration(feature_gates=more.pop("gates", {}))
    job = make("MPIJob", {"Launcher": launcher, "Worker": replicas(3)}, **more)
    specs = load("MPIJob").webhook.default(job, Queues(), config).job["spec"]["mpiReplicaSpecs"]
    return tuple(
        each["template"]["metadata"].get("annotations", {}).get(names.POD_INDEX_OFFSET)
        for each in specs.values()
    )


def test_ranks_of_workers_begin_at_one_if_the_launcher_works() -> None:
    """J-408."""
    assert offsets(runLauncherAsWorker=True) == (None, "1")
    assert offsets(runLauncherAsWorker=False) == (None, None)
    assert offsets() == (None, None)
    assert offsets(runLauncherAsWorker=True, launcher=replicas(annotations=GROUP)) == (None, None)
    off = {"TopologyAwareScheduling": False}
    assert offsets(runLauncherAsWorker=True, gates=off) == (None, None)


def find_errors(kind: str, types: dict[str, Any]) -> list[str]:
    errors = load(kind).webhook.validate_create(make(kind, types), CONFIG)
    return [f"{error.path}: {error.detail}" for error in errors]


def test_an_error_names_the_type_of_replicas() -> None:
    """J-390."""
    slices = {names.PODSET_SLICE_REQUIRED_TOPOLOGY: "rack", names.PODSET_SLICE_SIZE: "9"}
    (got,) = find_errors("PyTorchJob", {"Worker": replicas(3, annotations=slices)})
    path = "spec.pytorchReplicaSpecs[Worker].template.metadata.annotations"
    assert got.startswith(f"{path}[{names.PODSET_SLICE_SIZE}]: must not be greater")


def test_only_an_mpijob_is_checked_for_pairs() -> None:
    """J-410, J-382: upstream accepts any group of the other kinds."""
    lone = {"Worker": replicas(3, annotations=GROUP)}
    assert find_errors("JAXJob", lone) == []
    (got,) = find_errors("MPIJob", lone)
    assert "can only define groups of exactly 2 pod sets, got: 1 pod set(s)" in got
    launcher, workers = replicas(3, annotations=GROUP), replicas(3, annotations=GROUP)
    assert len(find_errors("MPIJob", {"Launcher": launcher, "Worker": workers})) == 2
    leader = replicas(1, annotations=GROUP)
    assert find_errors("MPIJob", {"Launcher": leader, "Worker": workers}) == []
    other = {**GROUP, names.PODSET_REQUIRED_TOPOLOGY: "example.com/block"}
    errors = find_errors("MPIJob", {"Launcher": replicas(annotations=other), "Worker": workers})
    assert all("must have the same required or preferred topology" in each for each in errors)
    assert len(errors) == 2


def test_only_a_copy_of_a_jaxjob_may_name_its_workload() -> None:
    """J-55, J-56."""
    job, webhook = make("JAXJob", {"Worker": replicas()}), load("JAXJob").webhook
    job["metadata"]["labels"][names.PREBUILT_WORKLOAD_NAME] = "w"
    (error,) = webhook.validate_create(job, CONFIG)
    assert error.detail == 'Is not supported for "kubeflow.org/v1, Kind=JAXJob"'
    job["metadata"]["labels"][names.MULTIKUEUE_ORIGIN] = "manager"
    assert webhook.validate_create(job, CONFIG) == []


def test_a_status_that_says_that_pods_run_goes_with_the_last_worker() -> None:
    """M-175: nobody else would ever change it."""
    adapter, running = load("PyTorchJob").adapter, {"replicaStatuses": {"Worker": {"active": 2}}}
    assert adapter is not None
    assert adapter.stopped_patch(make("PyTorchJob", {}, status=running)) == {"status": None}
    stopped = {"replicaStatuses": {"Worker": {"active": 0}}}
    assert adapter.stopped_patch(make("PyTorchJob", {}, status=stopped)) is None
