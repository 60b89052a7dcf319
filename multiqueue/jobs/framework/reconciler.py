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

from multiqueue.api.names import key_of, split_key
from multiqueue.api.v1beta2 import Workload
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
from multiqueue.jobs.framework.observe import JobObserver
from multiqueue.jobs.framework.priority import DEFAULT_CLASS
from multiqueue.jobs.framework.related import list_related, related_key
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.informers import (
    BY_CONTROLLER,
    BY_JOB_CLASS,
    BY_NAMESPACE,
    BY_PREBUILT,
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
        self._observer = JobObserver(context, integration, dispatches=dispatches)
        self._executor = JobExecutor(context)
        workers = context.config.controller.workers_for(
            integration.resource.kind, integration.resource.group, CONCURRENCY
        )
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, concurrency=workers
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
        for _ in range(MAX_STEPS):
            self._reconciler.queue.note_reconcile(key)
            job = self._informer.store.get(key)
            if job is None:
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
            log.info("job waits for its owner", job=_key(job), error=str(error))
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
        job = self._informer.store.get(key)
        if not self._observer.left_behind(key, _uid(job)):
            return
        job = await self._read(key)
        for workload in self._observer.left_behind(key, _uid(job)):
            await self._executor.delete(workload)

    async def _read(self, key: str) -> Job | None:
        """Read a job from the API server and update the informer; None if it is gone."""
        namespace, name = split_key(key)
        try:
            job: Job = await self._context.client.get(
                self._integration.resource, name, namespace=namespace
            )
        except NotFound:
            return None
        self._informer.observe(job)
        return job

    def _listen(self) -> None:
        informers = self._context.informers
        self._informer.add_handler(self._on_job)
        informers.workloads.add_handler(self._on_workload)
        informers.priority_classes.add_handler(self._on_class)
        informers.kube_priority_classes.add_handler(self._on_class)
        informers.namespaces.add_handler(self._on_namespace)
        for resource, handler in self._on_related.items():
            informers.related[resource].add_handler(handler)

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        self._reconciler.queue.add(_key(new or old or {}))

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None
        namespace = workload.metadata.namespace
        for owner in workload.metadata.owner_references:
            gvk = GroupVersionKind.of(owner.api_version, owner.kind)
            if (gvk.group, gvk.kind) == (self._integration.gvk.group, self._integration.gvk.kind):
                self._reconciler.queue.add(key_of(namespace, owner.name))
            if self._integration.resource == JOBS:
                # Children of other kinds are stopped by their parents' own controllers (J-17).
                for job in self._informer.store.by_index(BY_CONTROLLER, owner.uid):
                    self._reconciler.queue.add(_key(job))
        for job in self._informer.store.by_index(BY_PREBUILT, workload.metadata.key):
            self._reconciler.queue.add(_key(job))

    def _on_class(self, old: Any, new: Any) -> None:
        """Reconcile jobs for which a missing priority class was created."""
        del old
        if new is None:
            return
        name = new["metadata"]["name"] if isinstance(new, dict) else new.metadata.name
        if name == DEFAULT_CLASS:
            return
        for job in self._informer.store.by_index(BY_JOB_CLASS, name):
            self._reconciler.queue.add(_key(job))

    def _wake_readers(self, resource: Resource, old: Job | None, new: Job | None) -> None:
        """Reconcile the jobs that are read with a changed object (J-17)."""
        metadata = (new or old or {})["metadata"]
        key = related_key(resource, metadata.get("namespace", ""), metadata["name"])
        for job in self._informer.store.by_index(BY_RELATED, key):
            self._reconciler.queue.add(_key(job))

    def _on_namespace(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is None or old is None or _labels(old) == _labels(new):
            return
        for job in self._informer.store.by_index(BY_NAMESPACE, new["metadata"]["name"]):
            self._reconciler.queue.add(_key(job))


async def wait_settled(*informers: Any) -> None:
    """Wait until each informer has listed its kind, or knows that the kind is not served."""
    await asyncio.gather(*(informer.settled.wait() for informer in informers))


def _key(job: Job) -> str:
    metadata = job["metadata"]
    return key_of(metadata["namespace"], metadata["name"])


def _uid(job: Job | None) -> str | None:
    return job["metadata"]["uid"] if job is not None else None


def _labels(namespace: dict[str, Any]) -> Any:
    return namespace["metadata"].get("labels")
