"""Forecast a Workload on a cluster: by the manager's forecast, or by quota numbers alone.

The manager's forecast knows all Workloads on the cluster. If the manager may not read them, the
quota numbers still say whether the gang fits now. They do not say which Workloads it would preempt
or when it would start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from multiqueue.plugins.capacity import NO_QUOTA, Fit, Outlook, judge
from multiqueue.plugins.forecast import Forecast, Prospect
from multiqueue.plugins.suitability import FlavorResource
from multiqueue.plugins.view import ClusterView, QueueView, WorkloadView

_PROSPECTS = {
    Outlook.WAITS: Prospect.WAITS,
    Outlook.NEVER: Prospect.NEVER,
    Outlook.UNKNOWN: Prospect.UNKNOWN,
}


def foresee(workload: WorkloadView, cluster: ClusterView) -> Forecast | None:
    """Return the forecast of a Workload on a cluster; None if it cannot be sent there."""
    if cluster.unusable:
        return None
    if cluster.forecast is not None:
        return cluster.forecast
    return forecast_of_fit(workload, cluster, judge(workload, cluster))


def forecast_of_fit(workload: WorkloadView, cluster: ClusterView, fit: Fit) -> Forecast | None:
    """Return a forecast from the queue's quota; None if the cluster is unavailable."""
    if fit.outlook is Outlook.UNAVAILABLE:
        return None
    queue = cluster.queue
    if queue is None or fit.outlook is not Outlook.FITS:
        prospect = _PROSPECTS.get(fit.outlook, Prospect.UNKNOWN)
        largest = _largest(workload, queue) if prospect is Prospect.NEVER and fit.limit else None
        return Forecast(prospect=prospect, reason=fit.reason, largest=largest)
    borrowed = _borrowed(queue, fit.taken)
    return Forecast(
        prospect=Prospect.BORROWS if borrowed else Prospect.FITS,
        reason=fit.reason,
        taken=fit.taken,
        borrowed=borrowed,
        left={
            pair: queue.quotas.get(pair, NO_QUOTA).free - amount
            for pair, amount in fit.taken.items()
        },
    )


def find_largest(workload: WorkloadView, cluster: ClusterView) -> int | None:
    """Return the most pods of a gang that a cluster could ever hold; None if all of them.

    The answer also covers clusters to which the core does not send the gang because of its size.
    None is also returned if the gang cannot run there for another reason.
    """
    forecast = foresee(workload, replace(cluster, unusable=""))
    return forecast.largest if forecast is not None else None


def _borrowed(queue: QueueView, taken: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    """Return how much of ``taken`` exceeds the queue's own free quota; copies in flight count."""
    borrowed = {}
    for pair, amount in taken.items():
        quota = queue.quotas.get(pair, NO_QUOTA)
        own_left = max(0, quota.nominal - quota.used - quota.in_flight)
        if amount > own_left:
            borrowed[pair] = amount - own_left
    return borrowed


def _largest(workload: WorkloadView, queue: QueueView | None) -> int | None:
    """Return how many pods a queue could ever hold, for gangs of one pod set; else None."""
    if queue is None or len(workload.pod_sets) != 1:
        return None
    (pod_set,) = workload.pod_sets
    return min(
        (
            _most(queue, resource) // request
            for resource, request in pod_set.requests.items()
            if request > 0 and queue.group_of(resource) is not None
        ),
        default=None,
    )


def _most(queue: QueueView, resource: str) -> int:
    return max(
        (quota.most for (_, name), quota in queue.quotas.items() if name == resource), default=0
    )
