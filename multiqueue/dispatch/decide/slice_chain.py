"""How the slices of an elastic job follow each other on the manager (M-85, M-160). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiqueue.api.slices import is_replaced
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished

FindSuccessors = Callable[[str], Sequence[Workload]]
"""Returns the Workloads that replace the slice of this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """The slice that has the quota of an earlier one, and will have its job.

    Attributes:
        cluster: The cluster that runs the job; None: no cluster does.
    """

    cluster: str | None = None


def find_successor(key: str, find_successors: FindSuccessors) -> Successor | None:
    """Return the slice that took over from another and may keep its job; None if none did.

    Args:
        key: The key of the earlier slice, which may be gone.
        find_successors: Returns the Workloads that replace a slice.
    """
    seen = {key}
    while True:
        successors = [w for w in find_successors(key) if w.metadata.key not in seen]
        holders = [w for w in successors if not is_finished(w.status) and has_quota(w.status)]
        if holders:
            return _successor(holders[-1])
        replaced = [w for w in successors if is_replaced(w.status)]
        if not replaced:
            return None
        key = replaced[-1].metadata.key
        seen.add(key)


def _successor(workload: Workload) -> Successor | None:
    if workload.metadata.deletion_timestamp or is_evicted(workload.status):
        return None
    return Successor(cluster=workload.status.cluster_name)
