"""Pods, logs and events of jobs on workers, for users who have rights on the manager only.

The paths are ``/apis/remote.multiqueue.dev/v1alpha1/namespaces/NS/workloads/NAME`` with ``/pods``,
``/log`` or ``/events``. `server` has already authorized the user for the path. Here the user also
needs the right that reading the pods on the manager would take: pods, pods/log, events. Then the
worker is asked with the manager's credentials, through `Belongings`, which returns only the job's
own objects.

A stream ends when the reader leaves, pauses while the reader does not read, and is cut if the
worker is lost. A client that follows then asks again, and may reach another worker.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Protocol

import orjson
from aiohttp import web

from multiqueue.api.names import CLUSTER, key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.belongings import Belongings, Json, find_belongings
from multiqueue.jobs.registry import IntegrationRegistry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Gone, KubeError
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility import refusals
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.remote_documents import EVENTS, GROUP, LOG, PODS, VERSION, WORKLOADS
from multiqueue.visibility.slots import Slots
from multiqueue.visibility.streams import StreamPatience, send_guarded

WATCH_SECONDS = 45.0
"""How long a watch is kept.

API servers end requests other than watches after a minute; a client that follows asks again.
"""
MAX_STREAMS, MAX_STREAMS_OF_A_USER = 400, 64
"""The limits allow one user to follow a gang of 64 pods, but not to use up all streams."""
JSON, TEXT = "application/json", "text/plain"
NEEDED = {
    PODS: ApiAction(verb="list", path="", version="v1", resource="pods"),
    LOG: ApiAction(verb="get", path="", version="v1", resource="pods", subresource="log"),
    EVENTS: ApiAction(verb="list", path="", version="v1", resource="events"),
}
"""The right on the manager that each subresource needs beside the right to itself."""


class WorkerClients(Protocol):
    """Connects to workers."""

    def open(self, cluster: str) -> AbstractAsyncContextManager[KubeClient]:
        """Return a worker's client.

        Raises:
            KubeError: the worker cannot be connected to; the message says why.
        """
        ...


class RemoteAnswers:
    """Answers requests about jobs on workers.

    Args:
        workers: Connects to the workers.
        authorizer: Checks users' rights.
        find: Returns a Workload by its key.
        integrations: The job kinds.
        origin: The label value of the objects that this manager made on workers.
    """

    def __init__(
        self,
        workers: WorkerClients,
        authorizer: RightsReviewer,
        find: Callable[[str], Workload | None],
        integrations: IntegrationRegistry,
        origin: str,
    ) -> None:
        self._workers = workers
        self._authorizer = authorizer
        self._find = find
        self._integrations = integrations
        self._origin = origin
        self.patience = StreamPatience()
        """When a stream counts as dead."""
        self.streams = Slots(MAX_STREAMS, MAX_STREAMS_OF_A_USER)

    async def answer(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        """Answer one request of a user who is authorized for the action itself.

        Raises:
            StatusRefusal: the user lacks a right, or the worker's objects cannot be had.
        """
        if http.method != "GET":
            raise refusals.method_not_allowed()
        if not is_exact(http.path, action):
            raise refusals.no_such_path()
        pod = http.query.get("pod", "") if action.subresource == LOG else ""
        await self._authorizer.authorize(user, _needed(action, pod))
        workload = self._find(key_of(action.namespace, action.name))
        if workload is None:
            raise refusals.workload_not_found(action.name)
        cluster = workload.status.cluster_name
        if not cluster:
            raise refusals.not_on_a_worker(workload.metadata.key)
        if http.query.get("cluster", cluster) != cluster:
            raise refusals.moved(workload.metadata.key, cluster)
        with self.streams.take(user.name):
            try:
                return await self._ask(http, action.subresource, workload, cluster)
            except KubeError as error:
                raise refusals.by_worker(cluster, action.subresource, error) from error

    async def _ask(
        self, http: HttpRequest, what: str, workload: Workload, cluster: str
    ) -> web.StreamResponse:
        async with self._workers.open(cluster) as client:
            belongings = await self._find_belongings(client, workload, cluster)
            follows = http.query.get("watch", "") in {"1", "true"}
            if what == LOG:
                pod = http.query.get("pod", "")
                if not pod:
                    raise refusals.bad_request("name the pod: ?pod=NAME")
                pieces = belongings.open_log(pod, http.query)
                return await send_guarded(
                    http, client, pieces, TEXT, cluster, patience=self.patience
                )
            if follows:
                frames = _frames(belongings, what, cluster)
                return await send_guarded(
                    http, client, frames, JSON, cluster, patience=self.patience
                )
            items, version = await _list(belongings, what)
            return _list_response(items, version, what, cluster)

    async def _find_belongings(
        self, client: KubeClient, workload: Workload, cluster: str
    ) -> Belongings:
        found = await find_belongings(
            client, workload, self._integrations.find_kind, origin=self._origin
        )
        if found is None:
            raise refusals.copy_not_found(workload.metadata.key, cluster)
        return found


async def _list(belongings: Belongings, what: str) -> tuple[list[Json], str]:
    return await (belongings.list_pods() if what == PODS else belongings.list_events())


async def _frames(belongings: Belongings, what: str, cluster: str) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a watch: existing objects first, then changes."""
    items, version = await _list(belongings, what)
    yield b""
    for item in items:
        yield _frame("ADDED", item, cluster)
    watch = belongings.watch_pods if what == PODS else belongings.watch_events
    async with aclosing(watch(version, seconds=WATCH_SECONDS)) as changes:
        try:
            async for type_, item in changes:
                yield _frame(type_, item, cluster)
        except Gone:
            return


def _frame(type_: str, item: Json, cluster: str) -> bytes:
    return orjson.dumps({"type": type_, "object": _with_cluster(item, cluster)}) + b"\n"


def _list_response(items: list[Json], version: str, what: str, cluster: str) -> web.Response:
    body = {
        "kind": "PodList" if what == PODS else "EventList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": version},
        "items": [_with_cluster(item, cluster) for item in items],
    }
    return web.Response(body=orjson.dumps(body), content_type=JSON)


def _with_cluster(item: Mapping[str, Any], cluster: str) -> Json:
    metadata = item["metadata"]
    annotations = {**(metadata.get("annotations") or {}), CLUSTER: cluster}
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**item, "metadata": {**kept, "annotations": annotations}}


def _needed(action: ApiAction, pod: str) -> ApiAction:
    needed = NEEDED.get(action.subresource)
    if needed is None:
        raise refusals.no_such_path()
    return ApiAction(
        verb=needed.verb,
        path=action.path,
        version=needed.version,
        namespace=action.namespace,
        resource=needed.resource,
        name=pod,
        subresource=needed.subresource,
    )


def is_exact(path: str, action: ApiAction) -> bool:
    """Whether a path is exactly the reviewed one, without anything after it."""
    where = f"namespaces/{action.namespace}/{WORKLOADS}/{action.name}/{action.subresource}"
    return bool(action.namespace) and path == f"/apis/{GROUP}/{VERSION}/{where}"
