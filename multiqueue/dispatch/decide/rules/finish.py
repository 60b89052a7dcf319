"""A copy finished, so the Workload did."""

from __future__ import annotations

from datetime import datetime

from multiqueue.api.conditions import Reason
from multiqueue.dispatch.decide.cluster_state import ClusterState, Finish, GroupConfig
from multiqueue.dispatch.decide.plan import FinishJob, FinishLocal, GroupPlan
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload


def finish(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Bring the final status back, then finish the Workload the same way (M-87, I-5).

    With a latch only its cluster counts; without one, the first cluster to finish. The job tells
    how the Workload ended in three cases: somebody deleted the copy but the job behind the latch
    ended, the copy says OwnerNotFound but that job ended before its deletion, or the job ended
    before this slice took it over.
    """
    del config, now
    local = view.local
    if local is None:
        return None
    ended = [
        (end.at, cluster.name, end)
        for cluster in view.reachable
        if (end := _end_of(cluster, local)) is not None
    ]
    if not ended:
        return None
    _, name, end = min(ended, key=lambda entry: entry[:2])
    return GroupPlan(steps=(FinishJob(cluster=name, finish=end), FinishLocal(finish=end)))


def _end_of(cluster: ClusterState, local: LocalWorkload) -> Finish | None:
    is_latched = local.cluster_name == cluster.name
    job = cluster.job if is_latched and not cluster.condemned else None
    if cluster.has_earlier_job and job is not None and job.finished is not None:
        return job.finished
    if cluster.copy is not None:
        end = cluster.copy.finished
        # Its job runs on under another slice (M-164).
        is_replaced = end is not None and end.reason == Reason.WORKLOAD_SLICE_REPLACED
        if end is not None and end.reason == Reason.OWNER_NOT_FOUND and job is not None:
            return job.finished  # None: it was deleted before it ended
        return None if end is None or is_replaced or end.is_without_job else end
    return job.finished if cluster.workload is None and job is not None else None
