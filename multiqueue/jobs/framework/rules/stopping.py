"""How a job is stopped, step by step; shared by all rules that stop one."""

from __future__ import annotations

from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.plan import EventNote, JobPlan, Wait, WriteJob
from multiqueue.jobs.framework.view import JobView


def stop(view: JobView, message: str, workload: Workload | None = None) -> JobPlan | None:
    """Return the next step that stops the job; None if it is stopped or has ended.

    With the Workload, the fields that its admission added are removed again. The first step, which
    keeps pods from starting, is written even if the job changed meanwhile; restoring is not.
    """
    if view.ended:
        return None
    patch = view.integration.stop_patch(view.job, workload.spec.pod_sets if workload else ())
    if patch is None:
        return None if view.suspended else Wait()
    first = "suspend" in (patch.patch.get("spec") or {})
    return WriteJob(
        patch=patch,
        strict=not first,
        note=EventNote(reason="Stopped", message=message) if first else None,
    )
