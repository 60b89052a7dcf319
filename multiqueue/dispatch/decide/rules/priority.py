"""Priority of the copies: the one part of their spec that may change while they run."""

from __future__ import annotations

from multiqueue.dispatch.decide.cluster_state import Priority
from multiqueue.dispatch.decide.plan import UpdatePriority
from multiqueue.dispatch.decide.view import GroupView

WORKLOAD_CLASS = "WorkloadPriorityClass"
POD_CLASS = "PriorityClass"


def update_priorities(view: GroupView) -> tuple[UpdatePriority, ...]:
    """Name the copies whose priority is out of date (M-89).

    The class is updated only if it is a WorkloadPriorityClass: a PriorityClass belongs to the pods.
    The boost is an annotation of the Workload, whatever its class.
    """
    local = view.local
    if local is None:
        return ()
    return tuple(
        UpdatePriority(cluster=cluster.name, with_class=_differs(local.priority, copy.priority))
        for cluster in view.clusters
        if (copy := cluster.copy) is not None
        and (copy.priority.boost != local.priority.boost or _differs(local.priority, copy.priority))
    )


def _differs(here: Priority, there: Priority) -> bool:
    """Whether the copy must get another class, or another value of its class."""
    if here.kind == POD_CLASS or there.kind != WORKLOAD_CLASS:
        return False
    return (here.kind, here.name, here.value) != (there.kind, there.name, there.value)
