"""What a declared kind would do with an object, for people who write a JobKind. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multiqueue.api.names import PODSET
from multiqueue.api.serde import encode
from multiqueue.jobs.declared.adapter import DeclaredAdapter
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.framework.integration import InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.pod_set_info import StartConflictError
from multiqueue.jobs.workload_wire import diff

NODE_LABEL = "example.com/label-of-the-flavor"
"""The node label of the admission that is shown."""


def preview(kind: DeclaredKind, job: Job) -> dict[str, Any]:
    """Return what the kind would do with an object, and which problems it has with it.

    The shown admission adds a label and a node selector to each pod set. Changes are merge patches.
    """
    problems: list[str] = []
    kind.on_failure = lambda _job, words: problems.append(words)
    name = (job.get("metadata") or {}).get("name", "")
    shown: dict[str, Any] = {"object": f"{kind.gvk.kind} {name}"}
    wanted = (kind.gvk.api_version, kind.gvk.kind)
    if (job.get("apiVersion"), job.get("kind")) != wanted:
        got = f"{job.get('apiVersion')} {job.get('kind')}"
        return {**shown, "problems": [f"is a {got}; the JobKind is for {' '.join(wanted)}"]}
    job = {**job, "metadata": {"namespace": "default", "labels": {}, **(job.get("metadata") or {})}}
    waiting = kind.set_suspended(job, value=True)
    parts: dict[str, Callable[[], Any]] = {
        "podSets": lambda: [_pod_set(each) for each in kind.pod_sets(job)],
        "state": lambda: _state(kind, job),
        "suspending": lambda: diff(job, waiting),
        "starting": lambda: diff(waiting, _started(kind, waiting)),
        "stopping": lambda: _stopping(kind, waiting),
        "copyForWorkers": lambda: _copy(kind, job),
    }
    for part, show in parts.items():
        try:
            shown[part] = show()
        except (InvalidJobError, StartConflictError) as error:
            if not any(known in str(error) for known in problems):
                problems.append(f"{part}: {error}")
    if problems:
        shown["problems"] = list(dict.fromkeys(problems))
    return shown


def _pod_set(pod_set: Any) -> dict[str, Any]:
    containers = (pod_set.template.get("spec") or {}).get("containers") or ()
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "containers": [
            {"name": each.get("name", ""), **(each.get("resources") or {})} for each in containers
        ],
    }


def _state(kind: DeclaredKind, job: Job) -> dict[str, Any]:
    ended = kind.finished(job)
    return {
        "suspended": kind.is_suspended(job),
        "active": kind.is_active(job),
        "ready": kind.pods_ready(job),
        "finished": {"success": ended.success, "message": ended.message} if ended else False,
        "reclaimablePods": [encode(each) for each in kind.reclaimable_pods(job)],
        "priorityClass": kind.priority_class(job),
        "podSelector": kind.pod_selector(job),
        "managedBy": kind.managed_by(job),
    }


def _started(kind: DeclaredKind, waiting: Job) -> Job:
    infos = [
        PodSetInfo(
            name=each.name,
            count=each.count,
            labels={PODSET: each.name},
            node_selector={NODE_LABEL: "a"},
        )
        for each in kind.pod_sets(waiting)
    ]
    return kind.started(waiting, infos)


def _stopping(kind: DeclaredKind, waiting: Job) -> Any:
    patch = kind.stop_patch(_started(kind, waiting), kind.pod_sets(waiting))
    return dict(patch.patch) if patch is not None else "waits until its pods have ended"


def _copy(kind: DeclaredKind, job: Job) -> Any:
    if kind.compiled.spec.multi_kueue is None:
        return "none: the JobKind has no spec.multiKueue"
    adapter = DeclaredAdapter(kind)
    return adapter.remote_job(job, workload_name="the-workload", origin="the-manager")
