"""Pods, logs and events of one job on one cluster, read with whatever rights the client has.

Everything that people are shown comes from here, whether the manager asks a worker for them or they
ask a cluster themselves. Guarantee: only objects of the job are returned. A pod is identified by
the uid of its owner, never by its name or labels, and an event by the uid of its object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import orjson

from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import EVENTS, PODS, WORKLOADS

Json = dict[str, Any]
Change = tuple[str, Json]
"""``ADDED``, ``MODIFIED`` or ``DELETED``, and the object."""

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
LOG_OPTIONS = (
    "container",
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
    "limitBytes",
)
"""Parameters of a pod's log that callers may set."""
MAX_STRANGERS = 4096
"""Uids of other jobs' pods that are remembered while events are followed."""


async def find_copy(
    client: KubeClient,
    adapter: MultiKueueAdapter,
    *,
    namespace: str,
    name: str,
    workload: str,
    origin: str | None,
) -> Json | None:
    """Return the copy of a job on a worker; None if it is absent or belongs to somebody else.

    Args:
        client: The worker's client.
        adapter: The adapter of the job's kind.
        namespace: The job's namespace, on manager and worker.
        name: The job's name, on manager and worker.
        workload: The name of its Workload.
        origin: The value of the origin label; None if it is unknown: then any value counts.
    """
    try:
        job = await client.get(adapter.resource, name, namespace=namespace)
    except NotFound:
        return None
    marked = (job["metadata"].get("labels") or {}).get(MULTIKUEUE_ORIGIN)
    if marked is None or (origin is not None and marked != origin):
        return None
    return job if adapter.workload_name(job) == workload else None


class Belongings:
    """The objects of a job on a cluster.

    Args:
        client: The cluster's client.
        job: The job there, by its metadata.
        workload: The name of its Workload, whose events belong to the job, too.
    """

    def __init__(self, client: KubeClient, job: Mapping[str, Any], workload: str) -> None:
        self._client = client
        self._namespace: str = job["metadata"]["namespace"]
        self._uid: str = job["metadata"]["uid"]
        self._origin = (job["metadata"].get("labels") or {}).get(MULTIKUEUE_ORIGIN)
        self._workload = workload

    async def list_pods(self) -> tuple[list[Json], str]:
        """Return the pods, by name, and the version to watch from."""
        listed = await self._client.list(
            PODS, namespace=self._namespace, label_selector=self._selector
        )
        pods = [pod for pod in listed.items if self._owns(pod)]
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
                if self._owns(pod):
                    yield event.type, {"apiVersion": "v1", "kind": "Pod", **pod}

    async def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of one pod, piece by piece; the first piece is empty.

        Raises:
            NotFound: the job has no pod of that name, even if another job has one.
        """
        found = await self._client.get(PODS, pod, namespace=self._namespace)
        if not self._owns(found):
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
        return {uid} if pod["metadata"]["uid"] == uid and self._owns(pod) else set()

    async def _known(self) -> set[str]:
        """Return the uids whose events belong to the job now."""
        pods, _ = await self.list_pods()
        uids = {self._uid, *(pod["metadata"]["uid"] for pod in pods)}
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
        return any(owner.get("uid") == self._uid for owner in metadata.get("ownerReferences") or ())

    @property
    def _selector(self) -> str:
        return f"{CONTROLLER_UID}={self._uid}"

    def _owns(self, pod: Mapping[str, Any]) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return any(o.get("controller") and o.get("uid") == self._uid for o in owners)


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
