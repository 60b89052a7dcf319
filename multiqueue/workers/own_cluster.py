"""Recognizes the manager's own cluster by its objects: no two objects have the same uid."""

from __future__ import annotations

from typing import Any

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
        here: list[Informer[Any]] = [informers.workloads, *informers.jobs.values()]
        self._informers = {informer.resource: informer for informer in here}

    def has(self, resource: Resource, seen: ObjectKeyAndVersion) -> bool:
        """Whether the manager's own cluster has this very Workload or job."""
        informer = self._informers.get(resource)
        known = informer.store.get(seen.key) if informer is not None else None
        return known is not None and bool(seen.uid) and identify(known).uid == seen.uid
