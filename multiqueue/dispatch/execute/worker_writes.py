"""The writes on a worker: one function per write, each safe to repeat.

Guarantees: an object without our origin label is never changed or deleted (M-134, I-3). Deletions
name the uid that they were decided on, so a newer object of the same name is not deleted. An object
of somebody else under our name is reported as `Foreign`, never taken over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason
from multiqueue.api.names import (
    DISPATCH_DIGEST,
    MULTIKUEUE_ORIGIN,
    PRIORITY_BOOST,
    RESOURCE_IN_USE,
    split_key,
)
from multiqueue.api.preemption_gates import open_preemption_gate
from multiqueue.api.serde import decode, encode
from multiqueue.api.workload_state import is_admitted, target_deactivation
from multiqueue.dispatch.decide.copy import encode_pod_set
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.workload_wire import build_status_patch
from multiqueue.kube.backoff import exponential
from multiqueue.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from multiqueue.kube.resources import WORKLOADS
from multiqueue.workers.connections.session import WorkerSession

Json = dict[str, Any]
FOREGROUND = "Foreground"
"""The job stays visible until its pods are gone; only then may another cluster run it."""
CONFLICT_ATTEMPTS = 3
READ_SECONDS, MAX_READ_SECONDS = 0.2, 5.0
"""Pause between attempts to find out whether a write without an answer succeeded."""

log = structlog.get_logger("multiqueue.dispatch.execute.worker_writes")


@dataclass(frozen=True, slots=True)
class Foreign:
    """The cluster cannot take it, and why; not an error of ours."""

    why: str


@dataclass(frozen=True, slots=True)
class Busy:
    """An object of ours is in the way and is being deleted; try again soon."""

    why: str


class RemoteWriter:
    """Writes on one connected worker."""

    def __init__(self, session: WorkerSession) -> None:
        self._session = session
        self._client = session.client
        self._owner = session.owner

    # ------------------------------------------------------------ Workloads

    async def create_workload(
        self,
        body: Json,
        adapter: MultiKueueAdapter,
        job_name: str,
        *,
        earlier: Collection[str] = (),
    ) -> api.Workload | Foreign | Busy:
        """Create the copy of a Workload, unless another job there has its job's name.

        Checking the name first keeps a Workload from holding quota that no job can use (upstream
        #12404). The job may belong to an earlier slice; ``earlier`` names their Workloads (M-160).
        """
        metadata = body["metadata"]
        in_the_way = await self._probe_job(
            adapter, metadata["namespace"], job_name, {metadata["name"], *earlier}
        )
        if in_the_way is not None:
            return in_the_way
        try:
            created = await self._client.create(WORKLOADS, body, decode=_decode_workload)
        except AlreadyExists:
            return await self._take_known_workload(metadata)
        except (NotFound, Forbidden, Invalid) as error:
            return Foreign(f"does not take the workload: {error}")
        self._session.informers.workloads.observe(created)
        return created

    async def _take_known_workload(self, metadata: Json) -> api.Workload | Foreign | Busy:
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            found = await self._read_workload(namespace, name)
        except NotFound:
            return Busy("the copy was just deleted")
        if not self._owner.owns(found):
            whose = self._owner.describe(self._owner.find_twin(found))
            return Foreign(f'has a Workload "{namespace}/{name}" that {whose}')
        self._session.informers.workloads.observe(found)
        return found

    async def update_priority(
        self, key: str, workload: api.Workload, *, with_class: bool = True
    ) -> None:
        """Update the priority of a copy (M-89): its boost, and optionally its class."""
        copy = self._session.find_copy(key)
        if copy is None:
            return
        namespace, name = split_key(key)
        boost = workload.metadata.annotations.get(PRIORITY_BOOST)
        patch: Json = {
            "metadata": {
                "resourceVersion": copy.metadata.resource_version,
                "annotations": {PRIORITY_BOOST: boost},
            }
        }
        if with_class:
            spec = workload.spec
            reference = encode(spec.priority_class_ref) if spec.priority_class_ref else None
            patch["spec"] = {"priority": spec.priority, "priorityClassRef": reference}
        changed = await self._client.patch(
            WORKLOADS, name, patch, namespace=namespace, decode=_decode_workload
        )
        self._session.informers.workloads.observe(changed)

    async def deactivate(self, key: str, now: datetime) -> Busy | None:
        """Ask the worker to stop the job: DeactivationTarget on the copy (M-92).

        If the copy must only be kept from running again but was admitted meanwhile, nothing is
        written.
        """
        seen = self._session.informers.workloads.store.get(key)
        was_stopped = seen is not None and not is_admitted(seen.status)
        runs_again = False

        def change(copy: api.Workload) -> api.WorkloadStatus:
            nonlocal runs_again
            runs_again = was_stopped and is_admitted(copy.status)
            if runs_again:
                return copy.status
            return target_deactivation(
                copy.status,
                Reason.EVICTED_ON_MANAGER_CLUSTER,
                "the workload was evicted on its manager cluster",
                now=now,
                generation=copy.metadata.generation,
            )

        await self._change_status(key, change)
        return Busy("it was admitted there again") if runs_again else None

    async def open_gate(self, key: str, gate: str, now: datetime) -> None:
        """Let a copy preempt (M-181); a copy with an open gate is not changed."""
        await self._change_status(
            key, lambda copy: open_preemption_gate(copy.status, gate, now=now)
        )

    async def _change_status(
        self, key: str, change: Callable[[api.Workload], api.WorkloadStatus]
    ) -> None:
        """Change the status of our copy, decided on its newest state."""
        namespace, name = split_key(key)
        copy = self._session.find_copy(key)
        for attempt in range(CONFLICT_ATTEMPTS):
            if copy is None or attempt:
                copy = await self._read_workload(namespace, name)
            if not self._owner.owns(copy):
                return
            status = change(copy)
            if status == copy.status:
                return
            patch = {
                "metadata": {"resourceVersion": copy.metadata.resource_version},
                "status": build_status_patch(copy.status, status),
            }
            try:
                changed = await self._client.patch(
                    WORKLOADS,
                    name,
                    patch,
                    namespace=namespace,
                    subresource="status",
                    decode=_decode_workload,
                )
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
            else:
                self._session.informers.workloads.observe(changed)
                return

    async def find_workload(self, key: str) -> api.Workload | None:
        """Read our copy past the informer, which then knows it too; None if it is gone.

        Raises:
            KubeError: The answer is unknown; a Conflict means no more than that.
        """
        namespace, name = split_key(key)
        try:
            found = await self._read_workload(namespace, name)
        except NotFound as error:
            _expect_object(error)
            return None
        if self._owner.has_lost_label(found):
            patch = self._label_patch(found.metadata.uid, found.metadata.resource_version)
            found = await self._client.patch(
                WORKLOADS, name, patch, namespace=namespace, decode=_decode_workload
            )
        if not self._owner.owns(found):
            return None
        self._session.informers.workloads.observe(found)
        return found

    # ------------------------------------------------------------ jobs

    async def create_job(
        self, adapter: MultiKueueAdapter, body: Json, workload_name: str
    ) -> Json | Foreign | Busy:
        """Create the remote job, or find that it is there.

        If the answer is lost, this waits until it is known whether the job is there. Until then the
        job counts as being created, and no other cluster gets one (I-1).
        """
        metadata = body["metadata"]
        try:
            created = await self._client.create(adapter.resource, body)
        except AlreadyExists:
            found = await self._read_job(adapter, metadata["namespace"], metadata["name"])
            if found is None:
                return Busy("the job was just deleted")
        except (TransportError, ServerError):
            found = await self._find_out(adapter, metadata["namespace"], metadata["name"])
            if found is None:
                raise
        except (NotFound, Forbidden, Invalid) as error:
            return Foreign(f"does not take the job: {error}")
        else:
            return self._known_job(adapter, created)
        in_the_way = self._judge_job(adapter, found, {workload_name})
        return in_the_way or self._known_job(adapter, found)

    async def find_job(self, adapter: MultiKueueAdapter, namespace: str, name: str) -> Json | None:
        """Read our job past the informer, which then knows it too; None if it is gone.

        If somebody removed the origin label, no informer shows the job, but it still runs. It gets
        the label back.

        Raises:
            KubeError: The answer is unknown; a Conflict means no more than that.
        """
        found = await self._read_job(adapter, namespace, name)
        if found is not None and self._owner.has_job_lost_label(found):
            metadata = found["metadata"]
            patch = self._label_patch(metadata.get("uid"), metadata.get("resourceVersion"))
            log.warning("origin label of a job was taken off", job=f"{namespace}/{name}")
            found = await self._client.patch(adapter.resource, name, patch, namespace=namespace)
        if found is None or not self._owner.owns_job(found):
            return None
        return self._known_job(adapter, found)

    async def find_stranger(self, adapter: MultiKueueAdapter, namespace: str, name: str) -> str:
        """Say whose job has a name there; empty if there is none, or it is ours."""
        found = await self._probe_job(adapter, namespace, name, ())
        return found.why if isinstance(found, Foreign) else ""

    async def _probe_job(
        self, adapter: MultiKueueAdapter, namespace: str, name: str, workloads: Collection[str]
    ) -> Foreign | Busy | None:
        found = await self._read_job(adapter, namespace, name)
        return self._judge_job(adapter, found, workloads) if found is not None else None

    def _judge_job(
        self, adapter: MultiKueueAdapter, job: Json, workloads: Collection[str]
    ) -> Foreign | Busy | None:
        """Say why a job there is not the job of this Workload; None if it is."""
        metadata = job["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        if not self._owner.owns_job(job):
            twin = self._owner.find_job_twin(job)
            advice = "" if twin else "; delete it there, or submit under another name"
            whose = self._owner.describe(twin)
            return Foreign(f'has a {adapter.resource.kind} "{key}" that {whose}{advice}')
        if adapter.workload_name(job) not in workloads:
            return Busy(f'{adapter.resource.kind} "{key}" of an earlier workload is being deleted')
        return None

    async def patch_job(self, adapter: MultiKueueAdapter, job: Json, patch: Json) -> Json | Busy:
        """Change one of our jobs, if it still is in the state that was seen."""
        metadata = job["metadata"]
        body = {
            **patch,
            "metadata": {
                **(patch.get("metadata") or {}),
                "uid": metadata.get("uid"),
                "resourceVersion": metadata.get("resourceVersion"),
            },
        }
        try:
            changed = await self._client.patch(
                adapter.resource, metadata["name"], body, namespace=metadata.get("namespace", "")
            )
        except (Conflict, NotFound):
            return Busy("its job changed meanwhile")
        return self._known_job(adapter, changed)

    async def resize_workload(
        self, key: str, counts: Mapping[str, int], digest: str
    ) -> Busy | None:
        """Reduce the pod counts of a copy; nothing else in it changes (M-163).

        Args:
            key: The key of the copy.
            counts: Pods by pod set.
            digest: The digest of the Workload that it is a copy of from now on.
        """
        copy = self._session.find_copy(key)
        if copy is None:
            return Busy("its copy is gone")
        namespace, name = split_key(key)
        theirs = [
            {**encode_pod_set(pod_set), "count": counts.get(pod_set.name, pod_set.count)}
            for pod_set in copy.spec.pod_sets
        ]
        patch = {
            "metadata": {
                "resourceVersion": copy.metadata.resource_version,
                "annotations": {DISPATCH_DIGEST: digest},
            },
            "spec": {"podSets": theirs},
        }
        try:
            changed = await self._client.patch(
                WORKLOADS, name, patch, namespace=namespace, decode=_decode_workload
            )
        except Conflict:
            return Busy("its copy changed meanwhile")
        self._session.informers.workloads.observe(changed)
        return None

    def _label_patch(self, uid: str | None, version: str | None) -> Json:
        labels = {MULTIKUEUE_ORIGIN: self._owner.origin}
        return {"metadata": {"labels": labels, "uid": uid, "resourceVersion": version}}

    def _known_job(self, adapter: MultiKueueAdapter, job: Json) -> Json:
        self._session.informers.jobs[adapter.gvk].observe(job)
        return job

    # ------------------------------------------------------------ removal

    async def remove(self, key: str, adapters: dict[GroupVersionKind, MultiKueueAdapter]) -> None:
        """Delete our job and our copy, in this order (M-135); an absent object is no error.

        Raises:
            KubeError: An object may still be there; a Conflict means no more than that.
        """
        for kind, job in list(self._session.find_jobs(key)):
            await self.delete_job(adapters[kind], job)
        copy = self._session.read_copy(key)
        if copy is not None:
            await self.delete_workload(copy)

    async def delete_job(self, adapter: MultiKueueAdapter, job: Json) -> None:
        """Delete one of our jobs; its pods first."""
        metadata = job["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        # The informer shows only labelled objects; somebody may have removed the label meanwhile.
        found = await self._read_job(adapter, namespace, name)
        if found is None or not self._owner.owns_job(found):
            return
        if found["metadata"].get("uid") != metadata.get("uid"):
            return
        if adapter.workload_name(found) != adapter.workload_name(job):
            return  # another slice took it over
        if found["metadata"].get("deletionTimestamp"):
            return
        try:
            await self._client.delete(
                adapter.resource,
                name,
                namespace=namespace,
                propagation=FOREGROUND,
                uid=metadata.get("uid"),
            )
        except NotFound:
            return

    async def delete_workload(self, copy: api.Workload) -> None:
        """Delete a copy and take off the finalizer that would keep it (M-135)."""
        try:
            if not copy.metadata.deletion_timestamp:
                await self._delete_seen_workload(copy)
            if RESOURCE_IN_USE in copy.metadata.finalizers:
                await self._release_workload(copy)
        except NotFound:
            return

    async def _delete_seen_workload(self, copy: api.Workload) -> None:
        """Delete the state that was seen; a newer state only if it is also ours."""
        if not self._owner.owns(copy):
            return
        name, namespace = copy.metadata.name, copy.metadata.namespace
        delete = partial(
            self._client.delete,
            WORKLOADS,
            name,
            namespace=namespace,
            propagation="Background",
            uid=copy.metadata.uid,
        )
        try:
            await delete(resource_version=copy.metadata.resource_version)
        except Conflict:
            newest = await self._read_workload(namespace, name)
            if newest.metadata.uid != copy.metadata.uid or not self._owner.owns(newest):
                return
            await delete()
        self._session.note_deleted(copy)

    async def _release_workload(self, copy: api.Workload) -> None:
        name, namespace = copy.metadata.name, copy.metadata.namespace
        for _ in range(CONFLICT_ATTEMPTS):
            found = await self._read_workload(namespace, name)
            if found.metadata.uid != copy.metadata.uid or not self._owner.owns(found):
                return
            left = [entry for entry in found.metadata.finalizers if entry != RESOURCE_IN_USE]
            version = found.metadata.resource_version
            patch = {"metadata": {"finalizers": left or None, "resourceVersion": version}}
            try:
                await self._client.patch(WORKLOADS, name, patch, namespace=namespace, decode=bytes)
            except Conflict:
                continue
            return

    # ------------------------------------------------------------ reading

    async def _read_workload(self, namespace: str, name: str) -> api.Workload:
        return await self._client.get(WORKLOADS, name, namespace=namespace, decode=_decode_workload)

    async def _find_out(self, adapter: MultiKueueAdapter, namespace: str, name: str) -> Json | None:
        """Read a job again and again until the worker says whether it is there."""
        tries = 0
        while True:
            try:
                return await self._read_job(adapter, namespace, name)
            except (TransportError, ServerError, TooManyRequests) as error:
                log.debug("job not read", job=f"{namespace}/{name}", error=str(error))
            tries += 1
            await asyncio.sleep(exponential(tries, base=READ_SECONDS, cap=MAX_READ_SECONDS))

    async def _read_job(self, adapter: MultiKueueAdapter, namespace: str, name: str) -> Json | None:
        try:
            found = await self._client.get(adapter.resource, name, namespace=namespace)
        except NotFound as error:
            _expect_object(error)
            return None
        return {
            "apiVersion": adapter.resource.api_version,
            "kind": adapter.resource.kind,
            **found,
        }


def _expect_object(error: NotFound) -> None:
    """Raise if the kind itself is not found: then the object may or may not be there."""
    if not error.details.get("name"):
        raise error


def _decode_workload(data: bytes) -> api.Workload:
    return decode(api.Workload, data)
