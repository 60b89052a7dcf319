"""Rules for a job that names its prebuilt Workload, as MultiKueue does on workers (E-183)."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import finish, is_finished
from multiqueue.jobs.framework.compose import owner_reference
from multiqueue.jobs.framework.integration import MEMBERS, InvalidJobError
from multiqueue.jobs.framework.plan import ChangeStatus, EventNote, JobPlan, PatchWorkload, Wait
from multiqueue.jobs.framework.rules.stopping import stop
from multiqueue.jobs.framework.view import JobView

OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"


def adopt_prebuilt(view: JobView) -> JobPlan | None:
    """Own the prebuilt Workload; if it is missing or has another owner, do not run the job."""
    if not view.prebuilt_name:
        return None
    workload = view.prebuilt
    if workload is None:
        return stop(view, "missing workload") or Wait()
    if MEMBERS in view.job:
        return None  # each of the members becomes an owner
    if any(owner.uid == view.uid for owner in workload.metadata.owner_references):
        return None
    if any(owner.controller for owner in workload.metadata.owner_references):
        return stop(view, "the prebuilt workload is owned by another object") or Wait(
            note=EventNote(
                reason="ErrWorkloadCompose",
                message=f'Workload "{workload.metadata.name}" is owned by another object',
                warning=True,
            )
        )
    owners = [encode(owner) for owner in workload.metadata.owner_references]
    return PatchWorkload(
        workload=workload,
        patch={
            "metadata": {
                "ownerReferences": [
                    *owners,
                    owner_reference(view.job, view.integration.gvk),
                ],
                "labels": {names.JOB_UID: view.uid},
            }
        },
    )


def refuse_out_of_sync(view: JobView) -> JobPlan | None:
    """Do not run a job that differs from the job that its Workload was admitted for."""
    workload = view.prebuilt
    if not view.prebuilt_name or workload is None or is_finished(workload.status) or view.ended:
        return None
    try:
        if view.is_equivalent(workload):
            return None
    except InvalidJobError:
        pass

    def change(newest: Workload) -> WorkloadStatus:
        return finish(
            newest.status,
            Reason.OUT_OF_SYNC,
            OUT_OF_SYNC,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return stop(view, OUT_OF_SYNC, workload) or ChangeStatus(workload=workload, change=change)
