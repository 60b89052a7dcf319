"""Counts changes of specs: the first thing to look at when a fleet does not behave as before."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NoReturn

from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.informer import Informer


class ConfigChanges:
    """Counts while it runs, which is while this manager leads.

    Args:
        context: The manager's context.
    """

    name = "config-changes"

    def __init__(self, context: ManagerContext) -> None:
        self._metrics = context.metrics
        self._counts = False
        informers = context.informers
        followed: tuple[Informer[Any], ...] = (
            informers.cluster_queues,
            informers.cohorts,
            informers.local_queues,
            informers.resource_flavors,
            informers.admission_checks,
            informers.topologies,
            informers.priority_classes,
            informers.multikueue_configs,
            informers.multikueue_clusters,
            informers.dispatch_profiles,
            informers.job_kinds,
        )
        for informer in followed:
            informer.add_handler(partial(self._on_change, informer))

    async def run(self) -> NoReturn:
        """Count until cancelled."""
        self._counts = True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._counts = False
        raise AssertionError("it is cancelled")

    def _on_change(self, informer: Informer[Any], old: Any, new: Any) -> None:
        """Count an object that came, went, or has another generation: its status has none."""
        # What comes with the first list is no change.
        if not self._counts or not informer.synced.is_set():
            return
        known = old is not None and new is not None
        if not known or old.metadata.generation != new.metadata.generation:
            self._metrics.config_changes_total.child(informer.resource.kind).inc()
