"""The simulated controllers of all kinds beside Job: one controller, driven by `SIMULATED_KINDS`.

A job that is not suspended gets the pods that its integration counts; its status says what became
of them. A suspended job loses its pods. What the kinds' own controllers make in between (the Jobs
of a JobSet, the RayCluster of a RayJob) is not simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.embedded.cluster.job_memory import is_pod_ready
from multiqueue.embedded.cluster.objects import BY_CONTROLLER, Object, SimInformers, key_of
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
from multiqueue.kube.resources import PODS, Resource

ENDED = frozenset({"Succeeded", "Failed"})
_ROWS = {row.framework: row for row in JOB_KINDS}


class KindController:
    """Runs the jobs of all simulated kinds that the API server serves."""

    name = "sim-kind-controller"

    def __init__(self, client: KubeClient, informers: SimInformers) -> None:
        self._client = client
        self._pods = informers.pods
        self._kinds: dict[str, tuple[SimulatedKind, Integration]] = {}
        self._jobs: dict[str, Informer[Object]] = {}
        self._related: dict[Resource, Informer[Object]] = {}
        self._reconciler: Reconciler[tuple[str, str]] = Reconciler(self.name, self.reconcile)
        for each in SIMULATED_KINDS:
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
        simulated, integration = self._kinds[kind]
        job = self._jobs[kind].store.get(key)
        if job is None or integration.managed_by(job) or integration.finished(job) is not None:
            return Result()
        job = add_related(integration, job, self._find_related)
        pods = list(self._pods.store.by_index(BY_CONTROLLER, job["metadata"]["uid"]))
        try:
            wanted = [] if integration.is_suspended(job) else build_pods(job, integration)
        except InvalidJobError:
            return Result()
        if job["metadata"].get("deletionTimestamp"):
            wanted = []
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
        await self._write_status(integration, job, simulated.status(job["spec"], phase))
        return Result()

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
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        try:
            await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return

    async def _write_status(
        self, integration: Integration, job: Object, status: dict[str, Any]
    ) -> None:
        change = diff(job.get("status") or {}, status)
        if not change:
            return
        metadata = job["metadata"]
        try:
            written: Object = await self._client.patch(
                integration.resource,
                metadata["name"],
                {"status": change},
                namespace=metadata["namespace"],
                subresource="status",
            )
        except (NotFound, Conflict):
            return
        self._jobs[integration.gvk.kind].observe(written)

    def _on_job(self, kind: str) -> Any:
        def handle(old: Object | None, new: Object | None) -> None:
            self._reconciler.queue.add((kind, key_of(new or old or {})))

        return handle

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or {}
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") in self._kinds:
                namespace = pod["metadata"]["namespace"]
                self._reconciler.queue.add((owner["kind"], f"{namespace}/{owner['name']}"))


def build_pods(job: Object, integration: Integration) -> list[Object]:
    """Return the pods of a job, with names that are the same each time."""
    metadata = job["metadata"]
    owner = {
        "apiVersion": integration.resource.api_version,
        "kind": integration.resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
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
