"""What the API server is told about us."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import API_SERVICES, NAMESPACES, SERVICES
from multiqueue.visibility.registration import EXTERNAL_SERVICE_NAME, ApiServiceRegistrar, External
from multiqueue.visibility.setup import find_address

SHIPPED = Path(__file__).parents[3] / "config" / "visibility" / "api_services.yaml"
NAMES = [
    "v1alpha1.fleet.multiqueue.dev",
    "v1alpha1.remote.multiqueue.dev",
    "v1beta1.visibility.kueue.x-k8s.io",
    "v1beta2.visibility.kueue.x-k8s.io",
]
HERE = External(host="127.0.0.1", port=4711)
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[KubeClient, ApiServiceRegistrar]]:
    async with ApiServer(ServerOptions(tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with KubeClient(credentials) as client:
            namespace = {"metadata": {"name": "kueue-system"}}
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", **namespace})
            yield client, ApiServiceRegistrar(client, "kueue-system")


async def specs(client: KubeClient) -> dict[str, Any]:
    found = (await client.list(API_SERVICES)).items
    return {each["metadata"]["name"]: each["spec"] for each in found}


def edited(change: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    objects = list(yaml.safe_load_all(SHIPPED.read_text()))
    for obj in objects:
        change(obj["spec"])
    return objects


async def test_in_a_cluster_only_the_authority_is_filled_in() -> None:
    async with cluster() as (client, registrar):
        for obj in edited(lambda spec: None):
            await client.create(API_SERVICES, obj)
        before = await specs(client)
        assert await registrar.ensure(b"ours", None) == []
        bundle = base64.b64encode(b"ours").decode()
        want = {name: {**spec, "caBundle": bundle} for name, spec in before.items()}
        for spec in want.values():
            spec.pop("insecureSkipTLSVerify", None)
        assert await specs(client) == want


async def test_manifests_of_upstream_become_secure() -> None:
    """They skip the verification; together with a caBundle that is refused."""
    async with cluster() as (client, registrar):
        for obj in edited(lambda spec: spec.update(insecureSkipTLSVerify=True)):
            await client.create(API_SERVICES, obj)
        assert await registrar.ensure(b"ours", None) == []
        assert not any(each.get("insecureSkipTLSVerify") for each in (await specs(client)).values())


async def test_a_bundle_of_somebody_else_stays() -> None:
    async with cluster() as (client, registrar):
        for obj in edited(lambda spec: spec.update(caBundle="eA==")):
            await client.create(API_SERVICES, obj)
        assert await registrar.ensure(b"", None) == []
        assert {each["caBundle"] for each in (await specs(client)).values()} == {"eA=="}


async def test_in_a_cluster_missing_ones_are_named_not_made() -> None:
    async with cluster() as (client, registrar):
        assert sorted(await registrar.ensure(b"ours", None)) == NAMES
        assert await specs(client) == {}


async def test_outside_of_a_cluster_everything_is_made_and_kept() -> None:
    async with cluster() as (client, registrar):
        assert await registrar.ensure(b"ours", HERE) == []
        found = await specs(client)
        assert sorted(found) == NAMES
        service = {"name": EXTERNAL_SERVICE_NAME, "namespace": "kueue-system", "port": 4711}
        assert [each["service"] for each in found.values()] == [service] * 4
        external = await client.get(SERVICES, EXTERNAL_SERVICE_NAME, namespace="kueue-system")
        assert external["spec"]["type"] == "ExternalName"
        assert external["spec"]["externalName"] == "127.0.0.1"

        moved = External(host="127.0.0.1", port=4712)
        assert await registrar.ensure(b"other", moved) == []
        assert {each["service"]["port"] for each in (await specs(client)).values()} == {4712}
        bundles = {each["caBundle"] for each in (await specs(client)).values()}
        assert bundles == {base64.b64encode(b"other").decode()}


@pytest.mark.parametrize(
    ("server", "text", "environment", "want"),
    [
        ("https://10.0.0.1", "", IN_CLUSTER, ("", 8082)),
        ("https://10.0.0.1", "{bindAddress: 10.1.1.1, bindPort: 9}", IN_CLUSTER, ("10.1.1.1", 9)),
        ("https://127.0.0.1:6443", "", {}, ("127.0.0.1", 0)),
        ("https://localhost:6443", "{bindAddress: 0.0.0.0}", {}, ("127.0.0.1", 0)),
        ("https://api.example.com", "", {}, None),
        ("https://api.example.com", "{bindAddress: 10.1.1.1}", {}, ("10.1.1.1", 8082)),
    ],
)
def test_where_a_manager_listens(
    server: str, text: str, environment: dict[str, str], want: tuple[str, int] | None
) -> None:
    config = load_configuration(f"visibilityServer: {text}") if text else Configuration()
    assert find_address(config, server, environment) == want
