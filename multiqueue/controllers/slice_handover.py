"""What an admission means for the slice that it replaces (E-167).

Called by the writer of admissions. The engine counts the two as one from its decision on; here the
new slice takes over what its job had until then, and the old one ends. Where that fails the job
reconciler ends it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
import structlog

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import find, finish
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.errors import KubeError, NotFound

log = structlog.get_logger("multiqueue.scheduler")


class SliceHandover:
    """Ends slices that others took over from."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context

    def take_over(self, status: WorkloadStatus, replaced: str, now: datetime) -> WorkloadStatus:
        """Return the status of a new slice with what stays as it was for its job.

        The cluster that runs it (M-160), and how long it ran.
        """
        old = self._context.informers.workloads.store.get(replaced)
        return status if old is None else taken_over(status, old, now)

    async def finish(self, replaced: str, by: Workload) -> None:
        """End the slice that another one took over from."""
        now = self._context.clock.now()
        message = (
            f"Replaced to accommodate a workload (UID: {by.metadata.uid}, JobUID:"
            f" {by.metadata.labels.get(names.JOB_UID, '')}) due to workload slice aggregation"
        )

        def change(newest: Workload) -> WorkloadStatus:
            generation = newest.metadata.generation
            reason = Reason.WORKLOAD_SLICE_REPLACED
            return finish(newest.status, reason, message, now=now, generation=generation)

        try:
            await self._context.writer.update_status(replaced, change)
        except NotFound:
            return
        except KubeError as error:
            log.warning("replaced slice not finished", workload=replaced, error=str(error))
            return


def taken_over(status: WorkloadStatus, old: Workload, now: datetime) -> WorkloadStatus:
    """Return the status of a slice that goes on where another one was.

    Deviates: upstream begins anew to count the time that the job may run (E-107).
    """
    past = old.status.accumulated_past_execution_time_seconds or 0
    admitted = find(old.status, WorkloadCondition.ADMITTED)
    if admitted is not None and admitted.status == "True":
        past += max(0, int((now - admitted.transitioned_at).total_seconds()))
    return msgspec.structs.replace(
        status,
        cluster_name=old.status.cluster_name or status.cluster_name,
        accumulated_past_execution_time_seconds=past or None,
    )
