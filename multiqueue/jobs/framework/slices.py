"""Which slice stands for an elastic job, which one is running, and which are left over. Pure.

An elastic job has one slice, or two: one that holds its quota, and a larger one that waits to
replace it. All other slices are left over from races and crashes, and are finished.

Parity: E-166, E-168.
Deviates: a slice that holds quota and has to stop keeps it until nothing of its job runs. Upstream
finishes it if another one waits, and the job runs on without quota. If a job shrinks again, the
slice that waited to replace its present one is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.slices import (
    Counts,
    counts_of,
    is_replaced,
    is_scale_down,
    replaced_key,
    replaced_message,
)
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import (
    find,
    has_quota,
    is_admitted,
    is_evicted,
    is_finished,
)

REPLACED = "Replaced to accommodate a new workload slice"
OUT_OF_SYNC = "The workload slice is out of sync with its parent job"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """A slice that has to be finished, with the reason and message."""

    workload: Workload
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of one job.

    Attributes:
        selected: The slice that stands for the job: the waiting one, else the one with quota.
        holder: The slice that holds quota; None if no slice does.
        left_over: The slices that must be finished, oldest first.
    """

    selected: Workload | None = None
    holder: Workload | None = None
    left_over: tuple[LeftOver, ...] = ()

    @property
    def running(self) -> Workload | None:
        """The slice whose pods may run, even if another one waits."""
        holder = self.holder
        may_run = holder is not None and is_admitted(holder.status) and not is_leaving(holder)
        return holder if may_run else None

    @property
    def runs_on(self) -> bool:
        """Whether the job runs while the slice that stands for it is not admitted.

        That includes an admitted slice whose quota went to one that waits for its checks.
        """
        if self.running is not None:
            return True
        holder = self.holder
        return holder is not None and not is_leaving(holder) and bool(replaced_key(holder))


def is_leaving(workload: Workload) -> bool:
    """Whether the job of this slice has to stop."""
    is_going = workload.metadata.deletion_timestamp or not workload.spec.active
    return bool(is_going) or is_evicted(workload.status)


def has_to_stop(workload: Workload) -> bool:
    """Whether all that is left for this slice is to stop its job."""
    is_going = bool(workload.metadata.deletion_timestamp)
    return is_going or (has_quota(workload.status) and is_leaving(workload))


def arrange(workloads: Sequence[Workload], wanted: Counts) -> Slices:
    """Sort the slices of a job into those to keep and those to finish.

    Args:
        workloads: All Workloads that the job owns, oldest first.
        wanted: The pod counts that the job requests now.
    """
    live = [workload for workload in workloads if not is_finished(workload.status)]
    if not live:
        return Slices(selected=_ended(workloads))
    holders = [workload for workload in live if has_quota(workload.status)]
    taken = {replaced_key(workload): workload for workload in holders}
    heads = [workload for workload in holders if workload.metadata.key not in taken]
    # Slices that replace each other (written by hand) have no last one, so the newest counts.
    holder = (heads or holders or (None,))[-1]
    waiting = [workload for workload in live if not has_quota(workload.status)]
    selected = _select(holder, waiting, wanted)
    replaced = {replaced_key(workload) for workload in live}
    by_key = {workload.metadata.key: workload for workload in live}
    return Slices(
        selected=selected,
        holder=holder,
        left_over=tuple(
            _left_over(workload, taken.get(key), is_replaced=key in replaced)
            for key, workload in by_key.items()
            if not _stays(workload, holder, selected)
        ),
    )


def _select(holder: Workload | None, waiting: Sequence[Workload], wanted: Counts) -> Workload:
    if holder is None:
        # A slice that its user deactivated stays inactive.
        resting = [workload for workload in waiting if not workload.spec.active]
        fresh = [workload for workload in waiting if not is_leaving(workload)]
        return (resting or fresh or waiting)[-1]
    replacements = [w for w in waiting if replaced_key(w) == holder.metadata.key]
    if is_leaving(holder) or not replacements or _fits_into(holder, wanted):
        return holder
    return replacements[-1]


def _fits_into(holder: Workload, wanted: Counts) -> bool:
    has = counts_of(holder.spec.pod_sets)
    return wanted == has or is_scale_down(has, wanted)


def _stays(workload: Workload, holder: Workload | None, selected: Workload) -> bool:
    if workload is holder or workload is selected:
        return True
    # While a slice has to stop, the waiting ones are sorted out afterwards.
    is_waiting = not has_quota(workload.status)
    return holder is not None and is_leaving(holder) and is_waiting


def _left_over(workload: Workload, by: Workload | None, *, is_replaced: bool) -> LeftOver:
    if by is not None or is_replaced:
        message = replaced_message(by) if by is not None else REPLACED
        return LeftOver(workload=workload, reason=Reason.WORKLOAD_SLICE_REPLACED, message=message)
    return LeftOver(workload=workload, reason=Reason.OUT_OF_SYNC, message=OUT_OF_SYNC)


def _ended(workloads: Sequence[Workload]) -> Workload | None:
    """Return the slice with which the job ended; replaced slices do not count."""
    for workload in reversed(workloads):
        finished = find(workload.status, WorkloadCondition.FINISHED)
        is_out = finished is not None and finished.reason == Reason.OUT_OF_SYNC
        if not is_out and not is_replaced(workload.status):
            return workload
    return None
