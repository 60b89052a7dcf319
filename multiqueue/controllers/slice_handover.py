"""What the admission of a slice means for it and for the slice that it replaces (E-167). Pure.

The engine counts the two as one from its decision on. The write of the new slice's admission hands
the state over; the workload controller finishes the old slice, on workers too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.slices import Find, list_earlier, replaced_message
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import find, finish, has_quota, is_finished


def taken_over(status: WorkloadStatus, old: Workload | None, now: datetime) -> WorkloadStatus:
    """Return the status of a slice with the state of the one it replaced, if that is known.

    The state is the cluster that runs the job (M-160), and how long it has run.

    Deviates: upstream restarts the job's maximum execution time (E-107).
    """
    if old is None:
        return status
    past = old.status.accumulated_past_execution_time_seconds or 0
    admitted = find(old.status, WorkloadCondition.ADMITTED)
    if admitted is not None and admitted.status == "True":
        past += max(0, int((now - admitted.transitioned_at).total_seconds()))
    return msgspec.structs.replace(
        status,
        cluster_name=old.status.cluster_name or status.cluster_name,
        accumulated_past_execution_time_seconds=past or None,
    )


def find_successor(
    workload: Workload, find_workload: Find, find_successors: Callable[[str], Iterable[Workload]]
) -> Workload | None:
    """Return the slice that took over the quota of this one; None if there is none.

    Also None if they replace each other, which happens only by hand: then neither took over.
    """
    if workload.status.admission is None:
        return None
    queue = workload.status.admission.cluster_queue
    earlier = set(list_earlier(workload, find_workload))
    for successor in find_successors(workload.metadata.key):
        status = successor.status
        if successor.metadata.key in earlier or is_finished(status) or not has_quota(status):
            continue
        if status.admission is not None and status.admission.cluster_queue == queue:
            return successor
    return None


def ended(workload: Workload, by: Workload, now: datetime) -> WorkloadStatus:
    """Return the final status of a replaced slice; its job continues to run."""
    generation = workload.metadata.generation
    message = replaced_message(by)
    return finish(
        workload.status, Reason.WORKLOAD_SLICE_REPLACED, message, now=now, generation=generation
    )
