"""The entry of a TrainJob's `spec.runtimePatches` with the fields that admission adds. Pure.

The list has one entry for each manager; the trainer merges all of them into the runtime. Parity:
J-427, J-429. Deviates: the entry is added if it is missing, and never added twice (J-428, J-430).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.serde import encode
from multiqueue.jobs.framework.fields import drop_field, get_field, set_field
from multiqueue.jobs.framework.integration import Job, PodSetInfo

MANAGER = "kueue.x-k8s.io/manager"
PATCHES = ("spec", "runtimePatches")
_JOBS = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_EMPTY = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}


def list_patches(job: Job, *, own: bool) -> Sequence[dict[str, Any]]:
    """Return the entries in their order, with or without our own."""
    patches = get_field(job, PATCHES) or ()
    return [patch for patch in patches if own or patch.get("manager") != MANAGER]


def is_filled(job: Job) -> bool:
    """Whether our entry has fields of an admission."""
    patches = get_field(job, PATCHES) or ()
    return any(patch.get("manager") == MANAGER and get_field(patch, _JOBS) for patch in patches)


def with_infos(job: Job, infos: Sequence[PodSetInfo]) -> Job:
    """Return the job with what admission adds to each replicated job in our entry."""
    return _with_entry(job, set_field(_EMPTY, _JOBS, [_replicated_job(info) for info in infos]))


def with_empty_entry(job: Job) -> Job:
    """Return the job with our entry, which adds nothing."""
    return _with_entry(job, _EMPTY)


def without_entry(job: Job) -> Job:
    """Return the job without our entry."""
    others = list_patches(job, own=False)
    return set_field(job, PATCHES, others) if others else drop_field(job, PATCHES)  # type: ignore[no-any-return]


def _with_entry(job: Job, entry: dict[str, Any]) -> Job:
    patches = list(get_field(job, PATCHES) or ())
    managers = [patch.get("manager") for patch in patches]
    if MANAGER in managers:
        patches[managers.index(MANAGER)] = entry
    else:
        patches.append(entry)
    changed: Job = set_field(job, PATCHES, patches)
    return changed


def _replicated_job(info: PodSetInfo) -> dict[str, Any]:
    metadata = {"annotations": dict(info.annotations), "labels": dict(info.labels)}
    spec = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": [encode(each) for each in info.tolerations],
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    template = {"metadata": _filled(metadata), "spec": _filled(spec)}
    return {"name": info.name, "template": {"spec": {"template": template}}}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}
