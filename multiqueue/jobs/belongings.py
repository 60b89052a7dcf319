"""Pods, logs and events of one job on one cluster, read with whatever rights the client has.

Everything that people are shown comes from here, whether the manager asks a worker for them or they
ask a cluster themselves. Guarantee: only objects of the job are returned. A pod is identified by
the uids of its owners, up to the job, never by its name or labels, and an event by the uid of its
object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import EVENTS, PODS, WORKLOADS, resource_of
from multiqueue.lib.words import words

Json = dict[str, Any]
Change = tuple[str, Json]
"""``ADDED``, ``MODIFIED`` or ``DELETED``, and the object."""

LOG_OPTIONS = words(
    "container follow previous sinceSeconds sinceTime tailLines timestamps limitBytes"
)
"""Parameters of a pod's log that callers may set."""
MAX_OWNERS = 4
"""Controllers between a pod and its job at most: a Job of a JobSet of a TrainJob, for example."""
MAX_STRANGERS = 4096
"""Uids of other jobs' pods that are remembered while events are followed."""


async def find_belongings(
    client: KubeClient,
    workload: Workload,
    find_kind: Callable[[GroupVersionKind], SupportedKind | None],
    *,
    origin: str | None,
) -> Belongings | None:
    """Return the objects of a Workload's job on a worker; None if the job has no copy there.

    Args:
        client: The worker's client.
        workload: The Workload on the manager.
        find_kind: Returns what is done for a kind.
        origin: The value of the origin label; None if it is unknown: then any value counts.
    """
    namespace, name = workload.metadata.namespace, workload.metadata.name
    owners = sorted(workload.metadata.owner_references, key=lambda owner: not owner.controller)
    copies: list[Json] = []
    selector = ""
    for owner in owners:
        kind = find_kind(GroupVersionKind.of(owner.api_version, owner.kind))
        if kind is None or kind.adapter is None:
            continue
        try:
            job = await client.get(kind.adapter.resource, owner.name, namespace=namespace)
        except NotFound:
            continue
        if _is_copy(job, origin) and kind.adapter.workload_name(job) == name:
            copies.append(job)
            selector = kind.integration.pod_selector(job)
    return Belongings(client, copies, name, selector=selector) if copies else None


def _is_copy(job: Json, origin: str | None) -> bool:
    marked = (job["metadata"].get("labels") or {}).get(MULTIKUEUE_ORIGIN)
    return marked is not None and origin in {None, marked}


class Belongings:
    """The objects of a job on a cluster.

    Args:
        client: The cluster's client.
        jobs: The job there, by its metadata; of a group of pods, all of its pods.
        workload: The name of its Workload, whose events belong to the job, too.
        selector: Labels of all pods of the job; empty if its pods have none in common.
    """

    def __init__(
        self,
        client: KubeClient,
        jobs: Sequence[Mapping[str, Any]],
        workload: str,
        *,
        selector: str = "",
    ) -> None:
        self._client = client
        self._namespace: str = jobs[0]["metadata"]["namespace"]
        self._uids = frozenset(str(job["metadata"]["uid"]) for job in jobs)
        self._origin = (jobs[0]["metadata"].get("labels") or {}).get(MULTIKUEUE_ORIGIN)
        self._workload = workload
        self._selector = selector
        self._owners: dict[str, bool] = {}
        """Whether a controller belongs to the job, by its uid."""

    async def list_pods(self) -> tuple[list[Json], str]:
        """Return the pods, by name, and the version to watch from."""
        listed = await self._client.list(
            PODS, namespace=self._namespace, label_selector=self._selector
        )
        pods = [pod for pod in listed.items if await self._owns(pod)]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"])), listed.resource_version

    async def watch_pods(self, version: str, *, seconds: float) -> AsyncGenerator[Change, None]:
        """Follow the pods from a version, for at most that many seconds.

        Raises:
            Gone: the version is too old; list again.
        """
        events = self._client.watch(
            PODS,
            namespace=self._namespace,
            label_selector=self._selector,
            resource_version=version,
            timeout_seconds=seconds,
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "BOOKMARK":
                    continue
                pod: Json = orjson.loads(event.raw)
                if await self._owns(pod):
                    yield event.type, {"apiVersion": "v1", "kind": "Pod", **pod}

    async def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of one pod, piece by piece; the first piece is empty.

        Raises:
            NotFound: the job has no pod of that name, even if another job has one.
        """
        found = await self._client.get(PODS, pod, namespace=self._namespace)
        if not await self._owns(found):
            raise NotFound(
                404, reason="NotFound", message=f'the job has no pod "{pod}"', request="log"
            )
        passed = {key: value for key, value in options.items() if key in LOG_OPTIONS}
        pieces = self._client.stream(PODS.path(self._namespace, pod, "log"), params=passed)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def list_events(self) -> tuple[list[Json], str]:
        """Return the events of job, Workload and pods, oldest first; also the version to watch."""
        known = await self._known()
        listed = await self._client.list(EVENTS, namespace=self._namespace)
        events = [event for event in listed.items if event["involvedObject"].get("uid") in known]
        return sorted(events, key=event_time), listed.resource_version

    async def watch_events(self, version: str, *, seconds: float) -> AsyncGenerator[Change, None]:
        """Follow the events from a version, for at most that many seconds.

        Raises:
            Gone: the version is too old; list again.
        """
        known, strangers = await self._known(), set[str]()
        changes = self._client.watch(
            EVENTS, namespace=self._namespace, resource_version=version, timeout_seconds=seconds
        )
        async with aclosing(changes):
            async for change in changes:
                if change.type not in {"ADDED", "MODIFIED"}:
                    continue
                event: Json = orjson.loads(change.raw)
                about = event["involvedObject"]
                uid = about.get("uid", "")
                if uid not in known and uid not in strangers and about.get("kind") == "Pod":
                    known |= await self._ask_about(about.get("name", ""), uid)
                if uid in known:
                    yield change.type, {"apiVersion": "v1", "kind": "Event", **event}
                elif len(strangers) < MAX_STRANGERS:
                    strangers.add(uid)

    async def _ask_about(self, name: str, uid: str) -> set[str]:
        try:
            pod = await self._client.get(PODS, name, namespace=self._namespace)
        except NotFound:
            return set()
        is_same = pod["metadata"]["uid"] == uid
        return {uid} if is_same and await self._owns(pod) else set()

    async def _known(self) -> set[str]:
        """Return the uids whose events belong to the job now."""
        pods, _ = await self.list_pods()
        uids = {*self._uids, *(pod["metadata"]["uid"] for pod in pods)}
        try:
            copy = await self._client.get(WORKLOADS, self._workload, namespace=self._namespace)
        except NotFound:
            return uids
        return {*uids, copy["metadata"]["uid"]} if self._is_of_job(copy) else uids

    def _is_of_job(self, workload: Mapping[str, Any]) -> bool:
        """Whether a Workload of the right name belongs to the job, by its origin or its owner."""
        metadata = workload["metadata"]
        if self._origin is not None:
            return bool((metadata.get("labels") or {}).get(MULTIKUEUE_ORIGIN) == self._origin)
        owners = metadata.get("ownerReferences") or ()
        return any(owner.get("uid") in self._uids for owner in owners)

    async def _owns(self, obj: Mapping[str, Any], left: int = MAX_OWNERS) -> bool:
        """Whether an object is part of the job, or one of its controllers is."""
        if obj["metadata"]["uid"] in self._uids:
            return True
        owners = obj["metadata"].get("ownerReferences") or ()
        owner = next((owner for owner in owners if owner.get("controller")), None)
        if owner is None or left == 0:
            return False
        uid = str(owner.get("uid"))
        if uid in self._uids:
            return True
        if uid not in self._owners:
            self._owners[uid] = await self._owns_controller(owner, left - 1)
        return self._owners[uid]

    async def _owns_controller(self, reference: Mapping[str, Any], left: int) -> bool:
        row = find_job_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if row is None:
            return False
        resource = resource_of(reference["apiVersion"], row.plural, row.kind)
        try:
            found = await self._client.get(
                resource, reference.get("name", ""), namespace=self._namespace
            )
        except NotFound:
            return False
        is_same = found["metadata"]["uid"] == reference.get("uid")
        return is_same and await self._owns(found, left)


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an event last happened, in wire format."""
    series = event.get("series") or {}
    times = (
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next(filter(None, times), "")
