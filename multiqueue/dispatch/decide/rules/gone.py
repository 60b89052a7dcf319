"""Shared by `delete` and `evict`: the end of a job whose remote side is gone."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig, Presence, grace_left
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan, Removal, StopLocalJob
from multiqueue.dispatch.decide.view import GroupView


def remove_all(view: GroupView, why: str) -> tuple[Removal, ...]:
    """Remove all our objects that can be reached."""
    return tuple(
        Removal(cluster=cluster.name, why=why) for cluster in view.reachable if not cluster.is_empty
    )


def stop_once_gone(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan:
    """Say that nothing runs any more once that is known, or the worker was given up.

    Only an inactive local job is released here, and its status is the one last brought back:
    without the remote job it would say "active" for ever.
    """
    local = view.local
    if local is None or local.job is None or not local.job.active:
        return NOTHING
    unseen = [c for c in view.clusters if c.job_presence is Presence.UNKNOWN]
    left = max((grace_left(cluster, config, now) for cluster in unseen), default=None)
    if left is not None and left.total_seconds() > 0:
        names = ", ".join(f'"{cluster.name}"' for cluster in unseen)
        return GroupPlan(wait=left, why=f"{names} may still run it and cannot be seen")
    why = "the workers that could run it were given up" if unseen else "the remote job is gone"
    return GroupPlan(steps=(StopLocalJob(why=why),))
