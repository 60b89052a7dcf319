"""The guard of a worker in front of any API server, and what must hold there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from multiqueue.api import names
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import list_remote_kinds
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, ApiError, NotFound
from multiqueue.kube.resources import CONFIG_MAPS, JOBS, NAMESPACES, VALIDATING_WEBHOOKS, WORKLOADS
from multiqueue.webhooks.guard.service import MARKS, NAME, PATH, GuardOptions, WorkerGuard
from tests.job_kinds import KindExample
from tests.least_privilege import documents
from tests.webhook_world import until_true

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
SYSTEM = "kueue-system"
OPTIONS = GuardOptions(namespace=SYSTEM, host="127.0.0.1", port=0, by_url=True)
PATIENCE_SECONDS = 20.0


@contextlib.asynccontextmanager
async def guard_of(client: KubeClient, own: KubeClient) -> AsyncIterator[None]:
    """Run the guard with a client of its own, once it is registered, while the block runs."""
    for namespace in (SYSTEM, "team"):
        with contextlib.suppress(AlreadyExists):
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.create(NAMESPACES, head)
    kinds = [kind.integration for kind in list_remote_kinds()]
    guard = WorkerGuard(own, OPTIONS, kinds=kinds)
    task = asyncio.create_task(guard.run())
    registered = asyncio.create_task(guard.registered.wait())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({task, registered}, return_when=asyncio.FIRST_COMPLETED)
        assert guard.registered.is_set(), task
        yield
    finally:
        for each in (task, registered):
            each.cancel()
        await asyncio.gather(task, registered, return_exceptions=True)


def copy(epoch: str, name: str = "w") -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team", **_marks(epoch)},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def job(epoch: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    marks = _marks(epoch)
    marks["annotations"][names.PREBUILT_WORKLOAD_NAME] = "w"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team", **marks},
        "spec": {"suspend": True, "template": template},
    }


def _marks(epoch: str) -> dict[str, Any]:
    return {
        "labels": {names.MULTIKUEUE_ORIGIN: "multikueue"},
        "annotations": {names.DISPATCH_EPOCH: epoch},
    }


async def assert_refused(client: KubeClient, resource: Any, obj: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="was made for an older reservation"):
        await client.create(resource, obj)


async def assert_old_copies_are_refused(client: KubeClient, own: KubeClient) -> None:
    """A paused manager wakes up after the newer copy was withdrawn, and after a new guard came."""
    async with guard_of(client, own):
        await until_true(lambda: _is_asked(client))
        await client.create(WORKLOADS, copy(NEW))
        await assert_refused(client, JOBS, job(OLD))
        await client.create(JOBS, job(NEW))
        await client.delete(WORKLOADS, "w", namespace="team")
        await assert_refused(client, WORKLOADS, copy(OLD))
        await until_true(lambda: _is_marked(client))
        await client.create(WORKLOADS, copy(NEW, "late"))
        await client.delete(WORKLOADS, "late", namespace="team")
    async with guard_of(client, own):
        await assert_refused(client, WORKLOADS, copy(OLD))
        await assert_refused(client, WORKLOADS, copy(OLD, "late"))
        await client.create(WORKLOADS, copy(NEW))


async def assert_old_jobs_are_not_started(
    client: KubeClient, own: KubeClient, example: KindExample
) -> None:
    """A paused manager wakes up, and lets the job of an older reservation go on."""
    adapter, kind = example.kind.adapter, example.kind.integration
    assert adapter is not None
    made = example.make("j")
    made["metadata"]["namespace"] = "team"
    old = adapter.remote_job(made, workload_name="w", origin="multikueue")
    old["metadata"]["annotations"][names.DISPATCH_EPOCH] = OLD
    async with guard_of(client, own):
        await until_true(lambda: _is_asked(client))
        created = await client.create(example.resource, old)
        await client.create(WORKLOADS, copy(NEW))
        assert isinstance(kind, TemplateKind)
        change = diff(created, kind.set_suspended(created, value=False))
        with pytest.raises(ApiError, match="was made for an older reservation"):
            await client.patch(example.resource, "j", change, namespace="team")
        await client.delete(example.resource, "j", namespace="team")
        await client.delete(WORKLOADS, "w", namespace="team")
        await assert_refused(client, example.resource, old)


async def assert_the_probes_of_its_manifest_answer(client: KubeClient, own: KubeClient) -> None:
    """kubelet asks so, and looks at no certificate."""
    (container,) = next(
        found["spec"]["template"]["spec"]["containers"]
        for found in documents("worker-guard/guard.yaml")
        if found["kind"] == "Deployment"
    )
    asked = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert {(probe["scheme"], probe["port"]) for probe in asked} == {("HTTPS", "guard")}
    async with guard_of(client, own), aiohttp.ClientSession() as session:
        registered = await client.get(VALIDATING_WEBHOOKS, NAME)
        address = registered["webhooks"][0]["clientConfig"]["url"].removesuffix(PATH)
        for probe in asked:
            async with session.get(address + probe["path"], ssl=False) as answer:
                assert (answer.status, await answer.text()) == (200, "ok")


async def assert_an_outage_of_the_guard_stops_nothing(client: KubeClient) -> None:
    """Its webhook is registered, and nobody answers."""
    await client.create(WORKLOADS, copy(OLD, "outage"))


async def _is_asked(client: KubeClient) -> bool:
    """An API server takes a moment to hear of a webhook."""
    with contextlib.suppress(NotFound):
        await client.delete(WORKLOADS, "probe-new", namespace="team")
    await client.create(WORKLOADS, copy(NEW, "probe-new"))
    await client.delete(WORKLOADS, "probe-new", namespace="team")
    try:
        await client.create(WORKLOADS, copy(OLD, "probe-new"))
    except ApiError:
        return True
    return False


async def _is_marked(client: KubeClient) -> bool:
    try:
        found = await client.get(CONFIG_MAPS, NAME, namespace=SYSTEM)
    except NotFound:
        return False
    return "/Workload/w" in found["data"][MARKS]
