"""The linter's admission warnings: about objects that are accepted but probably wrong.

Only rules that need the object and the objects it names are used. Those are looked up in the shared
informers, so the cost of an answer does not depend on the number of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from multiqueue.api.config import Configuration
from multiqueue.api.names import (
    CLUSTER_NAMES,
    DATA,
    DISPATCH_PROFILE,
    DRAIN,
    PRICES,
    QUEUE_NAME,
    RUNTIME,
    SPEEDS,
    key_of,
)
from multiqueue.api.serde import encode
from multiqueue.api.validation.access import Object, mapping
from multiqueue.jobs.context import Informers
from multiqueue.kube.informer import Informer
from multiqueue.lint.admission import warn
from multiqueue.lint.world import Lookup, Sight
from multiqueue.webhooks.review import ReviewRequest

_OF_JOBS = (CLUSTER_NAMES, DATA, RUNTIME, SPEEDS)
_ANNOTATIONS = {
    "ClusterQueue": (DISPATCH_PROFILE,),
    "Job": _OF_JOBS,
    "LocalQueue": (DISPATCH_PROFILE,),
    "MultiKueueCluster": (DATA, DRAIN, PRICES),
    "MultiKueueConfig": (DISPATCH_PROFILE,),
    "Workload": _OF_JOBS,
}
"""The annotations that users write, by kind."""


class Advise(Protocol):
    """Returns warnings about an accepted object (in v1beta2, if it is of our kinds)."""

    def __call__(self, request: ReviewRequest, obj: Object, said: Sequence[str] = ()) -> list[str]:
        """Return warnings; ``said`` has warnings given already, whose fields get no other one."""


def no_advice(request: ReviewRequest, obj: Object, said: Sequence[str] = ()) -> list[str]:
    """Return no warnings."""
    _ = request, obj, said
    return []


def advise_by(lookup: Lookup) -> Advise:
    """Return advice by the linter's rules about new objects and changes of a spec."""

    def advise(request: ReviewRequest, obj: Object, said: Sequence[str] = ()) -> list[str]:
        if request.subresource or not _is_news(request):
            return []
        return warn(obj, lookup, frozenset(text.partition(": ")[0] for text in said))

    return advise


def _is_news(request: ReviewRequest) -> bool:
    """Whether a user made the change: controllers change a Job's spec, but not its queue."""
    if request.operation == "CREATE":
        return True
    known = _ANNOTATIONS.get(request.kind, ())
    if any(_annotation(request.obj, key) != _annotation(request.old, key) for key in known):
        return True
    if request.kind == "Job":
        old, new = (mapping(o, "metadata", "labels") for o in (request.old, request.obj))
        return old.get(QUEUE_NAME) != new.get(QUEUE_NAME)
    return bool(request.obj.get("spec") != request.old.get("spec"))


def _annotation(obj: Object, key: str) -> object:
    return mapping(obj, "metadata", "annotations").get(key)


class InformerView:
    """A `Lookup` over the manager's informers."""

    def __init__(self, informers: Informers, config: Configuration) -> None:
        self.config: Configuration | None = config
        self._by_kind: dict[str, Informer[Any]] = {
            "AdmissionCheck": informers.admission_checks,
            "ClusterQueue": informers.cluster_queues,
            "DispatchProfile": informers.dispatch_profiles,
            "Cohort": informers.cohorts,
            "LocalQueue": informers.local_queues,
            "MultiKueueCluster": informers.multikueue_clusters,
            "MultiKueueConfig": informers.multikueue_configs,
            "Namespace": informers.namespaces,
            "ResourceFlavor": informers.resource_flavors,
            "Topology": informers.topologies,
            "WorkloadPriorityClass": informers.priority_classes,
        }

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object as on the wire; None if there is none, or none was received yet."""
        informer = self._by_kind.get(kind)
        if informer is None:
            return None
        found = informer.store.get(key_of(namespace, name) if namespace else name)
        return found if found is None or isinstance(found, dict) else encode(found)

    def sight(self, kind: str) -> Sight:
        """Return all or nothing: before the first list, a missing object means nothing."""
        informer = self._by_kind.get(kind)
        return Sight.ALL if informer is not None and informer.synced.is_set() else Sight.NONE
