"""The Workload is gone, is being deleted, has finished, or holds no quota: all of it goes."""

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


def clean_up(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Remove everything on the clusters that can be reached (M-86).

    The other clusters are cleaned when they are back: connecting lists all our objects there.
    """
    del config, now
    local = view.local
    if local is None or (local.has_quota and not local.finished):
        return None
    why = "the workload finished" if local.finished else "the workload holds no quota"
    return GroupPlan(removals=remove_all(view, why))


def delete(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Remove everything on the clusters (M-84).

    Objects on clusters out of reach are found by their origin label once these are back (M-173).
    """
    if view.local is not None and not view.local.deleting:
        return None
    removals = remove_all(view, "the workload was deleted")
    if removals:
        return GroupPlan(removals=removals)
    return stop_once_gone(view, config, now)
