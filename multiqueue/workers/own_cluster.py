"""Recognizes the manager's own cluster by its objects: no two objects have the same uid."""

from __future__ import annotations

from collections.abc import Iterable
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
        self._informers = informers

    def has(self, resource: Resource, seen: ObjectKeyAndVersion) -> bool:
        """Whether the manager's own cluster has this very Workload or job."""
        here: Iterable[Informer[Any]] = (self._informers.workloads, *self._informers.jobs.values())
        informer = next((each for each in here if each.resource == resource), None)
        known = informer.store.get(seen.key) if informer is not None else None
        return known is not None and bool(seen.uid) and identify(known).uid == seen.uid
