"""Queues and namespaces for the job webhooks, from the shared informers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, key_of
from multiqueue.jobs.context import Informers
from multiqueue.jobs.framework.ancestors import (
    NestingTooDeepError,
    OwnerNotFoundError,
    find_ancestor,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.owners import InformerOwners
from multiqueue.jobs.registry import IntegrationRegistry


class InformerLookup:
    """A `QueueLookup` over the informers of the manager."""

    def __init__(
        self, informers: Informers, integrations: IntegrationRegistry, config: Configuration
    ) -> None:
        self._informers = informers
        self._owners = InformerOwners(informers, integrations)
        self._manage_all = config.manage_jobs_without_queue_name

    async def wait_until_known(self) -> None:
        """Wait until queues, checks and namespaces have been read once."""
        informers = self._informers
        for informer in (
            informers.local_queues,
            informers.cluster_queues,
            informers.admission_checks,
            informers.namespaces,
        ):
            await informer.settled.wait()

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether the LocalQueue exists."""
        return self._informers.local_queues.store.get(key_of(namespace, name)) is not None

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        """Whether the ClusterQueue behind a LocalQueue has a MultiKueue check."""
        queue = self._informers.local_queues.store.get(key_of(namespace, name))
        if queue is None:
            return False
        cluster_queue = self._informers.cluster_queues.store.get(queue.spec.cluster_queue)
        strategy = cluster_queue.spec.admission_checks_strategy if cluster_queue else None
        for rule in strategy.admission_checks if strategy else ():
            check = self._informers.admission_checks.store.get(rule.name)
            if check is not None and check.spec.controller_name == MULTIKUEUE_CONTROLLER:
                return True
        return False

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        obj = self._informers.namespaces.store.get(namespace)
        return (obj["metadata"].get("labels") or {}) if obj else {}

    def has_priority_class(self, name: str) -> bool:
        """Whether the WorkloadPriorityClass exists."""
        return self._informers.priority_classes.store.get(name) is not None

    def is_queued_kind(self, api_version: str, kind: str) -> bool:
        """Whether jobs of this kind are queued here."""
        return self._owners.is_enabled(GroupVersionKind.of(api_version, kind))

    def has_ancestor(self, job: Mapping[str, Any]) -> bool:
        """Whether an owner manages the job; true if that cannot be told from memory."""
        try:
            return find_ancestor(job, self._owners, manage_all=self._manage_all) is not None
        except (OwnerNotFoundError, NestingTooDeepError):
            return True
