"""Rules of elastic jobs: the slices follow the job's size. Parity: E-165, E-166, E-168."""

from __future__ import annotations

from multiqueue.api.slices import counts_of, is_scale_down
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import finish, has_quota
from multiqueue.jobs.framework.compose import build_pod_set, workload_class
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    JobPlan,
    PatchWorkload,
)
from multiqueue.jobs.framework.priority import resolve_priority
from multiqueue.jobs.framework.rules.matching import create_slice
from multiqueue.jobs.framework.slices import LeftOver, has_to_stop
from multiqueue.jobs.framework.view import JobView


def finish_left_over(view: JobView) -> JobPlan | None:
    """Finish a slice that another one replaced, and slices that are not needed any more."""
    if not view.slices.left_over:
        return None
    left_over = view.slices.left_over[0]
    return ChangeStatus(
        workload=left_over.workload,
        change=lambda newest: _finished(view, left_over, newest),
    )


def _finished(view: JobView, left_over: LeftOver, newest: Workload) -> WorkloadStatus:
    generation = newest.metadata.generation
    reason, message = left_over.reason, left_over.message
    return finish(newest.status, reason, message, now=view.now, generation=generation)


def follow_size(view: JobView) -> JobPlan | None:
    """Follow another size: change a slice that waits or shrinks, otherwise create a new slice."""
    workload = view.workload
    if workload is None or not view.follows_size or has_to_stop(workload):
        return None
    if workload is not view.slices.selected:
        return None  # the slices were made for a different version of the job
    has, wanted = counts_of(workload.spec.pod_sets), counts_of(view.pod_sets)
    if has == wanted:
        return None
    if not has_quota(workload.status) or is_scale_down(has, wanted):
        return _resize(view, workload)
    priority = resolve_priority(
        workload_class(view.job), view.integration.priority_class(view.job), view.classes
    )
    return create_slice(view, priority, replaced=workload)


def _resize(view: JobView, workload: Workload) -> PatchWorkload:
    wanted = counts_of(view.pod_sets)
    pod_sets = [
        {**build_pod_set(pod_set), "count": wanted[pod_set.name]}
        for pod_set in workload.spec.pod_sets
    ]
    return PatchWorkload(
        workload=workload,
        patch={"spec": {"podSets": pod_sets}},
    )
