"""Rules by which a Workload follows what its user changes on the job. Parity: E-186..E-189."""

from __future__ import annotations

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import ReclaimablePod, Workload, WorkloadStatus
from multiqueue.api.workload_state import has_quota
from multiqueue.jobs.framework.compose import build_priority, workload_class
from multiqueue.jobs.framework.plan import ChangeStatus, JobPlan, Note, PatchWorkload
from multiqueue.jobs.framework.priority import WORKLOAD_PRIORITY_CLASS, resolve_priority
from multiqueue.jobs.framework.view import JobView


def is_remote_copy(workload: Workload) -> bool:
    """Whether a manager elsewhere owns the spec: it would undo what we change."""
    return names.MULTIKUEUE_ORIGIN in workload.metadata.labels


def reclaim(view: JobView) -> JobPlan | None:
    """Pods that will not run again give their quota back (E-186); never fewer while it is held."""
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
    floor = known if has_quota(workload.status) else {}
    counts = {item.name: item.count for item in view.integration.reclaimable_pods(view.job)}
    merged = {
        name: min(max(counts.get(name, 0), floor.get(name, 0)), sizes[name])
        for name in sorted(sizes.keys() & (counts.keys() | floor.keys()))
    }
    wanted = tuple(ReclaimablePod(name=n, count=c) for n, c in merged.items() if c > 0)
    return wanted if wanted or workload.status.reclaimable_pods else None


def follow_queue(view: JobView) -> JobPlan | None:
    """Another queue, as long as nothing is reserved in the first (E-189)."""
    workload = view.workload
    if workload is None or workload.spec.queue_name == view.queue or is_remote_copy(workload):
        return None
    if workload.status.admission is not None or has_quota(workload.status):
        return None
    return PatchWorkload(workload=workload, patch={"spec": {"queueName": view.queue}})


def follow_priority(view: JobView) -> JobPlan | None:
    """Another WorkloadPriorityClass, whatever the state of the Workload (E-187)."""
    workload, wanted = view.workload, workload_class(view.job)
    if workload is None or not wanted or is_remote_copy(workload):
        return None
    reference = workload.spec.priority_class_ref
    if reference and (reference.kind, reference.name) == (WORKLOAD_PRIORITY_CLASS, wanted):
        return None
    priority = resolve_priority(wanted, "", view.classes)
    return PatchWorkload(
        workload=workload,
        patch={"spec": build_priority(priority)},
        note=Note(
            reason="UpdatedWorkload",
            message=f"Updated workload priority class: {workload.metadata.key}",
        ),
    )


def follow_gates(view: JobView) -> JobPlan | None:
    """Admission gates that were taken off the job; none can be added later (E-188)."""
    workload = view.workload
    if workload is None:
        return None
    present = workload.metadata.annotations.get(names.ADMISSION_GATED_BY)
    wanted = (view.job["metadata"].get("annotations") or {}).get(names.ADMISSION_GATED_BY)
    if present is None or present == wanted or is_remote_copy(workload):
        return None
    if wanted and not set(_split(wanted)) <= set(_split(present)):
        return None
    return PatchWorkload(
        workload=workload,
        patch={"metadata": {"annotations": {names.ADMISSION_GATED_BY: wanted or None}}},
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
