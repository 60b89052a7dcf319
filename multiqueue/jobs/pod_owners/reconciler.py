"""Keeps the Workloads and the pods of kinds in line that put their pods into groups."""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.api.names import key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.execute import JobExecutor
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_source import SingleObjects
from multiqueue.jobs.framework.observe import JobObserver
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.informers import BY_JOB_CLASS
from multiqueue.jobs.pod.pods import Pod, is_gated
from multiqueue.jobs.pod_owners.groups import (
    GroupOwnerKind,
    decide_workloads,
    is_followed,
    is_old_revision,
    is_to_stamp,
    pod_patch,
)
from multiqueue.kube.client import PatchType
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PODS, resource_of

STATEFUL_SETS = resource_of("apps/v1", "statefulsets", "StatefulSet")
POD_KIND = "pod"
MAX_STEPS = 200
"""Maximum writes to Workloads in one reconcile; the rest follows in the next."""
CONCURRENCY = 8
"""Objects of one kind that are reconciled at the same time."""


class GroupOwnerReconciler:
    """Makes the Workload of each group, and stamps the pods with its name.

    Args:
        context: The manager's context.
        kind: The integration of the kind.
    """

    def __init__(self, context: ManagerContext, kind: GroupOwnerKind) -> None:
        self.name = f"job-{kind.name}"
        self._context = context
        self._kind = kind
        self._jobs = context.informers.jobs[kind.name]
        self._pods = context.informers.jobs[POD_KIND]
        self._source = SingleObjects(context, kind)
        self._observer = JobObserver(context, kind, self._source, dispatches=False)
        self._executor = JobExecutor(context)
        workers = context.config.controller.workers_for(kind.gvk.kind, kind.gvk.group, CONCURRENCY)
        self._reconciler = Reconciler(self.name, self.reconcile, concurrency=workers)

    async def run(self) -> None:
        """Reconcile until cancelled, once all needed informers are synced."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.namespaces,
            informers.local_queues,
            informers.priority_classes,
            informers.kube_priority_classes,
            self._jobs,
            self._pods,
        )
        self._jobs.add_handler(self._on_job)
        self._pods.add_handler(self._on_pod)
        informers.workloads.add_handler(self._on_workload)
        informers.priority_classes.add_handler(self._on_class)
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Carry out what is left to do for one object, its Workloads and its pods."""
        self._reconciler.queue.note_reconcile(key)
        job = self._source.find(key)
        if job is None:
            await self._delete_left_behind(key)
            return DONE
        if job["metadata"].get("deletionTimestamp") or self._kind.is_skipped(job):
            return DONE
        view = self._observer.observe(job)
        if not is_followed(view):
            return DONE
        result = await self._sync_workloads(view)
        await self._sync_pods(job, view.options.name_limit)
        return result

    async def _sync_workloads(self, view: JobView) -> Result:
        for _ in range(MAX_STEPS):
            view = self._observer.observe(view.job)
            plan = decide_workloads(view, self._kind)
            if plan is None:
                return DONE
            result = await self._executor.execute(plan, view)
            if result is not None:
                return result
        return Result(requeue_after=1.0)

    async def _sync_pods(self, job: Job, limit: int) -> None:
        pods = self._pods.store.by_index(*self._kind.pods_by(job))
        await asyncio.gather(
            *(self._stamp(job, pod, limit) for pod in pods if is_to_stamp(pod)),
        )

    async def _stamp(self, job: Job, pod: Pod, limit: int) -> None:
        ungated = is_gated(pod) and is_old_revision(await self._parent(job, pod), pod)
        patch = pod_patch(pod, self._kind.stamp(job, pod, limit), ungated=ungated)
        if not patch:
            return
        metadata = pod["metadata"]
        patch["metadata"] = {
            **patch.get("metadata", {}),
            "resourceVersion": metadata["resourceVersion"],
        }
        try:
            answer = await self._context.client.patch(
                PODS,
                metadata["name"],
                patch,
                namespace=metadata["namespace"],
                patch_type=PatchType.MERGE,
            )
        except NotFound:
            return
        self._pods.observe(answer)

    async def _parent(self, job: Job, pod: Pod) -> Job:
        """Return the StatefulSet that controls a pod; empty if it does not exist (J-308)."""
        parent = self._kind.parent_set(job, pod)
        if not isinstance(parent, str):
            return parent
        namespace = job["metadata"]["namespace"]
        known = self._context.informers.jobs.get("statefulset")
        found = known.store.get(key_of(namespace, parent)) if known is not None else None
        if found is not None or not parent:
            return found or {}
        try:
            read: Job = await self._context.client.get(STATEFUL_SETS, parent, namespace=namespace)
        except NotFound:
            return {}
        return read

    async def _delete_left_behind(self, key: str) -> None:
        """Delete Workloads whose object and pods are gone, in case no garbage collector runs."""
        namespace, _, name = key.partition("/")
        left = self._source.left_behind(key, None)
        if not left or not self._jobs.synced.is_set():
            return
        try:
            self._jobs.observe(
                await self._context.client.get(self._kind.resource, name, namespace=namespace)
            )
        except NotFound:
            for workload in left:
                if not self._has_pods(workload):
                    await self._executor.delete(workload)

    def _has_pods(self, workload: Workload) -> bool:
        namespace = workload.metadata.namespace
        pods = (o for o in workload.metadata.owner_references if o.kind == "Pod")
        return any(self._pods.store.get(key_of(namespace, pod.name)) for pod in pods)

    # ------------------------------------------------------------ what wakes it

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        self._reconciler.queue.add(self._source.key_of(new or old or {}))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old or {}
        name = self._kind.owner_name(pod)
        if name:
            self._reconciler.queue.add(key_of(pod["metadata"]["namespace"], name))

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None
        for key in self._source.keys_for(workload):
            self._reconciler.queue.add(key)

    def _on_class(self, old: Any, new: Any) -> None:
        """Reconcile the objects that wait for a priority class."""
        del old
        if new is not None:
            for job in self._jobs.store.by_index(BY_JOB_CLASS, new.metadata.name):
                self._reconciler.queue.add(self._source.key_of(job))
