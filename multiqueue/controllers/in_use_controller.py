"""Finalizers of ResourceFlavors, AdmissionChecks and Topologies: they stay while they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from multiqueue.api.v1beta2 import ResourceFlavor
from multiqueue.controllers.finalizer import sync_finalizer
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CHECK, BY_FLAVOR, checks_of, flavors_of
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import DONE, Reconciler, Result


class InUseController:
    """Reconciles the finalizers of one kind.

    Args:
        name: The name of this controller.
        context: The manager's context.
        informer: The informer of the kind.
        users: The informer of the kind that refers to it.
        is_used: Whether an object of that name is used.
        used_by: The names that a user refers to; they are reconciled whenever it changes.
    """

    def __init__(
        self,
        name: str,
        context: ManagerContext,
        informer: Informer[Any],
        users: Informer[Any],
        *,
        is_used: Callable[[str], bool],
        used_by: Callable[[Any], Iterable[str]],
    ) -> None:
        self.name = name
        self._context = context
        self._informer = informer
        self._users = users
        self._is_used = is_used
        self._used_by = used_by
        workers = context.config.controller.workers_for(
            informer.resource.kind, informer.resource.group, 1
        )
        self._reconciler = Reconciler(name, self.reconcile, concurrency=workers)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await wait_settled(self._informer, self._users)
        self._informer.add_handler(self._on_event)
        self._users.add_handler(self._on_user)
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Add or remove the finalizer of one object."""
        obj = self._informer.store.get(name)
        if obj is not None:
            await sync_finalizer(
                self._context.client, self._informer.resource, obj, in_use=self._is_used(name)
            )
        return DONE

    def _on_event(self, _: Any, new: Any) -> None:
        if new is not None:
            self._reconciler.queue.add(new.metadata.name)

    def _on_user(self, old: Any, new: Any) -> None:
        before = set(self._used_by(old)) if old is not None else set()
        after = set(self._used_by(new)) if new is not None else set()
        for name in sorted(before - after):
            self._reconciler.queue.add(name)


def build_in_use_controllers(context: ManagerContext) -> list[InUseController]:
    """Build one controller for each kind that other kinds refer to."""
    informers = context.informers
    queues = informers.cluster_queues
    return [
        InUseController(
            "resource-flavor",
            context,
            informers.resource_flavors,
            queues,
            is_used=lambda name: bool(queues.store.by_index(BY_FLAVOR, name)),
            used_by=flavors_of,
        ),
        InUseController(
            "admission-check",
            context,
            informers.admission_checks,
            queues,
            is_used=lambda name: bool(queues.store.by_index(BY_CHECK, name)),
            used_by=checks_of,
        ),
        InUseController(
            "topology",
            context,
            informers.topologies,
            informers.resource_flavors,
            is_used=lambda name: any(
                name in _topology_of(flavor) for flavor in informers.resource_flavors.store.list()
            ),
            used_by=_topology_of,
        ),
    ]


def _topology_of(flavor: ResourceFlavor) -> tuple[str, ...]:
    return (flavor.spec.topology_name,) if flavor.spec.topology_name else ()
