"""Rules that copy changes of the user's job to its Workload. Parity: E-186..E-189."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import ReclaimablePod, Workload, WorkloadStatus
from multiqueue.api.workload_state import has_quota, is_evicted
from multiqueue.jobs.framework.compose import build_priority, workload_class
from multiqueue.jobs.framework.plan import ChangeStatus, EventNote, JobPlan, PatchWorkload
from multiqueue.jobs.framework.priority import WORKLOAD_PRIORITY_CLASS, resolve_priority
from multiqueue.jobs.framework.view import JobView


def is_remote_copy(workload: Workload) -> bool:
    """Whether a manager elsewhere owns the spec: it would revert our changes."""
    return names.MULTIKUEUE_ORIGIN in workload.metadata.labels


def reclaim(view: JobView) -> JobPlan | None:
    """Release the quota of pods that will not run again (E-186); never fewer while it is held."""
    workload = view.workload
    if workload is None or not view.options.reclaim_pods:
        return None
    wanted = _reclaimable(view, workload)
    if wanted is None or wanted == workload.status.reclaimable_pods:
        return None

    def change(newest: Workload) -> WorkloadStatus:
        now_wanted = _reclaimable(view, newest)
        if now_wanted is None:
            return newest.status
        return msgspec.structs.replace(newest.status, reclaimable_pods=now_wanted)

    return ChangeStatus(workload=workload, change=change)


def _reclaimable(view: JobView, workload: Workload) -> tuple[ReclaimablePod, ...] | None:
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    known = {item.name: item.count for item in workload.status.reclaimable_pods}
    floor = {} if not has_quota(workload.status) else _never_back(view, workload, known)
    counts = {item.name: item.count for item in view.integration.reclaimable_pods(view.job)}
    merged = {
        name: min(max(counts.get(name, 0), floor.get(name, 0)), sizes[name])
        for name in sorted(sizes.keys() & (counts.keys() | floor.keys()))
    }
    wanted = tuple(ReclaimablePod(name=n, count=c) for n, c in merged.items() if c > 0)
    return wanted if wanted or workload.status.reclaimable_pods else None


def _never_back(view: JobView, workload: Workload, known: Mapping[str, int]) -> Mapping[str, int]:
    """Return the reclaimable counts, which never shrink; a shrunken pod set is counted anew."""
    admission = workload.status.admission
    if not view.is_elastic or admission is None:
        return known
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    shrunk = {a.name for a in admission.pod_set_assignments if (a.count or 0) > sizes[a.name]}
    return {name: count for name, count in known.items() if name not in shrunk}


def follow_queue(view: JobView) -> JobPlan | None:
    """Copy another queue name, as long as no quota is reserved in the first queue (E-189, J-98).

    An evicted Workload keeps its queue until it was admitted again, as upstream's does.
    """
    workload = view.workload
    if workload is None or workload.spec.queue_name == view.queue or is_remote_copy(workload):
        return None
    if not view.integration.follows_queue(view.job):
        return None
    if not view.suspended or has_quota(workload.status) or is_evicted(workload.status):
        return None
    patch: dict[str, Any] = {"spec": {"queueName": view.queue}}
    if labels := view.chargeback_labels:
        patch["metadata"] = {"labels": labels}
    return PatchWorkload(workload=workload, patch=patch)


def follow_priority(view: JobView) -> JobPlan | None:
    """Copy another WorkloadPriorityClass, whatever the state of the Workload (E-187, J-95).

    A Workload with the priority of a PriorityClass keeps it. A slice that runs until a larger one
    is admitted may be preempted like any other (E-168).
    """
    wanted = workload_class(view.job)
    for workload in view.standing if wanted else ():
        reference = workload.spec.priority_class_ref
        if reference is None:
            # The API server refuses a class that is added to a Workload with quota.
            is_kept = has_quota(workload.status)
        else:
            is_kept = reference.kind != WORKLOAD_PRIORITY_CLASS or reference.name == wanted
        if is_kept or is_remote_copy(workload):
            continue
        priority = resolve_priority(wanted, "", view.classes)
        return PatchWorkload(
            workload=workload,
            patch={"spec": build_priority(priority)},
            note=EventNote(
                reason="UpdatedWorkload",
                message=f"Updated workload priority class: {workload.metadata.key}",
            ),
        )
    return None


def follow_gates(view: JobView) -> JobPlan | None:
    """Copy the removal of admission gates from the job; none can be added later (E-188)."""
    return None if view.workload is None else remove_gates(view, view.workload)


def remove_gates(view: JobView, workload: Workload) -> JobPlan | None:
    """Return the removal of admission gates from one of the job's Workloads; None if none went."""
    present = workload.metadata.annotations.get(names.ADMISSION_GATED_BY)
    wanted = (view.job["metadata"].get("annotations") or {}).get(names.ADMISSION_GATED_BY)
    if present is None or present == wanted or is_remote_copy(workload):
        return None
    if wanted and not set(_split(wanted)) <= set(_split(present)):
        return None
    return PatchWorkload(
        workload=workload,
        patch={"metadata": {"annotations": {names.ADMISSION_GATED_BY: wanted or None}}},
        note=EventNote(
            reason="UpdatedWorkload",
            message=f'Updated workload AdmissionGatedBy to "{wanted or ""}"',
        ),
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
