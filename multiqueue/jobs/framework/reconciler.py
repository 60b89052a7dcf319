"""The job reconciler: one for every kind, with the kind's integration.

Every event of a job schedules its key. A reconcile observes the job, decides one step and carries
it out, until nothing is left to do. Level-based: if the process is killed between two steps, the
next one continues from the state that the API server has.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import structlog

from multiqueue.api.v1beta2 import OwnerReference, Workload
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.ancestors import (
    NestingTooDeepError,
    OwnerNotFoundError,
    controller_of,
)
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.execute import JobExecutor
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.framework.job_source import BY_CONTROLLER
from multiqueue.jobs.framework.observe import JobObserver
from multiqueue.jobs.framework.priority import DEFAULT_CLASS
from multiqueue.jobs.framework.related import list_related, related_key
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.informers import (
    BY_JOB_CLASS,
    BY_NAMESPACE,
    BY_RELATED,
)
from multiqueue.jobs.owners import InformerOwners
from multiqueue.kube.errors import NotFound
from multiqueue.kube.events import build_reference
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import JOBS, Resource

MAX_STEPS = 12
"""Maximum steps of one reconcile; from a foreign job to a Workload it takes five."""
OWNER_SECONDS = 5.0
"""Delay before an owner that is gone is looked for again; then the job is about to go, too."""
CONCURRENCY = 16
"""Jobs of one kind that are reconciled at the same time; each mostly waits for one request."""

log = structlog.get_logger("multiqueue.jobs")


class JobReconciler:
    """Keeps the jobs of one kind and their Workloads in line with each other.

    Args:
        context: The manager's context.
        integration: The integration of the kind.
        dispatches: Whether this program sends Workloads to workers.
    """

    def __init__(
        self, context: ManagerContext, integration: Integration, *, dispatches: bool
    ) -> None:
        self.name = f"job-{integration.name}"
        self._context = context
        self._integration = integration
        self._informer = context.informers.jobs[integration.name]
        self._on_related = {
            resource: partial(self._wake_readers, resource)
            for resource in list_related(integration)
        }
        kind = context.integrations.find_kind(integration.gvk)
        assert kind is not None, "only enabled kinds are reconciled"
        self._source = kind.source(context, integration)
        self._observer = JobObserver(context, integration, self._source, dispatches=dispatches)
        self._executor = JobExecutor(context)
        workers = context.config.controller.workers_for(
            integration.resource.kind, integration.resource.group, CONCURRENCY
        )
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=workers, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled, once all needed informers are synced."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.namespaces,
            informers.local_queues,
            informers.resource_flavors,
            informers.priority_classes,
            informers.kube_priority_classes,
            self._informer,
            *(informers.related[resource] for resource in self._on_related),
        )
        self._listen()
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Carry out the next steps for one job and its Workload."""
        await self._delete_left_behind(key)
        for step in range(MAX_STEPS):
            self._reconciler.queue.note_reconcile(key)
            job = self._source.find(key)
            if job is None:
                if step:  # it went during this reconcile, and nothing else would tell
                    await self._delete_left_behind(key)
                return DONE
            view = await self._observe(job)
            if isinstance(view, Result):
                return view
            result = await self._executor.execute(decide(view), view)
            if result is not None:
                return result
        log.warning("job does not come to rest", job=key, steps=MAX_STEPS)
        return Result(requeue_after=1.0)

    async def _observe(self, job: Job) -> JobView | Result:
        """Return what is known about a job, or how its reconcile ends without that."""
        if controller_of(job) is None or self._integration.is_top_level(job):
            return self._observer.observe(job)
        context = self._context
        owners = InformerOwners(context.informers, context.integrations)
        manage_all = context.config.manage_jobs_without_queue_name
        try:
            ancestor = await owners.ancestor_of(job, context.client, manage_all=manage_all)
        except OwnerNotFoundError as error:
            log.info("job waits for its owner", job=self._source.key_of(job), error=str(error))
            return Result(requeue_after=OWNER_SECONDS)
        except NestingTooDeepError as error:
            reference = build_reference(job, self._integration.resource)
            context.recorder.event(reference, "Warning", "JobNestingTooDeep", str(error))
            return DONE
        return self._observer.observe(job, ancestor)

    async def _delete_left_behind(self, key: str) -> None:
        """Delete Workloads whose job is gone, in case no garbage collector runs.

        The API server is asked first: the job informer may be behind that of the Workloads.
        """
        if not self._informer.synced.is_set():
            return
        left = self._source.left_behind(key, self._source.find(key))
        for workload in left:
            owners = [o for o in workload.metadata.owner_references if self._is_of_kind(o)]
            if not any([await self._is_alive(workload, owner) for owner in owners]):
                await self._executor.delete(workload)

    def _is_of_kind(self, owner: OwnerReference) -> bool:
        gvk = GroupVersionKind.of(owner.api_version, owner.kind)
        return gvk[::2] == self._integration.gvk[::2]

    async def _is_alive(self, workload: Workload, owner: OwnerReference) -> bool:
        """Read an owner from the API server and update the informer."""
        try:
            job: Job = await self._context.client.get(
                self._integration.resource, owner.name, namespace=workload.metadata.namespace
            )
        except NotFound:
            return False
        if job["metadata"]["uid"] != owner.uid:
            return False
        self._informer.observe(job)
        return True

    def _listen(self) -> None:
        informers = self._context.informers
        self._informer.add_handler(self._on_job)
        informers.workloads.add_handler(self._on_workload)
        informers.priority_classes.add_handler(self._on_class)
        informers.kube_priority_classes.add_handler(self._on_class)
        informers.namespaces.add_handler(self._on_namespace)
        for resource, handler in self._on_related.items():
            informers.related[resource].add_handler(handler)

    def detach(self) -> None:
        """Stop listening: the kind is not queued any more, and `run` has ended."""
        informers = self._context.informers
        self._informer.remove_handler(self._on_job)
        informers.workloads.remove_handler(self._on_workload)
        informers.priority_classes.remove_handler(self._on_class)
        informers.kube_priority_classes.remove_handler(self._on_class)
        informers.namespaces.remove_handler(self._on_namespace)

    def reconcile_all(self) -> None:
        """Reconcile every job of the kind: it is read in another way now."""
        for job in self._informer.store.list():
            self._reconciler.queue.add(self._source.key_of(job))

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        key = self._source.key_of(new or old or {})
        self._reconciler.queue.add_after(key, self._source.delay(old, new))

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None
        for key in self._source.keys_for(workload):
            self._reconciler.queue.add(key)
        for owner in workload.metadata.owner_references:
            if self._integration.resource == JOBS:
                # Children of other kinds are stopped by their parents' own controllers (J-17).
                for job in self._informer.store.by_index(BY_CONTROLLER, owner.uid):
                    self._reconciler.queue.add(self._source.key_of(job))

    def _on_class(self, old: Any, new: Any) -> None:
        """Reconcile jobs for which a missing priority class was created."""
        del old
        if new is None:
            return
        name = new["metadata"]["name"] if isinstance(new, dict) else new.metadata.name
        if name == DEFAULT_CLASS:
            return
        for job in self._informer.store.by_index(BY_JOB_CLASS, name):
            self._reconciler.queue.add(self._source.key_of(job))

    def _wake_readers(self, resource: Resource, old: Job | None, new: Job | None) -> None:
        """Reconcile the jobs that are read with a changed object (J-17)."""
        metadata = (new or old or {})["metadata"]
        key = related_key(resource, metadata.get("namespace", ""), metadata["name"])
        for job in self._informer.store.by_index(BY_RELATED, key):
            self._reconciler.queue.add(self._source.key_of(job))

    def _on_namespace(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is None or old is None or _labels(old) == _labels(new):
            return
        for job in self._informer.store.by_index(BY_NAMESPACE, new["metadata"]["name"]):
            self._reconciler.queue.add(self._source.key_of(job))


async def wait_settled(*informers: Any) -> None:
    """Wait until each informer has listed its kind, or knows that the kind is not served."""
    await asyncio.gather(*(informer.settled.wait() for informer in informers))


def _labels(namespace: dict[str, Any]) -> Any:
    return namespace["metadata"].get("labels")
