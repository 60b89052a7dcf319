"""Queues and namespaces for the job webhooks, from the shared informers."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api.names import MULTIKUEUE_CONTROLLER, key_of
from multiqueue.jobs.context import Informers


class InformerLookup:
    """A `QueueLookup` over the informers of the manager."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

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
