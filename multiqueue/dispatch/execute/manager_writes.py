"""The writes on the manager: the Workload's status, and the status of its job.

Each change is decided on the newest state: a change that no longer fits it raises `Outdated`, and
nothing is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.disruptions import record_stop
from multiqueue.api.names import RAN_ON
from multiqueue.api.ran_on import AS_RESERVED, RanOn, format_ran_on, read_ran_on
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.api.workload_checks import find_check, set_check_state
from multiqueue.api.workload_readiness import stop_waiting
from multiqueue.api.workload_state import (
    DELAYED_PENDING,
    DELAYED_READY,
    complete_eviction,
    finish,
    has_quota,
    is_evicted,
    is_finished,
    sync_admitted,
)
from multiqueue.dispatch.decide.copy import epoch_of
from multiqueue.dispatch.decide.plan import FinishLocal, Nominate, SetCheck
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.framework.view import JobOptions
from multiqueue.jobs.references import owner_references, workload_reference
from multiqueue.views.phase import find_phase

EVENT_REASON = "MultiKueue"


class Outdated(Exception):  # noqa: N818 - a fact: reconcile again
    """The Workload has changed since the decision."""


class LocalWriter:
    """Writes on the manager for MultiKueue."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context

    async def set_check(
        self,
        workload: api.Workload,
        check: str,
        step: SetCheck,
        copy: api.Workload | None,
        *,
        ran_on: RanOn = AS_RESERVED,
    ) -> api.Workload:
        """Set the check; with Ready also the latch, and Admitted in the same write.

        ``ran_on`` is charged from then on. Omit it only if the reserved flavors are used.

        Raises:
            Outdated: The Workload changed meanwhile.
        """
        now = self._context.clock.now()

        def change(newest: api.Workload) -> WorkloadStatus:
            status = _expect(newest, workload, check)
            if step.cluster is not None:
                _expect_free_for(step.cluster, status, check)
                _expect_told(newest, ran_on)
            seconds = step.requeue_after
            status = set_check_state(
                status,
                check,
                step.state,
                message=step.message,
                now=now,
                requeue_after_seconds=(
                    int(seconds.total_seconds()) if seconds is not None else None
                ),
            )
            if step.stop is not None:
                status = record_stop(status, step.stop)
            if step.state is CheckState.READY:
                status = msgspec.structs.replace(
                    stop_waiting(status), cluster_name=step.cluster, nominated_cluster_names=()
                )
                status = _with_topology(status, copy)
                status = sync_admitted(status, now=now, generation=newest.metadata.generation)
            return status

        written = await self._context.writer.update_status(workload.metadata.key, change)
        left = find_phase(workload).left if step.cluster is not None else ""
        moved = f', moved from "{left}"' if left and left != step.cluster else ""
        self.tell(written, f"{step.message}{moved}", warning=step.warning, rare=bool(moved))
        return written

    async def charge(self, workload: api.Workload, ran_on: RanOn) -> None:
        """Charge these flavors and pods instead of the reserved ones.

        Raises:
            Conflict: The Workload changed meanwhile.
            NotFound: The Workload is gone.
        """
        text = format_ran_on(epoch_of(workload), ran_on)
        if workload.metadata.annotations.get(RAN_ON) != text:
            patch = {"metadata": {"annotations": {RAN_ON: text}}}
            await self._context.writer.patch_spec(workload, patch)

    async def nominate(self, workload: api.Workload, check: str, step: Nominate) -> None:
        """Record where the Workload is offered, and say so on the check.

        Raises:
            Outdated: The Workload changed meanwhile.
        """
        now = self._context.clock.now()

        def change(newest: api.Workload) -> WorkloadStatus:
            status = _expect(newest, workload, check)
            if status.cluster_name is not None or is_evicted(status):
                raise Outdated("it is not waiting for a cluster any more")
            status = msgspec.structs.replace(status, nominated_cluster_names=step.clusters)
            return set_check_state(status, check, CheckState.PENDING, message=step.message, now=now)

        await self._context.writer.update_status(workload.metadata.key, change)

    async def explain(self, workload: api.Workload, check: str, message: str) -> None:
        """Say on the check why it is still Pending.

        Raises:
            Outdated: The Workload changed meanwhile.
        """
        now = self._context.clock.now()

        def change(newest: api.Workload) -> WorkloadStatus:
            status = _expect(newest, workload, check)
            if status.nominated_cluster_names != workload.status.nominated_cluster_names:
                # The next steps of the plan are about the clusters that were nominated then.
                raise Outdated("it is nominated elsewhere")
            state = find_check(status, check)
            if state is None or state.state != CheckState.PENDING:
                return status
            return set_check_state(status, check, CheckState.PENDING, message=message, now=now)

        await self._context.writer.update_status(workload.metadata.key, change)

    async def finish(self, workload: api.Workload, step: FinishLocal) -> None:
        """Finish the Workload the way its copy did.

        Raises:
            Outdated: The Workload changed meanwhile.
        """
        now = self._context.clock.now()
        end = step.finish

        def change(newest: api.Workload) -> WorkloadStatus:
            _expect_same(newest, workload)
            generation = newest.metadata.generation
            return finish(newest.status, end.reason, end.message, now=now, generation=generation)

        await self._context.writer.update_status(workload.metadata.key, change)

    async def end_eviction(self, workload: api.Workload) -> None:
        """Release the quota of an evicted Workload, and say whether it may queue at once.

        Raises:
            Outdated: The Workload changed meanwhile.
        """
        now = self._context.clock.now()
        pending_reason = JobOptions.from_config(self._context.config).pending_reason

        def change(newest: api.Workload) -> WorkloadStatus:
            _expect_same(newest, workload)
            if epoch_of(newest) != epoch_of(workload):
                raise Outdated("it holds another reservation")
            status = complete_eviction(
                newest.status,
                now=now,
                generation=newest.metadata.generation,
                reason=pending_reason,
            )
            if has_quota(status):
                return status
            # Its next worker runs all pods, even those that ended on this one.
            return msgspec.structs.replace(status, reclaimable_pods=())

        await self._context.writer.update_status(workload.metadata.key, change)

    async def patch_job_status(
        self, adapter: MultiKueueAdapter, job: Job, patch: dict[str, Any]
    ) -> None:
        """Change the status of the local job if it still is the one that was decided on.

        Otherwise a request that arrives late would bring back an older status.

        Raises:
            Conflict: The job changed meanwhile.
        """
        metadata = job["metadata"]
        decided_on = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
        changed = await self._context.client.patch(
            adapter.resource,
            metadata["name"],
            {**patch, "metadata": decided_on},
            namespace=metadata.get("namespace"),
            subresource=adapter.status_subresource,
        )
        kind = GroupVersionKind.of_resource(adapter.resource)
        integration = self._context.integrations.find_by_gvk(kind)
        if integration is not None:
            self._context.informers.jobs[integration.name].observe(
                {"apiVersion": kind.api_version, "kind": kind.kind, **changed}
            )

    def tell(
        self, workload: api.Workload, message: str, *, warning: bool, rare: bool = False
    ) -> None:
        """Record an event about the job of a Workload, where people look.

        Trouble and rare events are also recorded on the Workload; success is in its check's
        message.
        Deviates: upstream's event is about the Workload (M-221).
        """
        kind, owners = "Warning" if warning else "Normal", owner_references(workload)
        at_both = warning or rare or not owners
        for regarding in (workload_reference(workload), *owners) if at_both else owners:
            self._context.recorder.event(regarding, kind, EVENT_REASON, message)


def _expect_same(newest: api.Workload, workload: api.Workload) -> None:
    if newest.metadata.uid != workload.metadata.uid or newest.metadata.deletion_timestamp:
        raise Outdated("it is another one, or being deleted")


def _expect(newest: api.Workload, workload: api.Workload, check: str) -> WorkloadStatus:
    """Return the newest status, if it is still the one that the decision was about."""
    _expect_same(newest, workload)
    status = newest.status
    if is_finished(status) or not has_quota(status) or find_check(status, check) is None:
        raise Outdated("it finished, or lost its quota or its check")
    before, after = find_check(workload.status, check), find_check(status, check)
    if before is None or after is None or before.state != after.state:
        raise Outdated("its check changed")
    if epoch_of(newest) != epoch_of(workload):
        raise Outdated("it holds another reservation")
    if is_evicted(status) and not is_evicted(workload.status):
        # Its checks started again with the eviction; nobody would reset what is written now.
        raise Outdated("it was evicted meanwhile")
    return status


def _expect_told(newest: api.Workload, ran_on: RanOn) -> None:
    """Refuse if the annotation differs from ``ran_on``: another worker may have caused it."""
    if read_ran_on(newest.metadata.annotations, epoch_of(newest)) != ran_on:
        raise Outdated("it is told to run on something else")


def _expect_free_for(cluster: str, status: WorkloadStatus, check: str) -> None:
    """Refuse if somebody else took the nomination back (M-20, M-116)."""
    if is_evicted(status):
        raise Outdated("it was evicted meanwhile")
    if status.cluster_name == cluster:
        return
    if status.cluster_name is not None:
        raise Outdated(f'cluster "{status.cluster_name}" holds the latch')
    state = find_check(status, check)
    is_pending = state is not None and state.state == CheckState.PENDING
    if is_pending and cluster not in status.nominated_cluster_names:
        raise Outdated(f'cluster "{cluster}" is not nominated any more')


def _with_topology(status: WorkloadStatus, copy: api.Workload | None) -> WorkloadStatus:
    """Pass on that the worker placed the pods (M-191)."""
    theirs = copy.status.admission if copy is not None else None
    if status.admission is None or theirs is None:
        return status
    placed = {a.name for a in theirs.pod_set_assignments if a.topology_assignment is not None}
    assignments = tuple(
        msgspec.structs.replace(assignment, delayed_topology_request=DELAYED_READY)
        if assignment.name in placed and assignment.delayed_topology_request == DELAYED_PENDING
        else assignment
        for assignment in status.admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(status.admission, pod_set_assignments=assignments)
    return msgspec.structs.replace(status, admission=admission)
