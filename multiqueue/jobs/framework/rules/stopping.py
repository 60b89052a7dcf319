"""How a job is stopped, step by step; shared by all rules that stop one."""

from __future__ import annotations

from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.plan import EventNote, JobPlan, Wait, WriteJob
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
