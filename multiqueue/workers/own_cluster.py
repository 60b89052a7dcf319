"""What the manager's own cluster tells about workers.

It is recognized by its objects: no two objects have the same uid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished
from multiqueue.jobs.context import Informers
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import Resource
from multiqueue.kube.store import ObjectKeyAndVersion, identify


class OwnCluster:
    """Tells whether an object that a worker shows is the manager's own.

    Args:
        informers: The manager's informers.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    def has(self, resource: Resource, seen: ObjectKeyAndVersion) -> bool:
        """Whether the manager's own cluster has this very Workload or job."""
        here: Iterable[Informer[Any]] = (self._informers.workloads, *self._informers.jobs.values())
        informer = next((each for each in here if each.resource == resource), None)
        known = informer.store.get(seen.key) if informer is not None else None
        return known is not None and bool(seen.uid) and identify(known).uid == seen.uid

    def count_left(self, worker: str) -> int:
        """Return how many Workloads have, or may have, something on a worker."""
        return sum(_may_be_on(worker, each) for each in self._informers.workloads.store.list())


def _may_be_on(worker: str, workload: api.Workload) -> bool:
    """Whether a Workload was sent to a worker; an eviction that is under way hides where to."""
    status = workload.status
    if is_finished(status) or not has_quota(status):
        return False
    if status.cluster_name or status.nominated_cluster_names:
        return worker in {status.cluster_name, *status.nominated_cluster_names}
    return is_evicted(status)
