"""The simulated controllers of all kinds beside Job: one controller, driven by `SIMULATED_KINDS`.

A job that is not suspended gets the pods that its integration counts; its status says what became
of them. A suspended job loses its pods. What the kinds' own controllers make in between (the Jobs
of a JobSet, the RayCluster of a RayJob) is not simulated. An object without a suspend field has its
row say what is made of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.embedded.cluster.job_memory import is_pod_ready
from multiqueue.embedded.cluster.objects import (
    BY_CONTROLLER,
    Object,
    SimInformers,
    delete_pod,
    key_of,
    owner_reference,
    patch_status,
)
from multiqueue.embedded.cluster.simulated_kinds import SIMULATED_KINDS, JobPhase, SimulatedKind
from multiqueue.jobs.framework.integration import Integration, InvalidJobError
from multiqueue.jobs.framework.related import add_related, list_related
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import load_kind
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, Conflict, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import Reconciler, Result
from multiqueue.kube.resources import JOBS, PODS, Resource, resource_of

_ROWS = {row.framework: row for row in JOB_KINDS}


class KindController:
    """Runs the jobs of all simulated kinds that the API server serves."""

    name = "sim-kind-controller"

    def __init__(self, client: KubeClient, informers: SimInformers) -> None:
        self._client = client
        self._pods = informers.pods
        self._kinds: dict[str, tuple[SimulatedKind, Integration]] = {}
        self._owners: dict[str, SimulatedKind] = {}
        self._jobs: dict[str, Informer[Object]] = {}
        self._related: dict[Resource, Informer[Object]] = {}
        self._reconciler = Reconciler(self.name, self.reconcile)
        for each in SIMULATED_KINDS:
            if each.children is not None:
                row = _ROWS[each.framework]
                self._owners[row.kind] = each
                resource = resource_of(row.api_version, row.plural, row.kind)
                self._jobs[row.kind] = Informer(client, resource)
                self._jobs[row.kind].add_handler(self._on_job(row.kind))
                continue
            integration = load_kind(_ROWS[each.framework]).integration
            if not isinstance(integration, TemplateKind):
                continue  # the kubelets run pods
            self._kinds[integration.gvk.kind] = (each, integration)
            self._jobs[integration.gvk.kind] = Informer(client, integration.resource)
            self._jobs[integration.gvk.kind].add_handler(self._on_job(integration.gvk.kind))
            for resource in list_related(integration):
                self._related.setdefault(resource, Informer(client, resource))
        self._pods.add_handler(self._on_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._pods.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._jobs.values(), *self._related.values()):
                tasks.create_task(informer.run())
            tasks.create_task(self._reconciler.run())

    async def reconcile(self, about: tuple[str, str]) -> Result:
        """Bring the pods and the status of one job in line with its spec."""
        kind, key = about
        if kind in self._owners:
            await self._reconcile_owner(kind, key)
            return Result()
        simulated, integration = self._kinds[kind]
        job = self._jobs[kind].store.get(key)
        if job is None or integration.managed_by(job) or integration.finished(job) is not None:
            return Result()
        job = add_related(integration, job, self._find_related)
        try:
            wanted = [] if integration.is_suspended(job) else build_pods(job, integration)
        except InvalidJobError:
            return Result()
        if job["metadata"].get("deletionTimestamp"):
            wanted = []
        await self._sync_pods(job, simulated, integration.resource, wanted)
        return Result()

    async def _reconcile_owner(self, kind: str, key: str) -> None:
        """Make what an object without a suspend field has its controller make."""
        simulated, informer = self._owners[kind], self._jobs[kind]
        job = informer.store.get(key)
        if job is None or simulated.children is None or job["metadata"].get("deletionTimestamp"):
            return
        owner = owner_reference(job, informer.resource)
        namespace = job["metadata"]["namespace"]
        wanted = [
            {
                **each,
                "metadata": {
                    **each["metadata"],
                    "namespace": namespace,
                    "ownerReferences": [owner],
                },
            }
            for each in simulated.children(job)
        ]
        if wanted and wanted[0]["kind"] == JOBS.kind:
            for each in wanted:
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(JOBS, each, namespace=namespace)
            return
        await self._sync_pods(job, simulated, informer.resource, wanted)

    async def _sync_pods(
        self, job: Object, simulated: SimulatedKind, resource: Resource, wanted: Sequence[Object]
    ) -> None:
        """Create the pods that are missing, delete the others, and write the job's status."""
        pods = list(self._pods.store.by_index(BY_CONTROLLER, job["metadata"]["uid"]))
        names = {pod["metadata"]["name"] for pod in wanted}
        known = {pod["metadata"]["name"] for pod in pods}
        for pod in wanted:
            if pod["metadata"]["name"] not in known:
                await self._create(pod)
        for pod in pods:
            if pod["metadata"]["name"] not in names:
                await self._delete(pod)
        present = self._pods.store.by_index(BY_CONTROLLER, job["metadata"]["uid"])
        phase = find_job_phase(list(present), len(wanted))
        await self._write_status(resource, job, simulated.status(job["spec"], phase))

    def _find_related(self, resource: Resource, namespace: str, name: str) -> Object | None:
        key = f"{namespace}/{name}" if namespace else name
        return self._related[resource].store.get(key)

    async def _create(self, pod: Object) -> None:
        try:
            made: Object = await self._client.create(
                PODS, pod, namespace=pod["metadata"]["namespace"]
            )
        except AlreadyExists:
            return  # it is on its way out: its deletion is another event
        self._pods.observe(made)

    async def _delete(self, pod: Object) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            with contextlib.suppress(NotFound, Conflict):
                await delete_pod(self._client, pod)

    async def _write_status(self, resource: Resource, job: Object, status: dict[str, Any]) -> None:
        change = diff(job.get("status") or {}, status)
        if not change:
            return
        with contextlib.suppress(NotFound, Conflict):
            written = await patch_status(self._client, resource, job, change)
            self._jobs[resource.kind].observe(written)

    def _on_job(self, kind: str) -> Any:
        def handle(old: Object | None, new: Object | None) -> None:
            self._reconciler.queue.add((kind, key_of(new or old or {})))

        return handle

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or {}
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") in self._jobs:
                namespace = pod["metadata"]["namespace"]
                self._reconciler.queue.add((owner["kind"], f"{namespace}/{owner['name']}"))


def build_pods(job: Object, integration: Integration) -> list[Object]:
    """Return the pods of a job, with names that are the same each time."""
    metadata = job["metadata"]
    owner = owner_reference(job, integration.resource)
    common = _labels_of(integration.pod_selector(job))
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-{pod_set.name}-{number}",
                "namespace": metadata["namespace"],
                "labels": {**_template(pod_set.template, "labels"), **common},
                "annotations": _template(pod_set.template, "annotations"),
                "ownerReferences": [owner],
            },
            "spec": pod_set.template.get("spec") or {},
        }
        for pod_set in integration.pod_sets(job)
        for number in range(pod_set.count)
    ]


def find_job_phase(pods: Sequence[Object], wanted: int) -> JobPhase:
    """Return what became of a job's pods."""
    phases = [(pod.get("status") or {}).get("phase") for pod in pods]
    if not pods:
        return JobPhase.SUSPENDED
    if "Failed" in phases and wanted:
        return JobPhase.FAILED
    if wanted and phases.count("Succeeded") >= wanted:
        return JobPhase.SUCCEEDED
    up = sum(
        is_pod_ready(pod) or phase == "Succeeded" for pod, phase in zip(pods, phases, strict=True)
    )
    return JobPhase.READY if wanted and up >= wanted else JobPhase.RUNNING


def _template(template: Any, field: str) -> dict[str, str]:
    return dict((template.get("metadata") or {}).get(field) or {})


def _labels_of(selector: str) -> dict[str, str]:
    pairs = (term.partition("=") for term in selector.split(",") if term)
    return {key: value for key, _, value in pairs}
