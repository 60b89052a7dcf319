"""Tells jobs by when to save their work: the annotation ``multiqueue.dev/checkpoint-by`` (P-55).

It is on the job, and on one pod of each pod set, so a gang of a thousand pods costs two writes. It
follows the condition `PREEMPTION_NOTICE` and is removed when that is over. The annotation of a job
that runs on a worker is written there, on the job alone: the manager need not read pods of workers.

If all pods are gone or have failed, nothing is left to save, and the engine is told so (P-52), but
only if pods were seen during the notice, because those of some kinds are never found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from multiqueue.api.conditions import PREEMPTION_NOTICE, find_condition
from multiqueue.api.names import CHECKPOINT_BY, PODSET
from multiqueue.api.notices import parse_notice
from multiqueue.api.v1beta2 import Workload, format_time
from multiqueue.controllers.disruption.notice_changes import can_leave
from multiqueue.engine.engine import Engine
from multiqueue.jobs.belongings import Belongings
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.fleet_gate import FleetGate
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration
from multiqueue.jobs.framework.job_source import BY_OWNER
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PODS, Resource
from multiqueue.lib.digits import is_number

RETRY_SECONDS = 5.0
"""Until a worker is asked again that is out of reach."""
_INDEX = "batch.kubernetes.io/job-completion-index"

Json = dict[str, Any]


class NoticeTeller:
    """Writes the annotation.

    Args:
        context: The manager's context.
        fleet: Writes it on workers.
        engine: Is told whose pods are gone.
        on_change: Called when that ends a notice.
    """

    name = "notice-teller"

    def __init__(
        self,
        context: ManagerContext,
        fleet: FleetGate,
        engine: Engine,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._engine = engine
        self._on_change = on_change
        self._seen: set[str] = set()
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, metrics=context.metrics
        )
        context.informers.workloads.add_handler(self._on_workload)
        for kind in context.integrations.kinds:
            self._follow(kind)
        context.integrations.add_listener(on_added=self._follow)

    async def run(self) -> None:
        """Work until cancelled; begin with what an earlier leader left."""
        informers = self._context.informers
        await wait_settled(informers.workloads, *informers.jobs.values())
        for informer in informers.jobs.values():
            for job in informer.store.list():
                if _said(job):
                    for workload in informers.workloads.store.by_index(
                        BY_OWNER, job["metadata"]["uid"]
                    ):
                        self._reconciler.queue.add(workload.metadata.key)
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Bring the annotation of one Workload's job and pods in step with its notice."""
        workload = self._context.informers.workloads.store.get(key)
        by = "" if workload is None else find_end(workload)
        if not by:
            self._seen.discard(key)
        if workload is None:
            return DONE
        if workload.status.cluster_name:
            is_told = await self._fleet.annotate_job(workload, {CHECKPOINT_BY: by or None})
            return DONE if is_told else Result(requeue_after=RETRY_SECONDS)
        told = [
            await self._tell(workload, integration, jobs, by)
            for integration, jobs in self._find_jobs(workload)
        ]
        if by and any(told):
            self._seen.add(key)
        elif key in self._seen and self._engine.note_pods_gone(key, workload.metadata.uid):
            self._on_change()
        return DONE

    async def _tell(
        self, workload: Workload, integration: Integration, jobs: list[Json], by: str
    ) -> bool:
        """Tell jobs and pods; return whether pods of the jobs are there that did not fail."""
        if integration.resource != PODS:
            for job in jobs:
                if _said(job) != by:
                    await self._annotate(integration.resource, job, by)
        uid = workload.metadata.uid
        if not jobs or not can_leave(workload, uid):
            return False  # its pods are being stopped
        selector = integration.pod_selector(jobs[0])
        name = workload.metadata.name
        belongings = Belongings(self._context.client, jobs, name, selector=selector)
        pods, _ = await belongings.list_pods()
        for pod in choose_pods(pods) if by else pods:
            if _said(pod) != by:
                await self._annotate(PODS, pod, by)
        has_ended = any(integration.finished(job) is not None for job in jobs)
        return has_ended or any(_phase(pod) != "Failed" for pod in pods)

    async def _annotate(self, resource: Resource, obj: Json, by: str) -> None:
        metadata = obj["metadata"]
        notes = {"annotations": {CHECKPOINT_BY: by or None}, "uid": metadata["uid"]}
        try:
            await self._context.client.patch(
                resource, metadata["name"], {"metadata": notes}, namespace=metadata["namespace"]
            )
        except NotFound:
            return

    def _find_jobs(self, workload: Workload) -> Iterator[tuple[Integration, list[Json]]]:
        found: dict[str, tuple[Integration, list[Json]]] = {}
        for owner in workload.metadata.owner_references:
            gvk = GroupVersionKind.of(owner.api_version, owner.kind)
            kind = self._context.integrations.find_kind(gvk)
            if kind is None:
                continue
            store = self._context.informers.jobs[kind.integration.name].store
            job = store.get(f"{workload.metadata.namespace}/{owner.name}")
            if job is not None and job["metadata"]["uid"] == owner.uid:
                name = kind.integration.name
                found.setdefault(name, (kind.integration, []))[1].append(job)
        yield from found.values()

    def _follow(self, kind: SupportedKind) -> None:
        """Look again at a Workload that was told, if its job runs no pods any more."""
        integration, informers = kind.integration, self._context.informers

        def on_job(old: Json | None, new: Json | None) -> None:
            uid = (new or old or {})["metadata"]["uid"]
            for workload in informers.workloads.store.by_index(BY_OWNER, uid):
                if find_end(workload) and (new is None or not integration.is_active(new)):
                    self._reconciler.queue.add(workload.metadata.key)

        informers.jobs[integration.name].add_handler(on_job)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None:
            assert old is not None, "an event has an object"
            self._seen.discard(old.metadata.key)
            return
        if old is None:
            # A leader that ended may have left the annotation of a notice that is over on a worker.
            had_one = find_condition(new.status.conditions, PREEMPTION_NOTICE) is not None
            is_due = bool(find_end(new)) or (had_one and bool(new.status.cluster_name))
        else:
            is_due = find_end(new) != find_end(old)
        if is_due:
            self._reconciler.queue.add(new.metadata.key)


def find_end(workload: Workload) -> str:
    """Return by when a Workload has to save its work, as the annotation says it; "" if never."""
    notice = parse_notice(workload.status.conditions)
    if notice is None or not notice.by or not can_leave(workload, workload.metadata.uid):
        return ""
    return format_time(datetime.fromtimestamp(notice.by, UTC))


def choose_pods(pods: Iterable[Json]) -> list[Json]:
    """Return one live pod of each pod set: the one with the lowest index, else the first by name.

    Pods that do not name their pod set are told apart by their controller.
    """
    chosen: dict[str, Json] = {}
    for pod in sorted(pods, key=_order):
        if _phase(pod) not in {"Succeeded", "Failed"}:
            chosen.setdefault(_group(pod), pod)
    return list(chosen.values())


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _group(pod: Json) -> str:
    metadata = pod["metadata"]
    named = (metadata.get("labels") or {}).get(PODSET)
    owners = metadata.get("ownerReferences") or ()
    return str(named or next((each["uid"] for each in owners if each.get("controller")), ""))


def _order(pod: Json) -> tuple[int, str]:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    index = labels.get(_INDEX, "")
    return (int(index) if is_number(index) else 0, str(pod["metadata"]["name"]))


def _said(obj: Json) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(CHECKPOINT_BY) or "")
