"""Measures how long a Workload that may go to a worker waits for its first copy there.

Only the first copy counts: further ones are sent because a worker did not take the Workload.
"""

from __future__ import annotations

import asyncio

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_admitted, is_finished
from multiqueue.jobs.context import ManagerContext


class StageClock:
    """Follows Workloads from their quota to their first copy.

    Times are those of the event loop, because conditions have whole seconds. A standby follows
    Workloads as well, so that the time that a change of leaders takes counts.

    Args:
        context: The manager's context.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._stage = context.metrics.stage_seconds
        self._ready_at: dict[str, float | None] = {}
        """Since when each Workload with quota may be sent; None: it was."""
        context.informers.workloads.add_handler(self._on_workload)

    def note_copy(self, key: str) -> None:
        """Note that a copy of a Workload was made."""
        since = self._ready_at.get(key)
        if since is not None:
            self._ready_at[key] = None
            now = asyncio.get_running_loop().time()
            self._stage.child("dispatch", "").observe(now - since)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None:
            if old is not None:
                self._ready_at.pop(old.metadata.key, None)
            return
        key = new.metadata.key
        if not has_quota(new.status) or is_finished(new.status):
            self._ready_at.pop(key, None)
        elif key not in self._ready_at and may_go(new):
            sent = old is None and bool(new.status.nominated_cluster_names)
            self._ready_at[key] = None if sent else asyncio.get_running_loop().time()


def may_go(workload: Workload) -> bool:
    """Whether a Workload with quota waits for nothing but one check, which is that of the workers.

    That check is Ready only once a worker has admitted the Workload.
    """
    checks = workload.status.admission_checks
    open_checks = [check for check in checks if check.state != CheckState.READY]
    return not is_admitted(workload.status) and len(open_checks) == 1
