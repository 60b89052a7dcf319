"""``multiqueue apiserver`` and ``multiqueue run`` as processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import CRDS, LEASES, NAMESPACES, NODES
from tests.integration.waiting import is_true, until, until_one

pytestmark = pytest.mark.timeout(120)  # whole processes, on machines with few cores


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that keeps running; it must end well when it is told to."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "multiqueue", *arguments, stdout=pipe, stderr=pipe
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.terminate()
        _, errors = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode == 0, errors.decode()


@asynccontextmanager
async def apiserver(*arguments: str) -> AsyncIterator[tuple[str, KubeClient]]:
    async with process("apiserver", *arguments) as running:
        assert running.stdout is not None
        url = (await asyncio.wait_for(running.stdout.readline(), 30)).decode()
        export = (await asyncio.wait_for(running.stdout.readline(), 30)).decode()
        assert url.startswith("API server at https://127.0.0.1:")
        kubeconfig = export.partition("KUBECONFIG=")[2].strip()
        async with KubeClient(await Credentials.from_kubeconfig_file(kubeconfig)) as client:
            yield kubeconfig, client


async def test_nodes_are_simulated_and_our_kinds_served() -> None:
    async with apiserver("--nodes", "2xh100/4,zone=b") as (_, client):
        nodes = await until(client, NODES, lambda nodes: len(nodes) == 2)
        crds = {crd["metadata"]["name"] for crd in (await client.list(CRDS)).items}
    assert all(is_true(node, "Ready") for node in nodes)
    assert {node["metadata"]["labels"]["zone"] for node in nodes} == {"b"}
    assert "clusterqueues.kueue.x-k8s.io" in crds


async def test_objects_and_kubeconfig_survive_a_restart(tmp_path: Path) -> None:
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    async with apiserver("--data", str(tmp_path)) as (kubeconfig, client):
        assert kubeconfig == str(tmp_path / "kubeconfig")
        await client.create(NAMESPACES, team)
    async with apiserver("--data", str(tmp_path)) as (_, client):
        assert (await client.get(NAMESPACES, "team"))["metadata"]["uid"]


async def test_more_definitions_can_be_served(tmp_path: Path) -> None:
    (tmp_path / "toaster.yaml").write_text(TOASTER)
    async with apiserver("--crds", str(tmp_path)) as (_, client):
        await until_one(
            client, CRDS, "toasters.example.com", lambda crd: is_true(crd, "Established")
        )


async def test_a_manager_process_leads_and_lets_go(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "health: {healthProbeBindAddress: '0'}\n"
        "metrics: {bindAddress: '0'}\n"
        "webhook: {host: 127.0.0.1, port: 0}\n"
    )
    async with apiserver() as (kubeconfig, client):
        async with process("run", "--config", str(config), "--kubeconfig", kubeconfig):
            leases = await until(client, LEASES, lambda leases: any(map(_holder, leases)))
            assert len(leases) == 1
        (lease,) = (await client.list(LEASES)).items
    assert not _holder(lease)


def _holder(lease: dict[str, dict[str, str]]) -> str:
    return lease["spec"].get("holderIdentity", "")


TOASTER = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toasters.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Toaster, plural: toasters, singular: toaster, listKind: ToasterList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
"""
