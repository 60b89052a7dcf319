"""The cluster with a job's pods, reached through the manager or directly."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from multiqueue.api.names import CLUSTER
from multiqueue.cli.errors import CliError
from multiqueue.cli.visibility import REMOTE
from multiqueue.jobs.belongings import Belongings, Change, Json, find_belongings
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.reading import find_supported_kind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound, ServerError
from multiqueue.kube.lines import LineSplitter
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload

WATCH_SECONDS = 300.0


class JobPlace(Protocol):
    """A cluster where a job has pods.

    Each method raises a `KubeError` if the cluster, or the manager in front of it, does not answer
    or refuses, and `NotFound` if the job is not there (yet).

    Attributes:
        cluster: Its name; empty for the user's cluster.
    """

    cluster: str

    async def list_pods(self) -> list[Json]:
        """Return the pods of the job, by name."""
        ...

    async def list_events(self) -> list[Json]:
        """Return the events of the job, its Workload and its pods there."""
        ...

    def watch(self, what: str) -> AsyncGenerator[Change, None]:
        """Follow ``pods`` or ``events`` for some time, existing ones first."""
        ...

    def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of a pod in pieces; the first one is empty."""
        ...


class ServedPlace:
    """A worker that is reached through the manager, with the user's rights there."""

    def __init__(self, client: KubeClient, workload: Workload, cluster: str) -> None:
        self.cluster = cluster
        self._client = client
        metadata = workload.metadata
        self._path = f"{REMOTE}/namespaces/{metadata.namespace}/workloads/{metadata.name}"
        self._query = {"cluster": cluster}

    async def list_pods(self) -> list[Json]:
        """Return the pods of the job, by name."""
        return await self._list("pods")

    async def list_events(self) -> list[Json]:
        """Return the events at the worker."""
        return await self._list("events")

    async def watch(self, what: str) -> AsyncGenerator[Change, None]:
        """Follow ``pods`` or ``events`` until the manager ends the stream."""
        splitter = LineSplitter()
        query = {**self._query, "watch": "1"}
        async with aclosing(self._client.stream(f"{self._path}/{what}", params=query)) as pieces:
            async for piece in pieces:
                for line in splitter.feed(piece):
                    frame = orjson.loads(line)
                    yield frame["type"], frame["object"]

    async def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of a pod."""
        query = {**self._query, **options, "pod": pod}
        async with aclosing(self._client.stream(f"{self._path}/log", params=query)) as pieces:
            async for piece in pieces:
                yield piece

    async def _list(self, what: str) -> list[Json]:
        answer = await self._client.request("GET", f"{self._path}/{what}", params=self._query)
        items: list[Json] = orjson.loads(answer.body)["items"]
        return items


class DirectPlace:
    """A cluster on which the user, or the kubeconfig in a Secret, has rights."""

    def __init__(self, client: KubeClient, workload: Workload, cluster: str) -> None:
        self.cluster = cluster
        self._client = client
        self._workload = workload

    async def list_pods(self) -> list[Json]:
        """Return the pods of the job, by name."""
        pods, _ = await (await self._find()).list_pods()
        return [_with_cluster(pod, self.cluster) for pod in pods]

    async def list_events(self) -> list[Json]:
        """Return the events in the cluster."""
        events, _ = await (await self._find()).list_events()
        return [_with_cluster(event, self.cluster) for event in events]

    async def watch(self, what: str) -> AsyncGenerator[Change, None]:
        """Follow ``pods`` or ``events``."""
        found = await self._find()
        if what == "pods":
            items, version = await found.list_pods()
            changes = found.watch_pods(version, seconds=WATCH_SECONDS)
        else:
            items, version = await found.list_events()
            changes = found.watch_events(version, seconds=WATCH_SECONDS)
        for item in items:
            yield "ADDED", _with_cluster(item, self.cluster)
        async with aclosing(changes):
            async for type_, item in changes:
                yield type_, _with_cluster(item, self.cluster)

    async def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of a pod."""
        async with aclosing((await self._find()).open_log(pod, options)) as pieces:
            async for piece in pieces:
                yield piece

    async def _find(self) -> Belongings:
        workload, metadata = self._workload, self._workload.metadata
        if not self.cluster and metadata.owner_references:
            return self._of_this_cluster()
        # The manager's configuration is not available here: any kind, and any origin.
        found = await find_belongings(self._client, workload, find_supported_kind, origin=None)
        if found is None:
            message = f'cluster "{self.cluster}" has no job of Workload "{metadata.key}"'
            raise NotFound(404, reason="NotFound", message=message)
        return found

    def _of_this_cluster(self) -> Belongings:
        metadata = self._workload.metadata
        owners = sorted(metadata.owner_references, key=lambda owner: not owner.controller)
        jobs = [
            {"metadata": {"namespace": metadata.namespace, "name": owner.name, "uid": owner.uid}}
            for owner in owners
        ]
        kind = find_supported_kind(GroupVersionKind.of(owners[0].api_version, owners[0].kind))
        selector = kind.integration.pod_selector(jobs[0]) if kind is not None else ""
        return Belongings(self._client, jobs, metadata.name, selector=selector)


class JobPlaces:
    """Finds the places of a job; opened clients are closed with the stack."""

    def __init__(self, client: KubeClient, stack: AsyncExitStack, *, system_namespace: str) -> None:
        self._client = client
        self._stack = stack
        self._system_namespace = system_namespace
        self._served: bool | None = None
        self._workers: dict[str, KubeClient] = {}

    def here(self, workload: Workload) -> JobPlace:
        """Return the user's own cluster as a place."""
        return DirectPlace(self._client, workload, "")

    async def find(self, workload: Workload) -> JobPlace:
        """Return the place of an admitted Workload's pods.

        Raises:
            CliError: the worker cannot be reached in any way.
        """
        cluster = workload.status.cluster_name
        if not cluster:
            return self.here(workload)
        if self._served is None:
            self._served = await self._is_served()
        if self._served:
            return ServedPlace(self._client, workload, cluster)
        if cluster not in self._workers:
            self._workers[cluster] = await self._open_worker(cluster)
        return DirectPlace(self._workers[cluster], workload, cluster)

    async def _is_served(self) -> bool:
        try:
            await self._client.request("GET", REMOTE)
        except (NotFound, ServerError, Forbidden):
            return False
        return True

    async def _open_worker(self, cluster: str) -> KubeClient:
        from multiqueue.api.serde import decode
        from multiqueue.api.v1beta2 import MultiKueueCluster
        from multiqueue.workers.kubeconfigs.stored import worker_credentials

        try:
            found = await self._client.get(
                MULTIKUEUE_CLUSTERS, cluster, decode=lambda data: decode(MultiKueueCluster, data)
            )
            credentials = await worker_credentials(
                self._client, found, self._system_namespace, datetime.now(UTC)
            )
        except (KubeError, ValueError) as error:
            raise CliError(
                f'worker "{cluster}" cannot be asked: the manager does not serve '
                "remote.multiqueue.dev (is it running, with the gate VisibilityOnDemand, and is "
                f"config/visibility applied?), and its kubeconfig is not for you: {error}"
            ) from error
        return await self._stack.enter_async_context(
            KubeClient(credentials, user_agent="multiqueue-cli", default_timeout=10.0)
        )


def cluster_of(obj: Mapping[str, Any]) -> str:
    """Return the cluster of a pod or event; empty for the user's cluster."""
    found: str = (obj["metadata"].get("annotations") or {}).get(CLUSTER, "")
    return found


def _with_cluster(obj: Json, cluster: str) -> Json:
    if not cluster:
        return obj
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), CLUSTER: cluster}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}
