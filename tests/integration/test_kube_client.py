"""The client against the embedded API server, over TLS, as the manager uses it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube import errors
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS

NAMESPACE = "default"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


@asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    async with ApiServer(ServerOptions(**options)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with KubeClient(credentials) as client:
            yield server, client


async def test_an_object_lives_through_all_verbs() -> None:
    async with cluster() as (_, client):
        made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
        assert await client.get(CONFIG_MAPS, "a", namespace=NAMESPACE) == made
        merged = await client.patch(
            CONFIG_MAPS, "a", {"data": {"x": None, "y": "2"}}, namespace=NAMESPACE
        )
        assert merged["data"] == {"y": "2"}
        patched = await client.patch(
            CONFIG_MAPS,
            "a",
            [{"op": "replace", "path": "/data/y", "value": "3"}],
            namespace=NAMESPACE,
            patch_type=PatchType.JSON,
        )
        patched["data"]["z"] = "4"
        replaced = await client.replace(CONFIG_MAPS, "a", patched, namespace=NAMESPACE)
        assert replaced["data"] == {"y": "3", "z": "4"}
        await client.delete(CONFIG_MAPS, "a", namespace=NAMESPACE, uid=made["metadata"]["uid"])
        with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
            await client.get(CONFIG_MAPS, "a", namespace=NAMESPACE)


async def test_refusals_are_told_apart() -> None:
    async with cluster() as (_, client):
        made = await client.create(CONFIG_MAPS, config_map("a"))
        old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("a"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=NAMESPACE)
        with pytest.raises(errors.Conflict):
            await client.patch(CONFIG_MAPS, "a", {**old, "data": {}}, namespace=NAMESPACE)
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAPS, "a", namespace=NAMESPACE, uid="another")
        with pytest.raises(errors.Invalid) as caught:
            await client.create(JOBS, {"metadata": {"name": "UPPER"}}, namespace=NAMESPACE)
        assert caught.value.causes


async def test_a_dry_run_changes_nothing() -> None:
    async with cluster() as (_, client):
        await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)
        assert (await client.list(CONFIG_MAPS, namespace=NAMESPACE, field_selector="")).items == []


async def test_a_list_in_pages_is_the_list_as_a_whole() -> None:
    async with cluster() as (_, client):
        for number in range(25):
            await client.create(CONFIG_MAPS, config_map(f"c{number:02}"))
        whole = await client.list(CONFIG_MAPS, namespace=NAMESPACE, limit=0)
        paged = await client.list(CONFIG_MAPS, namespace=NAMESPACE, limit=7)
        assert paged == whole
        assert len(whole.items) == 25


async def test_a_watch_tells_changes_in_their_order() -> None:
    async with cluster() as (_, client):
        start = (await client.list(CONFIG_MAPS)).resource_version
        await client.create(CONFIG_MAPS, config_map("a"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=NAMESPACE)
        await client.delete(CONFIG_MAPS, "a", namespace=NAMESPACE)
        async with aclosing(client.watch(CONFIG_MAPS, resource_version=start)) as events:
            async with asyncio.timeout(10):
                got = [(await anext(events)).type for _ in range(3)]
        assert got == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_version_that_the_server_forgot_is_gone() -> None:
    async with cluster(history_length=4) as (_, client):
        start = (await client.list(CONFIG_MAPS)).resource_version
        for number in range(20):
            await client.create(CONFIG_MAPS, config_map(f"c{number}"))
        with pytest.raises(errors.Gone):
            async for _ in client.watch(CONFIG_MAPS, resource_version=start):
                pass


async def test_a_wrong_token_is_unauthorized_and_a_wrong_ca_a_tls_error() -> None:
    async with cluster() as (server, _), ApiServer() as stranger:
        wrong_token = copy.deepcopy(server.kubeconfig())
        wrong_token["users"][0]["user"]["token"] = "nonsense"
        wrong_ca = copy.deepcopy(server.kubeconfig())
        wrong_ca["clusters"][0]["cluster"]["certificate-authority-data"] = stranger.kubeconfig()[
            "clusters"
        ][0]["cluster"]["certificate-authority-data"]
        for config, error in ((wrong_token, errors.Unauthorized), (wrong_ca, errors.TlsError)):
            credentials = await Credentials.from_kubeconfig_dict(config)
            async with KubeClient(credentials) as client:
                with pytest.raises(error):
                    await client.list(PODS)


async def test_a_kubeconfig_file_works_as_its_content_does(tmp_path: Path) -> None:
    async with cluster() as (server, _):
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(server.kubeconfig()))
        async with KubeClient(await Credentials.from_kubeconfig_file(path)) as client:
            assert await client.get(NAMESPACES, "default")
            assert (await client.request("GET", "/readyz")).body == b"ok"
