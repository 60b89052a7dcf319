from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from multiqueue.api.config import Configuration, Gates, load_configuration
from multiqueue.jobs.batch_job.webhook import (
    default_job,
    validate_job_create,
    validate_job_update,
)
from tests.unit.webhooks.lookups import Queues

CONFIG = Configuration()
EVERYTHING = load_configuration("manageJobsWithoutQueueName: true")
K = "kueue.x-k8s.io"
OWNER = {"apiVersion": "example.com/v1", "name": "o", "uid": "o", "controller": True}


def job(
    queue: str = "q",
    *,
    namespace: str = "n",
    labels: dict | None = None,
    annotations: dict | None = None,
    template: dict | None = None,
    resources: dict | None = None,
    owners: list | None = None,
    **spec: Any,
) -> dict:
    pod = {"spec": {"containers": [{"name": "c", "resources": resources or {}}]}}
    metadata: dict[str, Any] = {"name": "j", "namespace": namespace, "labels": labels or {}}
    if queue:
        metadata["labels"] = {f"{K}/queue-name": queue, **metadata["labels"]}
    if annotations:
        metadata["annotations"] = annotations
    if owners:
        metadata["ownerReferences"] = owners
    return {"metadata": metadata, "spec": {"template": template or pod, **spec}}


def defaulted(obj: dict, queues: Queues = Queues(), config: Configuration = CONFIG) -> dict:  # noqa: B008
    before = copy.deepcopy(obj)
    got = default_job(obj, queues, config).job
    assert obj == before
    return got


def test_a_queued_job_is_suspended() -> None:
    assert defaulted(job(suspend=False))["spec"]["suspend"] is True
    assert "suspend" not in defaulted(job(""))["spec"]


def test_jobs_of_unmanaged_namespaces_are_left_alone() -> None:
    for namespace in ("kube-system", "kueue-system"):
        assert "suspend" not in defaulted(job(namespace=namespace))["spec"]


def test_the_namespace_selector_decides_by_labels() -> None:
    config = load_configuration("managedJobsNamespaceSelector: {matchLabels: {team: a}}")
    queues = Queues(labels={"n": {"team": "a"}})
    assert defaulted(job(), queues, config)["spec"]["suspend"] is True
    assert "suspend" not in defaulted(job(), Queues(), config)["spec"]


def test_all_jobs_are_suspended_where_the_configuration_says_so() -> None:
    assert defaulted(job(""), config=EVERYTHING)["spec"]["suspend"] is True


def test_the_default_queue_is_used_where_it_exists() -> None:
    """E-189."""
    queues = Queues(local=frozenset({"n/default"}))
    got = defaulted(job(""), queues)
    assert got["metadata"]["labels"] == {f"{K}/queue-name": "default"}
    assert got["spec"]["suspend"] is True
    assert defaulted(job(), queues)["metadata"]["labels"][f"{K}/queue-name"] == "q"


def test_jobs_of_other_controllers_get_no_default_queue() -> None:
    queues = Queues(local=frozenset({"n/default"}))
    owned = job("", owners=[{**OWNER, "kind": "JobSet"}])
    assert defaulted(owned, queues) == owned
    by_cron = job("", owners=[{**OWNER, "kind": "CronJob"}])
    assert defaulted(by_cron, queues)["spec"]["suspend"] is True


def test_a_job_that_an_owner_manages_is_left_to_it() -> None:
    """J-47."""
    child = job(owners=[{**OWNER, "kind": "JobSet"}])
    assert defaulted(child, Queues(children=frozenset({"j"}))) == child
    assert defaulted(child, Queues())["spec"]["suspend"] is True


def test_the_default_priority_class_is_set() -> None:
    """J-44, J-45."""
    queues, key = Queues(classes=frozenset({"default"})), f"{K}/priority-class"
    assert defaulted(job(""), queues)["metadata"]["labels"] == {key: "default"}
    assert defaulted(job(labels={key: "high"}), queues)["metadata"]["labels"][key] == "high"
    assert key not in defaulted(job(), Queues())["metadata"]["labels"]
    owned = job("", owners=[{**OWNER, "kind": "JobSet"}])
    assert defaulted(owned, queues) == owned
    off = load_configuration("featureGates: {WorkloadPriorityClassDefaulting: false}")
    assert defaulted(job(""), queues, off) == job("")


def test_no_queue_is_given_in_a_namespace_that_is_not_managed() -> None:
    obj = job("", namespace="kube-system")
    assert defaulted(obj, Queues(local=frozenset({"kube-system/default"}))) == obj


@pytest.mark.parametrize(
    ("managed_by", "want"),
    [
        (None, "kueue.x-k8s.io/multikueue"),
        ("kubernetes.io/job-controller", "kueue.x-k8s.io/multikueue"),
        ("example.com/other", "example.com/other"),
    ],
)
def test_a_queue_that_leads_to_workers_delegates_the_job(managed_by: str | None, want: str) -> None:
    """M-136."""
    queues = Queues(multikueue=frozenset({"n/q"}))
    obj = job(**({"managedBy": managed_by} if managed_by else {}))
    assert defaulted(obj, queues)["spec"]["managedBy"] == want
    assert defaulted(obj, Queues())["spec"].get("managedBy") == managed_by


def test_a_missing_queue_is_warned_about() -> None:
    (warning,) = default_job(job(), Queues(), CONFIG).warnings
    assert warning == (
        'LocalQueue "q" does not exist in namespace "n"; the Job waits until it is created'
    )


@pytest.mark.parametrize(
    "spec", [None, "x", {"template": "x"}, {"template": {"spec": {"containers": [1]}}}]
)
def test_defaults_and_rules_survive_wrong_types(spec: object) -> None:
    obj = {"metadata": {"namespace": "n", "labels": {f"{K}/queue-name": "q"}}, "spec": spec}
    default_job(obj, Queues(), CONFIG)
    validate_job_create(obj, Gates())
    validate_job_update(obj, obj, Gates())


LABELS, ANNOTATIONS, TEMPLATE = (
    "metadata.labels",
    "metadata.annotations",
    "spec.template.metadata.annotations",
)
MIN, SYNC = f"{K}/job-min-parallelism", f"{K}/job-completions-equal-parallelism"
REQUIRED, PREFERRED = f"{K}/podset-required-topology", f"{K}/podset-preferred-topology"
SLICE, SIZE = f"{K}/podset-slice-required-topology", f"{K}/podset-slice-size"
LAYERS = f"{K}/podset-slice-required-topology-constraints"
GROUP = f"{K}/podset-group-name"
SIZED, LAYERED, GROUPED = (f"{TEMPLATE}[{key}]" for key in (SIZE, LAYERS, GROUP))


def topology(**annotations: str) -> dict:
    return {"metadata": {"annotations": annotations}, "spec": {}}


def layers(*given: tuple[str, int]) -> dict:
    """A template whose slices are cut into slices: (level, pods) from the widest on."""
    return topology(**{LAYERS: json.dumps([{"topology": t, "size": s} for t, s in given])})


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        (job(), []),
        (job("A b"), [f"{LABELS}[{K}/queue-name]"]),
        (job(labels={f"{K}/max-exec-time-seconds": "0"}), [f"{LABELS}[{K}/max-exec-time-seconds]"]),
        (job(labels={f"{K}/max-exec-time-seconds": "x"}), [f"{LABELS}[{K}/max-exec-time-seconds]"]),
        (job(labels={f"{K}/max-exec-time-seconds": "60"}), []),
        (
            job(annotations={f"{K}/prebuilt-workload-name": "A"}),
            [f"{ANNOTATIONS}[{K}/prebuilt-workload-name]"],
        ),
        (
            job(labels={f"{K}/prebuilt-workload-name": ""}),
            [f"{LABELS}[{K}/prebuilt-workload-name]"],
        ),
        (job(annotations={f"{K}/prebuilt-workload-name": ""}), []),
        (
            job(
                labels={f"{K}/prebuilt-workload-name": "A"},
                annotations={f"{K}/prebuilt-workload-name": "a"},
            ),
            [],
        ),
        (job(annotations={MIN: "2"}, parallelism=3, completions=3), []),
        (job(annotations={MIN: "3"}, parallelism=3), [f"{ANNOTATIONS}[{MIN}]"]),
        (job(annotations={MIN: "2"}, parallelism=3, completions=2), [f"{ANNOTATIONS}[{MIN}]"]),
        (job(annotations={MIN: "0"}, parallelism=3), [f"{ANNOTATIONS}[{MIN}]"]),
        (job(annotations={MIN: "x"}, parallelism=3), [f"{ANNOTATIONS}[{MIN}]"]),
        (job(annotations={MIN: "1"}), [f"{ANNOTATIONS}[{MIN}]"]),
        (
            job(annotations={MIN: "1", f"{K}/elastic-job": "true"}, parallelism=3),
            [f"{ANNOTATIONS}[{MIN}]"],
        ),
        (
            job(annotations={SYNC: "true"}, parallelism=2, completions=2, completionMode="Indexed"),
            [],
        ),
        (job(annotations={SYNC: "true"}), [f"{ANNOTATIONS}[{SYNC}]", "spec.completions"]),
        (job(annotations={SYNC: "maybe"}), [f"{ANNOTATIONS}[{SYNC}]"]),
        (job(template=topology(**{REQUIRED: "rack"})), []),
        (job(template=topology(**{REQUIRED: "rack", PREFERRED: "rack"})), [TEMPLATE]),
        (job(template=topology(**{REQUIRED: ""})), [f"{TEMPLATE}[{REQUIRED}]"]),
        (job(template=topology(**{SLICE: "rack"})), [f"{TEMPLATE}[{SIZE}]"]),
        (job(template=topology(**{SIZE: "2"})), [f"{TEMPLATE}[{SIZE}]"]),
        (job(template=topology(**{SLICE: "rack", SIZE: "0"})), [f"{TEMPLATE}[{SIZE}]"]),
        (job(template=topology(**{SLICE: "rack", SIZE: "2"}), parallelism=2), []),
        (job(template=topology(**{SLICE: "rack", SIZE: "3"}), parallelism=2), [SIZED]),
        (
            job(template=topology(**{SLICE: "rack", SIZE: "3"}), parallelism=4, completions=2),
            [SIZED],
        ),
        (job("", template=topology(**{SLICE: "rack", SIZE: "3"})), []),
        (job(template=layers(("rack", 2)), parallelism=2), []),
        (job(template=layers(("rack", 2))), [LAYERED]),
        (job(template=layers(("rack", 4), ("host", 2)), parallelism=8), []),
        (job(template=layers(("rack", 4), ("host", 3)), parallelism=8), [f"{LAYERED}[1].size"]),
        (job(template=layers(("rack", 4), ("rack", 2)), parallelism=8), [f"{LAYERED}[1].topology"]),
        (job(template=layers(("a rack", 4)), parallelism=8), [f"{LAYERED}[0].topology"]),
        (job(template=layers(("rack", 0), ("host", 3)), parallelism=8), [f"{LAYERED}[0].size"]),
        (job(template=layers(("rack", True)), parallelism=8), [f"{LAYERED}[0].size"]),
        (job(template=topology(**{LAYERS: "[5]"})), [LAYERED]),
        (job(template=topology(**{REQUIRED: "rack", GROUP: "5"})), [GROUPED]),
        (job(template=topology(**{REQUIRED: "rack", GROUP: "a"})), []),
        (
            job(template=topology(**{REQUIRED: "r", GROUP: "a", SLICE: "h", SIZE: "1"})),
            [GROUPED],
        ),
        (job(template=topology(**{f"{K}/podset-unconstrained-topology": "True"})), []),
        (
            job(template=topology(**{REQUIRED: "rack"}), annotations={f"{K}/elastic-job": "true"}),
            [f"{TEMPLATE}[{REQUIRED}]"],
        ),
        (
            job(template=topology(**{PREFERRED: "rack"}), annotations={f"{K}/elastic-job": "true"}),
            [f"{TEMPLATE}[{PREFERRED}]"],
        ),
        (job(template=topology(**{LAYERS: "[]"})), [f"{TEMPLATE}[{LAYERS}]"]),
        (
            job(template=topology(**{f"{K}/podset-unconstrained-topology": "yes"})),
            [f"{TEMPLATE}[{K}/podset-unconstrained-topology]"],
        ),
        (
            job(template=topology(**{f"{K}/podset-group-name": "g"})),
            [f"{TEMPLATE}[{K}/podset-group-name]"],
        ),
        (job("", resources={"requests": {"cpu": "-1"}}), []),
    ],
)
def test_new_jobs(obj: dict, paths: list[str]) -> None:
    got = [error.path for error in validate_job_create(obj, Gates())]
    assert sorted(set(got)) == sorted(paths)


def changed(obj: dict, *, suspend: bool = False, **others: Any) -> list[str]:
    """Paths of the errors when a Job becomes ``job(**others)``."""
    new = job(**others)
    new["spec"].setdefault("suspend", suspend)
    return [error.path for error in validate_job_update(new, obj, Gates())]


def test_the_queue_stays_while_the_job_runs() -> None:
    running, suspended = job(suspend=False), job(suspend=True)
    assert changed(running, queue="other") == [f"{LABELS}[{K}/queue-name]"]
    assert changed(suspended, queue="other", suspend=True) == []
    assert changed(suspended, queue="other") == [f"{LABELS}[{K}/queue-name]"]
    stopping = {"annotations": {f"{K}/stopping": "true"}, "suspend": True}
    assert changed(job(**stopping), **stopping, queue="other") == [f"{LABELS}[{K}/queue-name]"]
    assert changed(job(**stopping), suspend=True, queue="other") == []


def test_the_time_limit_and_the_prebuilt_workload_stay_while_the_job_runs() -> None:
    running = job(suspend=False)
    seconds = {f"{K}/max-exec-time-seconds": "5"}
    assert changed(running, labels=seconds) == [f"{LABELS}[{K}/max-exec-time-seconds]"]
    assert changed(running, labels=seconds, suspend=True) == [
        f"{LABELS}[{K}/max-exec-time-seconds]"
    ]
    assert changed(job(suspend=True), labels=seconds, suspend=True) == []
    prebuilt = {f"{K}/prebuilt-workload-name": "w"}
    assert changed(running, annotations=prebuilt) == [f"{ANNOTATIONS}[{K}/prebuilt-workload-name]"]


def test_a_priority_class_changes_but_never_goes() -> None:
    low, high = ({f"{K}/priority-class": name} for name in ("low", "high"))
    path = f"{LABELS}[{K}/priority-class]"
    assert changed(job(labels=low), labels=high) == []
    assert changed(job(labels=low)) == [path]
    assert changed(job(suspend=True), labels=low, suspend=True) == []
    assert changed(job(suspend=False), labels=low) == [path]


def test_a_started_job_may_run_with_its_minimum_and_be_stopped_again() -> None:
    annotations = {MIN: "2"}
    asked = job(annotations=annotations, parallelism=4, suspend=True)
    started = job(annotations=annotations, parallelism=2, suspend=False)
    stopped = job(annotations=annotations, parallelism=2, suspend=True)
    for old, new in ((asked, started), (started, stopped), (stopped, asked)):
        assert validate_job_update(new, old, Gates()) == []


def test_the_size_of_a_running_partial_job_is_ours() -> None:
    running = job(annotations={MIN: "2"}, parallelism=3, suspend=False)
    assert changed(running, annotations={MIN: "2"}, parallelism=4) == ["spec.parallelism"]
    assert changed(running, annotations={MIN: "3"}, parallelism=3) == [f"{ANNOTATIONS}[{MIN}]"]
    assert changed(running, annotations={MIN: "1"}, parallelism=3) == []


def test_the_equality_of_completions_stays_while_the_job_runs() -> None:
    """J-178."""
    key = f"{K}/job-completions-equal-parallelism"
    sizes = {"completionMode": "Indexed", "parallelism": 2, "completions": 2}
    running, waiting = (job(suspend=value, **sizes) for value in (False, True))
    new = {"annotations": {key: "true"}, **sizes}
    assert changed(running, suspend=False, **new) == [f"{ANNOTATIONS}[{key}]"]
    assert changed(waiting, suspend=True, **new) == []


@pytest.mark.parametrize(
    ("fields", "annotations", "change", "want"),
    [
        pytest.param({}, {}, {}, ["spec.parallelism"], id="a worker runs it"),
        pytest.param({}, {}, {"suspend": True}, [], id="it is stopped to queue again"),
        pytest.param({"suspend": True}, {}, {"suspend": True}, [], id="it waits"),
        pytest.param({"managedBy": None}, {}, {"managedBy": None}, [], id="it runs here"),
        pytest.param({}, {f"{K}/elastic-job": "true"}, {}, [], id="it is elastic"),
    ],
)
def test_the_parallelism_of_a_dispatched_job(fields, annotations, change, want) -> None:
    base = {"managedBy": f"{K}/multikueue", "suspend": False}
    old = job(annotations=annotations, **{**base, "parallelism": 1, **fields})
    new = job(annotations=annotations, **{**base, "parallelism": 50, **change})
    assert [error.path for error in validate_job_update(new, old, Gates())] == want


def test_old_mistakes_do_not_block_other_changes() -> None:
    seconds = {f"{K}/max-exec-time-seconds": "soon"}
    bad = job(labels=seconds, suspend=True)
    better = copy.deepcopy(bad)
    better["metadata"]["labels"]["team"] = "a"
    assert validate_job_update(better, bad, Gates()) == []
    assert validate_job_update(bad, job(suspend=True), Gates())


def test_elastic_is_decided_at_creation() -> None:
    elastic = {f"{K}/elastic-job": "true"}
    assert changed(job(suspend=False), annotations=elastic) == [f"{ANNOTATIONS}[{K}/elastic-job]"]
    assert changed(job(suspend=True), annotations=elastic, suspend=True) == [
        f"{ANNOTATIONS}[{K}/elastic-job]"
    ]


def test_wishes_about_clusters_that_cannot_be_read_are_refused() -> None:
    """One that was there before blocks no other change."""
    key = "multiqueue.dev/cluster-selector"
    bad, good = job(annotations={key: "gpu in h100"}), job(annotations={key: "gpu in (h100)"})
    (error,) = validate_job_create(bad, Gates())
    assert error.path == f"metadata.annotations[{key}]"
    assert validate_job_create(good, Gates()) == []
    assert validate_job_update(bad, bad, Gates()) == []
    assert [e.path for e in validate_job_update(bad, good, Gates())] == [error.path]


def test_the_copy_of_an_elastic_job_goes_from_slice_to_slice() -> None:
    """M-161: the manager tells it the name of the next one while it runs."""
    elastic = {f"{K}/elastic-job": "true"}
    old = job(annotations={**elastic, f"{K}/prebuilt-workload-name": "a"}, suspend=False)
    assert changed(old, annotations={**elastic, f"{K}/prebuilt-workload-name": "b"}) == []


def test_the_pods_of_an_elastic_job_wait_at_a_gate() -> None:
    elastic = {f"{K}/elastic-job": "true"}
    gates = [{"name": f"{K}/elastic-job"}]
    once = defaulted(job(annotations=elastic))
    assert once["spec"]["template"]["spec"]["schedulingGates"] == gates
    assert defaulted(once)["spec"]["template"]["spec"]["schedulingGates"] == gates
    assert "schedulingGates" not in defaulted(job())["spec"]["template"]["spec"]
