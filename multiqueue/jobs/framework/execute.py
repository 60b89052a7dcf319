"""Carries out one step of a `JobPlan`.

Every answer updates its informer before the call returns, so the next reconcile sees the write.
"""

from __future__ import annotations

import structlog

from multiqueue.api.config import Gate
from multiqueue.api.names import key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.execute_members import MemberWriter
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    DeleteJob,
    DeleteWorkload,
    EventNote,
    JobPlan,
    PatchWorkload,
    ReleaseWorkload,
    Wait,
    WriteJob,
    WriteMembers,
)
from multiqueue.jobs.framework.rules.running import fail_to_start
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import AlreadyExists, ApiError, Invalid, NotFound
from multiqueue.kube.events import build_reference
from multiqueue.kube.reconciler import DONE, Result

REFUSED_SECONDS = 60.0
"""Delay before a Workload that the API server refused is tried again: a webhook may have refused
it, and webhooks change without an event for us."""
TERMINATING_SECONDS = 1.0
"""Delay before trying a name again that a Workload under deletion still has."""
_REFUSALS = frozenset({400, 403, 413, 422})

log = structlog.get_logger("multiqueue.jobs")


class JobExecutor:
    """Writes for the jobs of one manager."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._members = MemberWriter(context)

    async def execute(self, plan: JobPlan, view: JobView) -> Result | None:
        """Carry out a plan; None asks for another pass at once.

        Raises:
            KubeError: the step failed and has to be tried again.
        """
        match plan:
            case Wait():
                self._note(plan.note, view, view.workload if plan.note else None)
                return Result(requeue_after=plan.requeue_after)
            case CreateJobWorkload():
                return await self._create(plan, view)
            case WriteJob():
                return await self._write_job(plan, view)
            case DeleteJob():
                return await self._delete_job(plan, view)
            case WriteMembers():
                return await self._write_members(plan, view)
            case _:
                return await self._change_workload(plan, view)

    async def _change_workload(self, plan: JobPlan, view: JobView) -> Result | None:
        writer = self._context.writer
        try:
            match plan:
                case DeleteWorkload():
                    await self.delete(plan.workload)
                    self._note(plan.note, view, plan.workload)
                    # The watch reports when it is gone; until then the store still has it.
                    return DONE
                case ReleaseWorkload():
                    await writer.remove_finalizer(plan.workload)
                    return DONE if plan.workload.metadata.deletion_timestamp else None
                case PatchWorkload():
                    workload = await writer.patch_spec(plan.workload, plan.patch)
                    self._note(plan.note, view, workload)
                case ChangeStatus():
                    workload = await writer.update_status(plan.workload.metadata.key, plan.change)
                    self._note(plan.note, view, workload)
        except NotFound:
            return DONE
        return None

    async def delete(self, workload: Workload) -> None:
        """Delete a Workload that its job does not need; it may be gone already."""
        try:
            released = await self._context.writer.remove_finalizer(workload)
            if not workload.metadata.deletion_timestamp:
                await self._context.writer.delete(released)
        except NotFound:
            return

    async def _create(self, plan: CreateJobWorkload, view: JobView) -> Result | None:
        metadata = plan.body["metadata"]
        try:
            workload = await self._context.writer.create(plan.body)
        except AlreadyExists:
            return await self._take_existing(key_of(metadata["namespace"], metadata["name"]), view)
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            words = error.server_message or str(error)
            self._note(
                EventNote(reason="ErrWorkloadCompose", message=words, warning=True), view, None
            )
            return Result(requeue_after=REFUSED_SECONDS)
        self._measure_creation(view, workload)
        self._note(
            EventNote(
                reason="CreatedWorkload",
                message=f"Created Workload: {workload.metadata.key}",
            ),
            view,
            workload,
        )
        return None

    def _measure_creation(self, view: JobView, workload: Workload) -> None:
        """Measure how long a new job waited for its Workload; a changed job is not new."""
        metadata, context = view.job["metadata"], self._context
        created = parse_time(metadata.get("creationTimestamp"))
        if created is None or (metadata.get("generation") or 0) > 1:
            return
        if context.config.gates.enabled(Gate.METRIC_FOR_WORKLOAD_CREATION_LATENCY):
            context.metrics.workload_creation_latency_seconds.child(view.job["kind"]).observe(
                max(0.0, (workload.metadata.created_at - created).total_seconds())
            )

    async def _take_existing(self, key: str, view: JobView) -> Result | None:
        """Handle an existing name: the job's own unseen Workload, or another job's."""
        try:
            workload = await self._context.writer.read(key)
        except NotFound:
            return Result(requeue_after=TERMINATING_SECONDS)
        if any(owner.uid == view.uid for owner in workload.metadata.owner_references):
            return None
        if workload.metadata.deletion_timestamp:
            return Result(requeue_after=TERMINATING_SECONDS)
        message = f'Workload "{key}" exists and is not owned by this job; delete or rename it'
        self._note(
            EventNote(reason="ErrWorkloadCompose", message=message, warning=True), view, None
        )
        return Result(requeue_after=REFUSED_SECONDS)

    async def _write_job(self, plan: WriteJob, view: JobView) -> Result | None:
        metadata = view.job["metadata"]
        body = dict(plan.patch.patch)
        if plan.strict:
            version = metadata.get("resourceVersion")
            body["metadata"] = {**(body.get("metadata") or {}), "resourceVersion": version}
        try:
            answer = await self._context.client.patch(
                view.integration.resource,
                metadata["name"],
                body,
                namespace=metadata["namespace"],
                subresource=plan.patch.subresource,
            )
        except NotFound:
            return DONE
        except Invalid as error:
            if plan.start_of is None:
                raise
            failure = fail_to_start(view, plan.start_of, error.server_message)
            return await self.execute(failure, view)
        self._context.informers.jobs[view.integration.name].observe(answer)
        self._note(plan.note, view, view.workload)
        return None

    async def _write_members(self, plan: WriteMembers, view: JobView) -> Result | None:
        try:
            return await self._members.write(plan, view)
        except Invalid as error:
            if plan.start_of is None:
                raise
            failure = fail_to_start(view, plan.start_of, error.server_message)
            return await self.execute(failure, view)

    async def _delete_job(self, plan: DeleteJob, view: JobView) -> Result:
        metadata = view.job["metadata"]
        try:
            await self._context.client.delete(
                view.integration.resource,
                metadata["name"],
                namespace=metadata["namespace"],
                propagation="Background",
                uid=metadata["uid"],
            )
        except NotFound:
            return DONE
        self._note(plan.note, view, None)
        return DONE

    def _note(self, note: EventNote | None, view: JobView, workload: Workload | None) -> None:
        if note is None:
            return
        regarding = (
            workload_reference(workload)
            if note.on_workload and workload is not None
            else build_reference(view.job, view.integration.resource)
        )
        kind = "Warning" if note.warning else "Normal"
        self._context.recorder.event(regarding, kind, note.reason, note.message)
        about = f"{view.job['metadata']['namespace']}/{view.job['metadata']['name']}"
        level = log.warning if note.warning else log.info
        level("job", job=about, reason=note.reason, message=note.message)
