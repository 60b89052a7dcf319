"""The defaults that all job kinds share: the queue, and whether a job is managed. Pure.

Parity: J-42, J-46, J-49.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.lib.selectors import label_selector_from


class QueueLookup(Protocol):
    """What the rules need to know about queues and namespaces, from the informers."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether the LocalQueue exists."""

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        """Whether the ClusterQueue behind a LocalQueue has a MultiKueue check."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """A defaulted job and the warnings for its author."""

    job: dict[str, Any]
    warnings: tuple[str, ...] = ()


def queue_of(job: Object) -> str:
    """Return the name of the LocalQueue that a job requests, or an empty string."""
    return text(mapping(job, "metadata", "labels").get(names.QUEUE_NAME))


def is_managed(job: Object, lookup: QueueLookup, config: Configuration) -> bool:
    """Whether a new job is to be queued: by its label or by its namespace."""
    namespace = text(mapping(job, "metadata").get("namespace"))
    labels = {
        **lookup.namespace_labels(namespace),
        "kubernetes.io/metadata.name": namespace,
    }
    if not label_selector_from(config.jobs_namespace_selector).matches(labels):
        return False
    return bool(queue_of(job)) or config.manage_jobs_without_queue_name


def default_labels(job: dict[str, Any], lookup: QueueLookup, config: Configuration) -> None:
    """Label a job that names no queue with its namespace's default one, in place (J-42)."""
    _ = config
    metadata = job.get("metadata")
    if not isinstance(metadata, dict) or queue_of(job) or _has_controller(metadata):
        return
    if lookup.has_local_queue(text(metadata.get("namespace")), names.DEFAULT_QUEUE):
        labels = metadata.get("labels")
        metadata["labels"] = {
            **(labels if isinstance(labels, dict) else {}),
            names.QUEUE_NAME: names.DEFAULT_QUEUE,
        }


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


def _has_controller(metadata: Object) -> bool:
    """Whether a controller makes the job; CronJobs do not count, as their Jobs queue themselves."""
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(
        mapping(owner).get("controller") and mapping(owner).get("kind") != "CronJob"
        for owner in owners
    )
