"""The defaults that all job kinds share: the queue, and whether a job is managed. Pure.

Parity: J-42 to J-50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.priority import DEFAULT_CLASS
from multiqueue.lib.selectors import label_selector_from


class QueueLookup(Protocol):
    """What the rules need to know about queues and namespaces, from the informers."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether the LocalQueue exists."""

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        """Whether the ClusterQueue behind a LocalQueue has a MultiKueue check."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""

    def has_priority_class(self, name: str) -> bool:
        """Whether the WorkloadPriorityClass exists."""

    def is_queued_kind(self, api_version: str, kind: str) -> bool:
        """Whether jobs of this kind are queued here."""

    def has_ancestor(self, job: Object) -> bool:
        """Whether an owner manages the job, or may do so: then its reconciler decides."""


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """A defaulted job and the warnings for its author."""

    job: dict[str, Any]
    warnings: tuple[str, ...] = ()


def queue_of(job: Object) -> str:
    """Return the name of the LocalQueue that a job requests, or an empty string."""
    return text(mapping(job, "metadata", "labels").get(names.QUEUE_NAME))


def is_managed(job: Object, lookup: QueueLookup, config: Configuration) -> bool:
    """Whether a new job is to be queued: by its label or by its namespace (J-46, J-47).

    Deviates: upstream also suspends a job with a queue in a namespace that is not managed, and then
    ignores it for ever (J-22).
    """
    if not _is_managed_namespace(job, lookup, config):
        return False
    is_asked = bool(queue_of(job)) or config.manage_jobs_without_queue_name
    return is_asked and not (controller_of(job) is not None and lookup.has_ancestor(job))


def default_labels(job: dict[str, Any], lookup: QueueLookup, config: Configuration) -> None:
    """Label a job with the default queue and the default priority class, in place (J-42, J-44).

    A job that a queued kind controls gets neither, because it follows its owner.
    """
    metadata = job.get("metadata")
    if not isinstance(metadata, dict) or _is_made_by_queued_kind(job, lookup):
        return
    namespace, defaults = text(metadata.get("namespace")), {}
    if (
        not queue_of(job)
        and lookup.has_local_queue(namespace, names.DEFAULT_QUEUE)
        and _is_managed_namespace(job, lookup, config)
    ):
        defaults[names.QUEUE_NAME] = names.DEFAULT_QUEUE
    if (
        config.gates.enabled(Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING)
        and not text(mapping(metadata, "labels").get(names.PRIORITY_CLASS))
        and lookup.has_priority_class(DEFAULT_CLASS)
    ):
        defaults[names.PRIORITY_CLASS] = DEFAULT_CLASS
    if defaults:
        metadata["labels"] = {**mapping(metadata, "labels"), **defaults}


def is_to_delegate(
    job: Object,
    lookup: QueueLookup,
    config: Configuration,
    *,
    managed_by: object,
    own_controller: str,
) -> bool:
    """Whether a new job is to name MultiKueue as its controller (J-49).

    Args:
        job: The job, with its queue label.
        lookup: Access to the queues.
        config: The manager's Configuration.
        managed_by: The value of the job's field; None if it is not set.
        own_controller: The name by which the field means the kind's own controller.
    """
    if not config.gates.enabled(Gate.MULTIKUEUE) or managed_by not in (None, own_controller):
        return False
    namespace, queue = text(mapping(job, "metadata").get("namespace")), queue_of(job)
    return bool(queue) and lookup.leads_to_multikueue(namespace, queue)


def _is_managed_namespace(job: Object, lookup: QueueLookup, config: Configuration) -> bool:
    namespace = text(mapping(job, "metadata").get("namespace"))
    labels = {**lookup.namespace_labels(namespace), "kubernetes.io/metadata.name": namespace}
    return label_selector_from(config.jobs_namespace_selector).matches(labels)


def _is_made_by_queued_kind(job: Object, lookup: QueueLookup) -> bool:
    """Whether a queued kind makes the job; CronJob is none, so its Jobs queue (J-43)."""
    controller = controller_of(job)
    return controller is not None and lookup.is_queued_kind(
        text(controller.get("apiVersion")), text(controller.get("kind"))
    )
