"""The simulated Job controller: applies `decide_job` to every Job that it manages."""

from __future__ import annotations

import asyncio
import random
import string
from contextlib import suppress
from typing import Any

from multiqueue.api import names
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.job_memory import (
    INDEX_ANNOTATION,
    JobMemory,
    observe_gone,
    observe_pods,
)
from multiqueue.embedded.cluster.job_plan import JobPlan, decide_job
from multiqueue.embedded.cluster.objects import (
    BY_JOB_UID,
    Object,
    SimInformers,
    delete_pod,
    key_of,
    owner_job,
    owner_reference,
    patch_status,
)
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from multiqueue.kube.events import EventRecorder, build_reference
from multiqueue.kube.reconciler import Reconciler, Result
from multiqueue.kube.resources import JOBS, PODS

CONCURRENCY = 8
MAX_WRITES_IN_FLIGHT = 16
"""Pods of one Job that are created or deleted at the same time."""
REFUSED_POD_SECONDS = 10.0
"""Simulated seconds until the controller retries pods that the API server refused."""
BATCH_SECONDS = 0.02
"""Real seconds in which changes of a Job's pods are collected before a reconcile."""


class JobController:
    """Runs Jobs whose ``managedBy`` is empty or the Kubernetes controller."""

    name = "sim-job-controller"

    def __init__(
        self,
        client: KubeClient,
        informers: SimInformers,
        clock: SimClock,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._recorder = recorder
        self._memory: dict[str, JobMemory] = {}
        self._deleted_pods: set[str] = set()
        self._reconciler = Reconciler(self.name, self.reconcile, concurrency=CONCURRENCY)
        informers.jobs.add_handler(self._on_job)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        for informer in (self._informers.jobs, self._informers.pods):
            await informer.synced.wait()
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Bring the pods and status of one Job in line with its spec."""
        job = self._informers.jobs.store.get(key)
        if job is None or _is_managed_elsewhere(job):
            return Result()
        uid = job["metadata"]["uid"]
        memory = self._memory.setdefault(uid, JobMemory())
        # A pod that we deleted counts as gone, even before the watch shows its deletion.
        pods = [
            pod
            for pod in self._informers.pods.store.by_index(BY_JOB_UID, uid)
            if pod["metadata"]["uid"] not in self._deleted_pods
        ]
        seconds = self._clock.seconds()
        observe_pods(job, pods, memory, now=seconds)
        plan = decide_job(
            job, pods, memory, now=self._clock.now(), seconds=seconds, speed=self._clock.speed
        )
        refused = await self._apply(job, pods, plan)
        wait = REFUSED_POD_SECONDS if refused else plan.requeue_after
        return Result(requeue_after=None if wait is None else self._clock.real_seconds(wait))

    async def _apply(self, job: Object, pods: list[Object], plan: JobPlan) -> int:
        """Carry out a plan; return the number of pods that the API server refused to create."""
        if plan.delete_job:
            await self._delete_job(job)
            return 0
        slots = asyncio.Semaphore(MAX_WRITES_IN_FLIGHT)
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        try:
            async with asyncio.TaskGroup() as tasks:
                creations = [
                    tasks.create_task(self._create_pod(job, index, slots)) for index in plan.create
                ]
                for pod_name in plan.delete:
                    tasks.create_task(self._delete_pod(by_name[pod_name], slots))
        except* NotFound as group:
            # The namespace or the Job was deleted meanwhile; the events of that clean up.
            raise group.exceptions[0] from None
        refusals = [why for creation in creations if (why := creation.result())]
        if plan.status is not None:
            status = dict(plan.status)
            if refusals:
                status["active"] -= len(refusals)
            await self._write_status(job, status)
        for type_, reason, message in plan.events:
            self._record(job, type_, reason, message)
        if refusals:
            self._record(job, "Warning", "FailedCreate", f"Error creating: {refusals[0]}")
        if created := len(plan.create) - len(refusals):
            self._record(
                job,
                "Normal",
                "SuccessfulCreate",
                f"Created {created} pods of {job['metadata']['name']}",
            )
        return len(refusals)

    async def _write_status(self, job: Object, status: dict[str, Any]) -> None:
        before = job.get("status") or {}
        changed = {name: value for name, value in status.items() if before.get(name) != value}
        changed.update({name: None for name in before if name not in status})
        if not changed:
            return
        revision = job["metadata"]["resourceVersion"]
        with suppress(Conflict, NotFound):  # the watch delivers a newer Job, which is reconciled
            answer = await patch_status(self._client, JOBS, job, changed, resourceVersion=revision)
            self._informers.jobs.observe(answer)

    async def _create_pod(self, job: Object, index: int | None, slots: asyncio.Semaphore) -> str:
        """Create a pod; return why the API server refused it, or an empty text."""
        pod = build_pod(job, index, suffix=_random_suffix())
        async with slots:
            try:
                created: Object = await self._client.create(
                    PODS, pod, namespace=job["metadata"]["namespace"]
                )
            except AlreadyExists:
                return ""
            except (Forbidden, Invalid) as error:
                return error.server_message or str(error)
        self._informers.pods.observe(created)
        return ""

    async def _delete_pod(self, pod: Object, slots: asyncio.Semaphore) -> None:
        uid = pod["metadata"]["uid"]
        self._deleted_pods.add(uid)
        async with slots:
            try:
                await delete_pod(self._client, pod)
            except (NotFound, Conflict):
                self._deleted_pods.discard(uid)
            except BaseException:
                self._deleted_pods.discard(uid)
                raise

    async def _delete_job(self, job: Object) -> None:
        metadata = job["metadata"]
        with suppress(NotFound, Conflict):
            await self._client.delete(
                JOBS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
                propagation="Background",
            )

    def _record(self, job: Object, type_: str, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.event(build_reference(job), type_, reason, message)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if not _is_managed_elsewhere(new):
                self._reconciler.queue.add(key_of(new))
        elif old is not None:
            self._memory.pop(old["metadata"]["uid"], None)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        reference = owner_job(pod) if pod is not None else None
        if pod is None or reference is None:
            return
        uid = pod["metadata"]["uid"]
        if new is None or new["metadata"].get("deletionTimestamp"):
            self._deleted_pods.discard(uid)
        memory = self._memory.get(reference["uid"])
        if new is None and memory is not None:
            observe_gone(pod, memory, now=self._clock.seconds())
        key = f"{pod['metadata']['namespace']}/{reference['name']}"
        self._reconciler.queue.add_after(key, BATCH_SECONDS)


def build_pod(job: Object, index: int | None, *, suffix: str) -> Object:
    """Return a pod of a Job, as the Kubernetes controller makes it."""
    metadata = job["metadata"]
    template = job["spec"]["template"]
    labels = dict((template.get("metadata") or {}).get("labels") or {})
    annotations = dict((template.get("metadata") or {}).get("annotations") or {})
    for label in ("batch.kubernetes.io/job-name", "job-name"):
        labels[label] = metadata["name"]
    for label in ("batch.kubernetes.io/controller-uid", "controller-uid"):
        labels[label] = metadata["uid"]
    spec = dict(template["spec"])
    name = f"{metadata['name'][:52]}-{suffix}"
    if index is not None:
        labels[INDEX_ANNOTATION] = annotations[INDEX_ANNOTATION] = str(index)
        name = f"{metadata['name'][:52]}-{index}-{suffix}"
        spec.setdefault("hostname", f"{metadata['name']}-{index}"[:63])
        spec["containers"] = [_with_index(container) for container in spec["containers"]]
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(job, JOBS)],
        },
        "spec": spec,
    }


def _with_index(container: dict[str, Any]) -> dict[str, Any]:
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    return {**container, "env": [*(container.get("env") or ()), variable]}


def _is_managed_elsewhere(job: Object) -> bool:
    manager = job["spec"].get("managedBy", names.KUBERNETES_JOB_CONTROLLER)
    return bool(manager != names.KUBERNETES_JOB_CONTROLLER)


def _random_suffix() -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=5))  # noqa: S311
