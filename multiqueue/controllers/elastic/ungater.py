"""Ungates pods of elastic jobs once a slice that holds quota for them is admitted (E-169).

Pods without a node are watched from the first elastic Workload on. All pods of a job are listed if
something about the job changed and some of its pods wait. The scheduling gate of a pod is the only
state, so a restarted manager continues with the pods that are still gated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import orjson

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.slices import is_elastic
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import find, is_admitted
from multiqueue.controllers.elastic.ungate import decide_ungating, granted_slice, is_gated
from multiqueue.jobs.belongings import Belongings
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.ancestors import (
    NestingTooDeepError,
    OwnerNotFoundError,
    find_ancestor,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_source import BY_CONTROLLER, BY_OWNER, prebuilt_name
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.owners import InformerOwners
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PODS
from multiqueue.kube.store import ObjectKeyAndVersion, parse_version

UNPLACED = "spec.nodeName="
"""Field selector of pods without a node: they are few beside running ones."""
CONCURRENCY = 8
WRITES_AT_A_TIME = 16
DELETED_SECONDS = 5.0
"""Delay before the next reconcile if pods under deletion hold the places of others: no event may
come when they are gone."""
BY_JOB = "job"

JobKey = tuple[str, str]
"""Name of the integration, key of the job."""


class PodOwner(NamedTuple):
    """A job as the owner references of its pods name it."""

    gvk: GroupVersionKind
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod without a node."""

    key: str
    version: int
    uid: str
    owner: PodOwner | None


def read_pod(data: bytes) -> WaitingPod:
    """Keep the needed part of a pod; the owner only if our gate holds the pod."""
    wire = orjson.loads(data)
    metadata = wire["metadata"]
    return WaitingPod(
        key=names.key_of(metadata["namespace"], metadata["name"]),
        version=parse_version(metadata.get("resourceVersion")),
        uid=metadata.get("uid", ""),
        owner=_owner(metadata) if is_gated(wire) else None,
    )


def _owner(metadata: Mapping[str, Any]) -> PodOwner | None:
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            gvk = GroupVersionKind.of(reference["apiVersion"], reference["kind"])
            return PodOwner(gvk, names.key_of(metadata["namespace"], reference["name"]))
    return None


class ElasticUngater:
    """Reconciles jobs that have gated pods."""

    name = "elastic-ungater"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._wanted = asyncio.Event()
        self._slots = asyncio.Semaphore(WRITES_AT_A_TIME)
        self._owners = InformerOwners(context.informers, context.integrations)
        # Made once, so that a second run does not add them again.
        self._job_handlers = {
            integration.name: partial(self._on_job, integration.name)
            for integration in context.integrations.integrations
        }
        self._pods: Informer[WaitingPod] = Informer(
            context.client,
            PODS,
            label_selector=names.PODSET,
            field_selector=UNPLACED,
            decode=read_pod,
            meta=lambda pod: ObjectKeyAndVersion(pod.key, pod.version, pod.uid),
            indexers={BY_JOB: _by_job},
        )
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        workloads = self._context.informers.workloads
        workloads.add_handler(self._on_workload)
        await wait_settled(workloads)
        await self._wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run(), name="informer waiting pods")
            await self._pods.synced.wait()
            self._pods.add_handler(self._on_pod)
            for integration, handler in self._job_handlers.items():
                self._context.informers.jobs[integration].add_handler(handler)
            tasks.create_task(self._reconciler.run(), name=self.name)

    async def reconcile(self, about: JobKey) -> Result:
        """Ungate the pods of one job that may start."""
        name, key = about
        job = self._context.informers.jobs[name].store.get(key)
        slice_ = self._granted(job) if job is not None else None
        integration = self._context.integrations.find(name)
        if job is None or slice_ is None or integration is None:
            return DONE
        belongings = Belongings(
            self._context.client,
            [job],
            slice_.metadata.name,
            selector=integration.pod_selector(job),
        )
        pods, _ = await belongings.list_pods()
        verdict = decide_ungating(slice_, pods)
        failures: list[KubeError] = []
        async with asyncio.TaskGroup() as tasks:
            for pod in pods:
                patch = verdict.patches.get(pod["metadata"]["name"])
                if patch is not None:
                    tasks.create_task(self._release(slice_, pod, patch, failures))
        if failures:
            raise failures[0]
        return Result(requeue_after=DELETED_SECONDS) if verdict.waits else DONE

    def _granted(self, job: Job) -> Workload | None:
        """Return the slice whose pods may run, of the job or of the one that manages it (J-332)."""
        manage_all = self._context.config.manage_jobs_without_queue_name
        try:
            job = find_ancestor(job, self._owners, manage_all=manage_all) or job
        except (NestingTooDeepError, OwnerNotFoundError):
            return None
        store, metadata = self._context.informers.workloads.store, job["metadata"]
        brought = prebuilt_name(job)
        if brought:
            prebuilt = store.get(names.key_of(metadata["namespace"], brought))
            return granted_slice((), prebuilt) if prebuilt is not None else None
        owned = sorted(
            store.by_index(BY_OWNER, metadata["uid"]),
            key=lambda w: (w.metadata.creation_timestamp, w.metadata.name),
        )
        return granted_slice(owned, None)

    async def _release(
        self,
        slice_: Workload,
        pod: Mapping[str, Any],
        patch: Mapping[str, Any],
        failures: list[KubeError],
    ) -> None:
        metadata = pod["metadata"]
        try:
            async with self._slots:
                answer = await self._context.client.patch(
                    PODS,
                    metadata["name"],
                    patch,
                    namespace=metadata["namespace"],
                    decode=read_pod,
                )
        except NotFound:
            return
        except KubeError as error:
            failures.append(error)
            return
        self._pods.observe(answer)
        self._measure(slice_, metadata)

    def _measure(self, slice_: Workload, pod: Mapping[str, Any]) -> None:
        admitted = find(slice_.status, WorkloadCondition.ADMITTED)
        created, admission = parse_time(pod.get("creationTimestamp")), slice_.status.admission
        if admitted is None or created is None or admission is None:
            return
        since = max(created, admitted.transitioned_at)
        self._context.metrics.pod_scheduling_gate_removal_seconds.child(
            names.ELASTIC_GATE, admission.cluster_queue, "false"
        ).observe(max(0.0, (self._context.clock.now() - since).total_seconds()))

    # ------------------------------------------------------------------ what wakes it

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        del old
        if new is None or not is_elastic(new) or not is_admitted(new.status):
            return
        self._wanted.set()
        for reference in new.metadata.owner_references:
            gvk = GroupVersionKind.of(reference.api_version, reference.kind)
            self._wake(PodOwner(gvk, names.key_of(new.metadata.namespace, reference.name)))
            self._wake_children(reference.uid)

    def _on_pod(self, old: WaitingPod | None, pod: WaitingPod | None) -> None:
        del old
        if pod is not None and pod.owner is not None:
            self._wake(pod.owner)

    def _on_job(self, integration: str, old: Job | None, job: Job | None) -> None:
        """Reconcile a changed job: it counts its ended pods, so places may be free."""
        del old
        if job is not None:
            key = names.key_of(job["metadata"]["namespace"], job["metadata"]["name"])
            if self._waits(key):
                self._reconciler.queue.add((integration, key))

    def _wake(self, owner: PodOwner) -> None:
        integration = self._context.integrations.find_by_gvk(owner.gvk)
        if integration is not None and self._waits(owner.key):
            self._reconciler.queue.add((integration.name, owner.key))

    def _wake_children(self, uid: str) -> None:
        """Reconcile the jobs that a job controls: its pods may be theirs."""
        for integration, informer in self._context.informers.jobs.items():
            for child in informer.store.by_index(BY_CONTROLLER, uid):
                self._on_job(integration, None, child)

    def _waits(self, job: str) -> bool:
        return bool(self._pods.store.by_index(BY_JOB, job))


def _by_job(pod: WaitingPod) -> Iterable[str]:
    return (pod.owner.key,) if pod.owner is not None else ()
