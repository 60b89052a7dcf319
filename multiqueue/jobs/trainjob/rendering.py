"""The replicated jobs of a TrainJob: its runtime's, with the job's patches and settings. Pure.

Parity: J-419..J-424. The trainer makes a JobSet of them. Deviates: the command that the trainer
makes for a torchtune runtime is not rendered (J-442); it says nothing about resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.trainjob.runtime_patches import list_patches

Object = Mapping[str, Any]

STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
TRAINER, NODE = "trainer", "node"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_STORAGE_URI = "STORAGE_URI"
_CONTAINERS = ("template", "spec", "template", "spec", "containers")
_MERGE_KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}
"""Lists whose entries a strategic merge patch merges, by the field that identifies an entry. Other
lists are replaced, such as tolerations."""


def render_replicated_jobs(
    job: Job, runtime: Object, *, own_patch: bool
) -> Sequence[dict[str, Any]]:
    """Return the replicated jobs, in the order of the runtime.

    Args:
        job: The TrainJob.
        runtime: Its TrainingRuntime or ClusterTrainingRuntime.
        own_patch: Whether our entry of its patches counts: it does while the job runs.
    """
    spec = runtime["spec"]
    template = get_field(spec, ("template", "spec")) or {}
    order = {each["name"]: position for position, each in enumerate(template["replicatedJobs"])}
    for patch in list_patches(job, own=own_patch):
        change = get_field(patch, ("trainingRuntimeSpec", "template", "spec"))
        template = merge(template, change or {})
    jobs = sorted(template["replicatedJobs"], key=lambda each: order.get(each["name"], len(order)))
    return [_render(job, spec.get("mlPolicy"), each) for each in jobs]


def _render(job: Job, policy: Object | None, replicated: dict[str, Any]) -> dict[str, Any]:
    step = get_field(replicated, ("template", "metadata", "labels", STEP_LABEL))
    trainer = get_field(job, ("spec", "trainer")) or {}
    is_node = replicated["name"] == NODE and bool(get_field(policy, ("mpi", "runLauncherAsNode")))
    if step == TRAINER or is_node:
        resources = trainer.get("resourcesPerNode") if policy is not None else None
        settings = {"resources": resources, "env": trainer.get("env")}
        if step == TRAINER:
            settings |= {key: trainer.get(key) for key in ("image", "command", "args")}
        replicated = _with_container(replicated, NODE, settings)
    if step in _INITIALIZERS:
        settings = _initializer(get_field(job, ("spec", "initializer", _INITIALIZERS[step])) or {})
        replicated = _with_container(replicated, step, settings)
    if step == TRAINER or step in _INITIALIZERS:
        replicated = {**replicated, "replicas": 1}
    nodes = _count_nodes(replicated, step, policy or {}, trainer.get("numNodes"))
    counts = {"parallelism": nodes, "completions": nodes}
    return merge(replicated, {"template": {"spec": counts}})


def _count_nodes(replicated: Object, step: str | None, policy: Object, asked: int | None) -> int:
    """Return how many pods each replica runs (J-420, J-421)."""
    mpi = policy.get("mpi")
    if asked is not None and mpi is None and step == TRAINER:
        return int(asked)
    if asked is not None and mpi is not None and replicated["name"] == NODE:
        # The launcher is one of the nodes then.
        return max(int(asked) - 1, 1) if mpi.get("runLauncherAsNode") else int(asked)
    if step == TRAINER and policy:
        return int(policy.get("numNodes") or 1)
    parallelism = get_field(replicated, ("template", "spec", "parallelism"))
    return 1 if parallelism is None else int(parallelism)


def _initializer(settings: Object) -> dict[str, Any]:
    uri, secret = settings.get("storageUri"), get_field(settings, ("secretRef", "name"))
    env = [{"name": _STORAGE_URI, "value": uri}] if uri is not None else []
    return {
        "env": [*env, *(settings.get("env") or ())],
        "envFrom": [{"secretRef": {"name": secret}}] if secret else None,
    }


def _with_container(replicated: dict[str, Any], name: str, settings: Object) -> dict[str, Any]:
    """Return a replicated job with settings of the container of that name, if it has one."""
    given = {key: value for key, value in settings.items() if value}
    changed = [
        merge(each, given) if each.get("name") == name else each
        for each in get_field(replicated, _CONTAINERS) or ()
    ]
    return dict(set_field(replicated, _CONTAINERS, changed))


def merge(present: Object, change: Object) -> dict[str, Any]:
    """Return an object with a strategic merge patch applied; null removes a field."""
    merged = dict(present)
    for field, value in change.items():
        known = present.get(field)
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, Mapping):
            merged[field] = merge(known if isinstance(known, Mapping) else {}, value)
        elif field in _MERGE_KEYS and isinstance(known, list):
            merged[field] = _merge_entries(known, value, _MERGE_KEYS[field])
        else:
            merged[field] = value
    return merged


def _merge_entries(
    present: Sequence[Object], change: Sequence[Object], key: str
) -> list[dict[str, Any]]:
    by_key = {each[key]: dict(each) for each in present}
    for each in change:
        by_key[each[key]] = merge(by_key.get(each[key], {}), each)
    return list(by_key.values())
