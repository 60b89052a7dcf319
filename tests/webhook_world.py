"""The webhooks of a manager in front of any API server, and what must hold there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from multiqueue.api.config import Configuration
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.registry import IntegrationRegistry
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import AlreadyExists, ApiError
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
)
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.webhooks.setup import WebhookService, build_webhooks

MANAGED, UNMANAGED = "team", "others"
OLD_QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
PATIENCE_SECONDS = 20.0


@dataclass
class WebhookWorld:
    """A control plane with the webhooks of a manager running."""

    client: KubeClient
    context: ManagerContext
    service: WebhookService
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Take the webhooks away, as a crash of the manager would."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """A request by path, for versions that the program itself never asks for."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await self.client.request(method, path, body=body, content_type=kind)
        return json.loads(answer.body)


@contextlib.asynccontextmanager
async def webhook_world(
    credentials: Credentials, config: Configuration, *, clock: Clock | None = None, **options: Any
) -> AsyncIterator[WebhookWorld]:
    """Run the webhooks, registered by URL on loopback, as those of a leader.

    ``options`` are those of `build_webhooks`.
    """
    async with KubeClient(credentials, user_agent="test") as client:
        for name in (config.namespace, MANAGED, UNMANAGED):
            with contextlib.suppress(AlreadyExists):
                await client.create(NAMESPACES, {**_head("Namespace", name), "apiVersion": "v1"})
        informers = build_informers(client, config, IntegrationRegistry())
        context = cast(
            "ManagerContext",
            SimpleNamespace(
                client=client,
                informers=informers,
                integrations=build_registry(config),
                config=config,
                clock=clock or SystemClock(),
                metrics=ManagerMetrics(),
                drain_seconds=0.0,
            ),
        )
        service = build_webhooks(context, environment={}, **options)
        service.lead()
        known = (
            informers.local_queues,
            informers.cluster_queues,
            informers.admission_checks,
            informers.namespaces,
            informers.secrets,
        )
        tasks = [asyncio.create_task(each.run()) for each in known]
        webhooks = asyncio.create_task(service.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await service.registered.wait()
            yield WebhookWorld(client, context, service, webhooks)
        finally:
            for task in (*tasks, webhooks):
                task.cancel()
            await asyncio.gather(*tasks, webhooks, return_exceptions=True)


def _head(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata}


def kueue(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """One of our objects."""
    return {**_head(kind, name, namespace), "spec": spec}


def old_queue(name: str, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue in v1beta1."""
    return {**kueue("ClusterQueue", name, spec), "apiVersion": "kueue.x-k8s.io/v1beta1"}


def job(name: str, queue: str = "", **resources: Any) -> dict[str, Any]:
    """A Job, with the label of a queue or without."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    container = {"name": "c", "image": "i", "resources": resources}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def until_true(holds: Any) -> None:
    """Real servers learn of registrations with a delay."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


async def assert_both_versions_convert(world: WebhookWorld) -> None:
    """What is written in one version is read in the other, one by one and as a list.

    Only on a real API server: the embedded one calls no conversion webhooks.
    """

    async def served() -> bool:
        try:
            await world.send("POST", OLD_QUEUES, old_queue("old", cohort="c"))
        except ApiError as error:
            if "conversion webhook" not in str(error) and "calling webhook" not in str(error):
                raise
            return False
        return True

    await until_true(served)
    stored = await world.client.get(CLUSTER_QUEUES, "old")
    assert stored["spec"]["cohortName"] == "c"
    assert "cohort" not in stored["spec"]
    await world.client.create(CLUSTER_QUEUES, kueue("ClusterQueue", "new", {"cohortName": "d"}))
    got = await world.send("GET", f"{OLD_QUEUES}/new")
    assert got["spec"]["cohort"] == "d"
    listed = await world.send("GET", OLD_QUEUES)
    cohorts = {item["metadata"]["name"]: item["spec"]["cohort"] for item in listed["items"]}
    assert cohorts == {"old": "c", "new": "d"}
    patched = await world.send("PATCH", f"{OLD_QUEUES}/new", {"spec": {"cohort": "e"}})
    assert patched["spec"]["cohort"] == "e"
    assert (await world.client.get(CLUSTER_QUEUES, "new"))["spec"]["cohortName"] == "e"
    await world.send("DELETE", f"{OLD_QUEUES}/old")
    await world.client.delete(CLUSTER_QUEUES, "new")


async def assert_an_outage_is_narrow(world: WebhookWorld, *, all_jobs: bool) -> None:
    """While nobody answers, what is ours is refused with words, and what is not passes."""
    client = world.client
    await client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "before", {}))
    await until_true(lambda: _is_defaulted(world))
    await world.stop()
    pod = job("pod")["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
    for namespace in (MANAGED, UNMANAGED, "kube-system", world.context.config.namespace):
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}}
        await client.create(CONFIG_MAPS, config_map, namespace=namespace)
        await until_true(lambda at=namespace: _is_created(client, PODS, pod, at))
        if namespace != MANAGED or not all_jobs:
            await client.create(JOBS, job("free"), namespace=namespace)
    for namespace in ("kube-system", world.context.config.namespace):
        await client.create(JOBS, job("queued", "q"), namespace=namespace)
    with pytest.raises(ApiError, match=r'failed calling webhook "mjob\.kb\.io"'):
        await client.create(JOBS, job("queued", "q"), namespace=MANAGED)
    if all_jobs:
        with pytest.raises(ApiError, match=r'failed calling webhook "mjob\.kb\.io"'):
            await client.create(JOBS, job("plain"), namespace=MANAGED)
    with pytest.raises(ApiError, match=r'failed calling webhook "mresourceflavor\.kb\.io"'):
        await client.create(RESOURCE_FLAVORS, kueue("ResourceFlavor", "after", {}))
    assert (await client.get(RESOURCE_FLAVORS, "before"))["metadata"]["name"] == "before"


async def assert_an_outage_stops_conversion(world: WebhookWorld) -> None:
    """After `assert_an_outage_is_narrow`: the other version cannot be read."""
    with pytest.raises(ApiError, match=r"conversion webhook for kueue\.x-k8s\.io/v1beta2, Kind="):
        await world.send("GET", "/apis/kueue.x-k8s.io/v1beta1/resourceflavors/before")


async def _is_defaulted(world: WebhookWorld) -> bool:
    """Whether the server asks us about flavors by now."""
    probe = kueue("ResourceFlavor", "probe", {})
    made = await world.client.create(RESOURCE_FLAVORS, probe, dry_run=True)
    return bool(made["metadata"].get("finalizers"))


async def _is_created(client: KubeClient, resource: Any, obj: Any, namespace: str) -> bool:
    """Pods wait for the ServiceAccount of a new namespace."""
    named = {**obj, "metadata": {"generateName": "free-"}}
    try:
        await client.create(resource, named, namespace=namespace)
    except ApiError as error:
        if "serviceaccount" not in str(error):
            raise
        return False
    return True
