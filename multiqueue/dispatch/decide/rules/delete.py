"""The Workload is gone, or going."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.rules.gone import remove_all, stop_once_gone
from multiqueue.dispatch.decide.view import GroupView


def delete(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Remove everything on the clusters (M-84).

    What cannot be reached is found again by its origin label once it can be (M-173).
    """
    if view.local is not None and not view.local.deleting:
        return None
    removals = remove_all(view, "the workload was deleted")
    if removals:
        return GroupPlan(removals=removals)
    return stop_once_gone(view, config, now)
