"""The assembled manager against an embedded cluster: start, leadership, failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from multiqueue.api.config import Configuration, build_configuration
from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    CRDS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
)
from multiqueue.runtime.components import ComponentFailed, innermost
from multiqueue.runtime.embedded import EmbeddedCluster, EmbeddedOptions
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import AppliedManifest, Applier, UnservedKind, apply_all
from multiqueue.runtime.preconditions import can_reach_webhooks
from tests.integration.waiting import is_true, until, until_one

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "training"}}


def make_config(**fields: Any) -> Configuration:
    return build_configuration(
        {
            "health": {"healthProbeBindAddress": "127.0.0.1:0"},
            "metrics": {"bindAddress": "127.0.0.1:0"},
            "webhook": {"host": "127.0.0.1", "port": 0},
            "leaderElection": {
                "leaseDuration": "2s",
                "renewDeadline": "1s",
                "retryPeriod": "200ms",
            },
            **fields,
        }
    )


@asynccontextmanager
async def running(part: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(part.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def embedded(**options: Any) -> AsyncIterator[tuple[EmbeddedCluster, KubeClient]]:
    cluster = EmbeddedCluster(EmbeddedOptions(**options))
    async with running(cluster) as task:
        ready = asyncio.create_task(cluster.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            ready.cancel()
            task.result()
        async with KubeClient(await credentials(cluster)) as client:
            yield cluster, client


async def credentials(cluster: EmbeddedCluster) -> Credentials:
    return await Credentials.from_kubeconfig_dict(cluster.kubeconfig)


async def get(port: int | None, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


def published(name: str) -> list[dict[str, Any]]:
    """The manifests of a published guide, as its readers apply them."""
    path = Path(__file__).parent / "manifests" / name
    return list(yaml.safe_load_all(path.read_text()))


async def test_a_job_of_a_published_guide_runs_to_its_end() -> None:
    simulation = SimOptions(pools=[parse_node_pool("l4/8")], speed=20)
    async with embedded(simulation=simulation, manager=make_config()) as (_, client):
        await apply_all(client, [NAMESPACE, *published("v1beta2-batch-gpu.yaml")])
        job = await until_one(
            client, JOBS, "train-model", lambda job: is_true(job, "Complete"), namespace="training"
        )
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"accelerator": "nvidia"}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


async def test_metrics_and_health_are_served() -> None:
    async with embedded() as (cluster, _):
        manager = Manager(make_config(), await credentials(cluster))
        async with running(manager):
            await manager.until_at_work()
            assert await get(manager.health_port, "/readyz") == (200, "ok")
            status, text = await get(manager.metrics_port, "/metrics")
    assert status == 200
    assert "kueue_build_info" in text


async def test_ready_means_that_webhooks_are_asked() -> None:
    async with embedded() as (cluster, client):
        manager = Manager(make_config(), await credentials(cluster))
        async with running(manager) as task:
            await manager.serving.wait()
            while (await get(manager.health_port, "/readyz"))[0] != 200:
                assert not task.done()
            assert len((await client.list(MUTATING_WEBHOOKS)).items) == 1
            assert len((await client.list(VALIDATING_WEBHOOKS)).items) == 1


async def test_without_our_kinds_the_manager_waits_and_says_what_to_install() -> None:
    async with embedded() as (cluster, client):
        crds = (await client.list(CRDS)).items
        await client.delete(CRDS, "workloads.kueue.x-k8s.io")
        await until(client, CRDS, lambda left: len(left) == len(crds) - 1)
        manager = Manager(make_config(), await credentials(cluster))
        async with running(manager):
            await manager.waiting.wait()
            text = (await get(manager.health_port, "/readyz"))[1]
            assert "does not serve Workload" in text
            assert "kubectl apply --server-side -k config/crd" in text
            workloads = next(crd for crd in crds if crd["spec"]["names"]["kind"] == "Workload")
            await client.create(
                CRDS,
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": workloads["metadata"]["name"]},
                    "spec": workloads["spec"],
                },
            )
            await asyncio.wait_for(manager.leading.wait(), 10)


async def test_the_namespace_is_made_where_it_is_missing() -> None:
    async with embedded() as (cluster, client):
        manager = Manager(make_config(namespace="queues"), await credentials(cluster))
        async with running(manager):
            await manager.leading.wait()
            assert await client.get(NAMESPACES, "queues")
            assert await client.get(LEASES, "c1f6bfd2.kueue.x-k8s.io", namespace="queues")


@pytest.mark.parametrize(
    ("server", "host", "environment", "reachable"),
    [
        pytest.param("https://127.0.0.1:6443", "", {}, True, id="the same machine"),
        pytest.param("https://localhost:6443", "", {}, True, id="the same machine by name"),
        pytest.param("https://10.0.0.1", "", {}, False, id="a cluster elsewhere"),
        pytest.param("https://api.example.com", "0.0.0.0", {}, False, id="any host is no address"),
        pytest.param("https://10.0.0.1", "10.0.0.7", {}, True, id="an address that was given"),
        pytest.param(
            "https://10.0.0.1", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True, id="in a cluster"
        ),
    ],
)
def test_webhooks_are_served_where_the_api_server_can_reach_them(
    server: str, host: str, environment: dict[str, str], *, reachable: bool
) -> None:
    config = make_config(webhook={"host": host, "port": 9443})
    assert can_reach_webhooks(server, config, environment) is reachable


async def test_a_standby_takes_over_when_the_leader_stops() -> None:
    async with embedded() as (cluster, client):
        first = Manager(make_config(), await credentials(cluster))
        second = Manager(make_config(), await credentials(cluster))
        async with running(second):
            async with running(first):
                leader, standby = await leader_and_standby(first, second)
                assert not standby.leading.is_set()
            if leader is first:
                await asyncio.wait_for(second.leading.wait(), 10)
            lease = await client.get(LEASES, "c1f6bfd2.kueue.x-k8s.io", namespace="kueue-system")
    assert lease["spec"]["holderIdentity"] == second.identity


async def leader_and_standby(first: Manager, second: Manager) -> tuple[Manager, Manager]:
    waits = {asyncio.create_task(each.leading.wait()): each for each in (first, second)}
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return waits[done.pop()], waits[pending.pop()]


async def test_a_part_that_fails_takes_the_manager_down_by_name() -> None:
    busy = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = busy.sockets[0].getsockname()[1]
    config = make_config(webhook={"host": "127.0.0.1", "port": port})
    async with busy, embedded() as (cluster, _):
        manager = Manager(config, await credentials(cluster))
        with pytest.raises(BaseExceptionGroup) as caught:
            await manager.run()
    error = innermost(caught.value)
    assert isinstance(error, ComponentFailed)
    assert error.name == "webhooks"
    assert f"webhook.port: cannot listen on {port}: " in error.reason


@pytest.mark.parametrize(
    ("section", "key"), [("metrics", "bindAddress"), ("health", "healthProbeBindAddress")]
)
async def test_the_setting_of_a_port_that_is_taken_is_named(section: str, key: str) -> None:
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as busy:
        address = "{}:{}".format(*busy.sockets[0].getsockname())
        config = make_config(**{section: {key: address}})
        context = {"name": "c", "context": {"cluster": "c"}}
        cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
        kubeconfig = {"contexts": [context], "clusters": [cluster], "current-context": "c"}
        nobody = await Credentials.from_kubeconfig_dict(kubeconfig)
        with pytest.raises(OSError, match=rf"{section}\.{key}: cannot listen on {address}: "):
            await Manager(config, nobody).run()


class TestApply:
    async def test_what_is_there_is_left_or_changed(self) -> None:
        flavor = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": "a100"},
            "spec": {"nodeLabels": {"gpu": "a100"}},
        }
        changed = {**flavor, "spec": {"nodeLabels": {"gpu": "h100"}}}
        async with embedded() as (_, client):
            applier = Applier(client)
            got = [(await applier.apply(each)).outcome for each in (flavor, flavor, changed)]
        assert got == [
            AppliedManifest.CREATED,
            AppliedManifest.UNCHANGED,
            AppliedManifest.CONFIGURED,
        ]

    async def test_kinds_that_we_do_not_know_are_looked_up(self) -> None:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota"},
            "spec": {"hard": {"pods": "1"}},
        }
        async with embedded() as (_, client):
            result = await Applier(client).apply(quota)
            assert result.resource.plural == "resourcequotas"
            with pytest.raises(UnservedKind, match="Toaster"):
                await Applier(client).apply({"apiVersion": "v1", "kind": "Toaster"})
