"""A worker that runs a Workload is out of reach.

This is the whole way of such a Workload:

1. `wait_for_lost_worker` waits for `multiKueue.workerLostTimeout`, counted from the first request
   that the worker did not answer. Then the check becomes Retry.
2. `controllers/workload/reserved.py` evicts the Workload because of the check.
3. `end_eviction` gives its quota back; it does not wait for a worker that was given up.
4. The Workload queues again, and `nominate` offers it to other workers.
5. If the worker returns, `sweep` removes what it still has: its copy is of an earlier reservation.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig, grace_left
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan, SetCheck
from multiqueue.dispatch.decide.view import LocalWorkload


def wait_for_lost_worker(
    cluster: ClusterState, local: LocalWorkload, config: GroupConfig, now: datetime
) -> GroupPlan:
    """Wait for the worker until the timeout, then have the Workload queued again."""
    left = grace_left(cluster, config, now)
    if left > timedelta():
        return GroupPlan(wait=left, why=f'cluster "{cluster.name}" cannot be reached')
    if local.check is None:
        return NOTHING
    message = (
        f'Cluster "{cluster.name}", which runs the workload, has been out of reach for '
        f"{_describe(config.worker_lost_timeout)}"
    )
    retry = SetCheck(state=CheckState.RETRY, message=message, warning=True)
    return GroupPlan(steps=(retry,))


def _describe(duration: timedelta) -> str:
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
