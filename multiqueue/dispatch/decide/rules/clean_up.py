"""The Workload finished, or holds no quota."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.rules.gone import remove_all
from multiqueue.dispatch.decide.view import GroupView


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
