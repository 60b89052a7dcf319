"""Priority of the copies: the one part of their spec that may change while they run."""

from __future__ import annotations

from multiqueue.multikueue.group import GroupView
from multiqueue.multikueue.plan import UpdatePriority

WORKLOAD_CLASS = "WorkloadPriorityClass"
POD_CLASS = "PriorityClass"


def update_priorities(view: GroupView) -> tuple[UpdatePriority, ...]:
    """Name the copies whose priority is out of date (M-89).

    Only where it comes from a WorkloadPriorityClass: that of pods is the pods' own.
    """
    local = view.local
    if local is None or local.priority.kind == POD_CLASS:
        return ()
    return tuple(
        UpdatePriority(cluster=cluster.name)
        for cluster in view.clusters
        if (copy := cluster.copy) is not None
        and copy.priority.kind == WORKLOAD_CLASS
        and copy.priority != local.priority
    )
