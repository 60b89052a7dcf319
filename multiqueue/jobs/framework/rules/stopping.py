"""How a job is stopped, step by step; shared by all rules that stop one."""

from __future__ import annotations

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, is_evicted
from multiqueue.jobs.framework.plan import EventNote, JobPlan, Wait, WriteJob, WriteMembers
from multiqueue.jobs.framework.slice_templates import original_pod_sets
from multiqueue.jobs.framework.view import JobView

MAX_EVENT = 1024
"""Longest text of an Event, in characters."""


def stop(view: JobView, message: str, workload: Workload | None = None) -> JobPlan | None:
    """Return the next step that stops the job; None if it is stopped or has ended.

    With the Workload, the fields that its admission added are removed again. The first step, which
    keeps pods from starting, is written even if the job changed meanwhile; restoring is not. The
    Event follows with the last step: then nothing of the job runs (J-124).
    """
    if view.integration.is_composed:
        return _stop_members(view, message)
    if view.ended:
        return None
    patch = view.integration.stop_patch(view.job, original_pod_sets(workload) if workload else ())
    if patch is None:
        return None if view.stopped else Wait()
    is_stopped = patch.completes and not view.stopped
    return WriteJob(
        patch=patch,
        strict="suspend" not in (patch.patch.get("spec") or {}),
        note=EventNote(reason="Stopped", message=message[:MAX_EVENT]) if is_stopped else None,
    )


def _stop_members(view: JobView, message: str) -> JobPlan | None:
    """Stop every member that runs; whether they have ended yet is not waited for here."""
    writes = view.integration.stop_writes(view.job, _reason(view), message, view.now)
    if not writes:
        return None
    return WriteMembers(
        writes=writes, note=EventNote(reason="Stopped", message=message[:MAX_EVENT])
    )


def _reason(view: JobView) -> str:
    """Return why the job is stopped, in the words that its pods show (J-123)."""
    workload = view.workload
    if workload is None:
        return "NoMatchingWorkload"
    if workload.metadata.deletion_timestamp:
        return "WorkloadDeleted"
    evicted = find(workload.status, WorkloadCondition.EVICTED)
    if evicted is not None and is_evicted(workload.status):
        return f"WorkloadEvictedDueTo{evicted.reason}"
    return "NotAdmitted"
