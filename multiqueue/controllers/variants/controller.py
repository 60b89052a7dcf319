"""Keeps the variants of concurrent admission, and the parent in line with them (E-170 to E-173).

Runs only with the gate ConcurrentAdmission. Level-based: observe, let the first rule decide, write,
repeat. The key is that of the parent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from multiqueue.api.config import Gate
from multiqueue.api.names import GROUP, key_of, split_key
from multiqueue.api.v1beta2 import ClusterQueue, LocalQueue, Workload
from multiqueue.api.variants import is_parent, parent_of, variant_flavor
from multiqueue.api.workload_state import has_quota
from multiqueue.controllers.variants.compose import GVK, compose_variant
from multiqueue.controllers.variants.decide import decide_family
from multiqueue.controllers.variants.plan import (
    CreateVariant,
    DeleteVariant,
    FamilyStep,
    PatchObject,
    PatchStatus,
    ReleaseVariant,
)
from multiqueue.controllers.variants.view import FamilyView, queue_policy
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.compose import MAX_NAME, SHORT_NAME
from multiqueue.jobs.framework.job_source import BY_OWNER_KEY, owner_key
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE, BY_QUEUE
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import AlreadyExists, NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result

CONCURRENCY = 8
MAX_STEPS = 12
TAKEN_SECONDS = 1.0
"""Delay before a variant is made whose name an earlier one, under deletion, still has."""

log = structlog.get_logger("multiqueue.variants")


class VariantController:
    """Reconciles parents.

    Args:
        context: The manager's context.
        on_family: Called with the key of a parent whose variants changed.
    """

    name = "concurrent-admission"

    def __init__(self, context: ManagerContext, *, on_family: Callable[[str], None]) -> None:
        self._context = context
        self._on_family = on_family
        self._workloads = context.informers.workloads.store
        is_short = context.config.gates.enabled(Gate.SHORT_WORKLOAD_NAMES)
        self._name_limit = SHORT_NAME if is_short else MAX_NAME
        workers = context.config.controller.workers_for("Workload", GROUP, CONCURRENCY)
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=workers, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.workloads, informers.local_queues, informers.cluster_queues)
        informers.workloads.add_handler(self._on_workload)
        informers.local_queues.add_handler(self._on_local_queue)
        informers.cluster_queues.add_handler(self._on_cluster_queue)
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Carry out the next steps for one parent."""
        for _ in range(MAX_STEPS):
            self._reconciler.queue.note_reconcile(key)
            view = self.observe(key)
            if view is None:
                await self._release_orphans(key)
                return DONE
            plan = decide_family(view)
            if not plan.steps:
                return Result(requeue_after=plan.requeue_after)
            try:
                for step in plan.steps:
                    await self._execute(step, view)
            except NotFound:
                return Result(requeue_after=0.0)
            except AlreadyExists:
                return Result(requeue_after=TAKEN_SECONDS)
        log.warning("variants do not come to rest", workload=key, steps=MAX_STEPS)
        return Result(requeue_after=1.0)

    def observe(self, key: str) -> FamilyView | None:
        """Return what is known about a parent and its variants; None if it is gone."""
        parent = self._workloads.get(key)
        if parent is None or parent_of(parent) is not None:
            return None
        queue = self._queue_of(parent)
        flavors, mode, last = ((), "", "") if queue is None else queue_policy(queue)
        view = FamilyView(
            parent=parent,
            flavors=None if queue is None else flavors,
            mode=mode,
            last_acceptable=last,
            waits_for_pods=self._context.config.wait_for_pods_ready is not None,
            now=self._context.clock.now(),
        )
        variants = sorted(
            (v for v in self._variants_of(key) if _owner_uid(v) == parent.metadata.uid),
            key=lambda v: (view.rank(variant_flavor(v)), v.metadata.name),
        )
        return replace(view, variants=tuple(variants))

    def _queue_of(self, parent: Workload) -> ClusterQueue | None:
        informers = self._context.informers
        admission = parent.status.admission
        if admission is not None and has_quota(parent.status):
            return informers.cluster_queues.store.get(admission.cluster_queue)
        local = informers.local_queues.store.get(
            key_of(parent.metadata.namespace, parent.spec.queue_name)
        )
        return informers.cluster_queues.store.get(local.spec.cluster_queue) if local else None

    def _variants_of(self, key: str) -> Iterable[Workload]:
        return self._workloads.by_index(BY_OWNER_KEY, owner_key(GVK, *split_key(key)))

    async def _release_orphans(self, key: str) -> None:
        """Let the variants of a parent that is gone end, once they are deleted with it."""
        for variant in self._variants_of(key):
            if variant.metadata.deletion_timestamp:
                with contextlib.suppress(NotFound):
                    await self._context.writer.remove_finalizer(variant)

    async def _execute(self, step: FamilyStep, view: FamilyView) -> None:
        writer, parent = self._context.writer, view.parent
        match step:
            case CreateVariant():
                body = compose_variant(
                    parent, step.flavor, order=step.order, limit=self._name_limit
                )
                made = await writer.create(body)
                words = f'Variant Workload "{made.metadata.key}" created'
                self._tell(parent, "CreatedVariant", words)
            case DeleteVariant():
                await writer.delete(step.variant)
                words = f'Variant Workload "{step.variant.metadata.key}" deleted; {step.message}'
                self._tell(parent, "DeletedVariant", words)
            case ReleaseVariant():
                await writer.remove_finalizer(step.variant)
            case PatchObject():
                patched = await writer.patch_spec(step.workload, step.patch)
                self._tell(patched, step.reason, step.message)
            case PatchStatus():
                written = await writer.update_status(step.workload.metadata.key, step.change)
                self._tell(written, step.reason, step.message)

    def _tell(self, workload: Workload, reason: str, message: str) -> None:
        if reason:
            reference = workload_reference(workload)
            self._context.recorder.event(reference, "Normal", reason, message)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        seen = new or old
        assert seen is not None, "an event has an object"
        owner = parent_of(seen)
        if owner is not None:
            key = key_of(seen.metadata.namespace, owner.name)
            self._reconciler.queue.add(key)
            self._on_family(key)
        elif is_parent(seen) or self._has_policy(seen):
            self._reconciler.queue.add(seen.metadata.key)

    def _has_policy(self, workload: Workload) -> bool:
        queue = self._queue_of(workload)
        return queue is not None and queue.spec.concurrent_admission_policy is not None

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if new is not None and (old is None or old.spec.cluster_queue != new.spec.cluster_queue):
            self._enqueue_queue(new)

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if new is None or (old is not None and queue_policy(old) == queue_policy(new)):
            return
        for queue in self._context.informers.local_queues.store.by_index(
            BY_CLUSTER_QUEUE, new.metadata.name
        ):
            self._enqueue_queue(queue)

    def _enqueue_queue(self, queue: LocalQueue) -> None:
        for workload in self._workloads.by_index(BY_QUEUE, queue.metadata.key):
            self._on_workload(None, workload)


def build_variants(
    context: ManagerContext, *, on_family: Callable[[str], None]
) -> list[VariantController]:
    """Return the controller; none if the gate is off."""
    wanted = context.config.gates.enabled(Gate.CONCURRENT_ADMISSION)
    return [VariantController(context, on_family=on_family)] if wanted else []


def _owner_uid(variant: Workload) -> str:
    owner = parent_of(variant)
    return owner.uid if owner is not None else ""
