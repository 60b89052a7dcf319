"""The Workload is gone, or is being deleted."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.rules.gone import remove_all, stop_once_gone
from multiqueue.dispatch.decide.view import GroupView


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
