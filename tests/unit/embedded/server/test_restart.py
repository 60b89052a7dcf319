"""A server that is stopped and started on the same folder goes on as if nothing had happened."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.embedded.server.storage.sqlite import StorageInUse
from tests.contract.client import Api, Cluster, config_map, owner
from tests.contract.test_crds import CRDS, definition, version, widget

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/g.example.com/v1/namespaces/default/widgets"


class Running:
    """A server on a folder, and a client."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.server = ApiServer(ServerOptions(data_dir=folder, tls=False, **options))

    async def __aenter__(self) -> Api:
        await self.server.start()
        token = self.server.kubeconfig()["users"][0]["user"]["token"]
        self.session = aiohttp.ClientSession()
        headers = {"Authorization": f"Bearer {token}"}
        return Api(Cluster(self.server.url, headers, None, embedded=True), self.session)

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        await self.server.stop()


async def test_objects_revisions_and_tokens_survive(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        created = await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        await api.create(CONFIG_MAPS, config_map("b"))
        await api.delete(f"{CONFIG_MAPS}/b")
        listed = await api.get(CONFIG_MAPS)
        headers = dict(api.cluster.headers)
    async with Running(tmp_path) as api:
        assert api.cluster.headers == headers
        assert await api.get(f"{CONFIG_MAPS}/a") == created
        assert await api.get(CONFIG_MAPS) == listed
        later = await api.create(CONFIG_MAPS, config_map("c"))
    revision = int(listed["metadata"]["resourceVersion"])
    assert int(later["metadata"]["resourceVersion"]) == revision + 1


async def test_a_watch_goes_on_where_the_last_list_was(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        await api.create(CONFIG_MAPS, config_map("a"))
        start = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    async with (
        Running(tmp_path) as api,
        api.watch(CONFIG_MAPS, resourceVersion=start) as watch,
    ):
        await api.create(CONFIG_MAPS, config_map("b"))
        assert await watch.next_names(1) == [("ADDED", "b")]


async def test_a_watch_from_before_the_restart_is_too_old(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        start = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
        await api.create(CONFIG_MAPS, config_map("a"))
    async with (
        Running(tmp_path) as api,
        api.watch(CONFIG_MAPS, resourceVersion=start) as watch,
    ):
        assert (await watch.next())[0] == "ERROR"


async def test_custom_kinds_are_served_again(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        await api.create(CRDS, definition("g.example.com"))
        created = await api.create(WIDGETS, widget("g.example.com"))
    async with Running(tmp_path) as api:
        assert await api.get(f"{WIDGETS}/a") == created
        assert await api.names(WIDGETS, fieldSelector="spec.color=red") == ["a"]


async def test_a_new_storage_version_shows_old_objects(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        await api.create(CRDS, definition("g.example.com"))
        await api.create(WIDGETS, widget("g.example.com"))
    newer = definition("g.example.com", version("v2"), version("v1", storage=False))
    async with Running(tmp_path, crds=[newer]) as api:
        obj = await api.get(f"{WIDGETS.replace('/v1/', '/v2/')}/a")
        assert obj["apiVersion"] == "g.example.com/v2"
        assert (await api.get(f"{WIDGETS}/a"))["apiVersion"] == "g.example.com/v1"
    async with Running(tmp_path, crds=[newer]) as api:
        assert (await api.get(f"{WIDGETS}/a"))["spec"] == obj["spec"]


async def test_unfinished_garbage_collection_goes_on(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        parent = await api.create(CONFIG_MAPS, config_map("parent"))
        child = config_map("child", ownerReferences=[owner(parent)])
        await api.create(CONFIG_MAPS, child)
    with sqlite3.connect(tmp_path / "objects.sqlite3") as connection:
        connection.execute("DELETE FROM objects WHERE name = 'parent'")
    connection.close()
    async with Running(tmp_path) as api:
        await api.until_gone(f"{CONFIG_MAPS}/child")


async def test_what_was_answered_is_in_the_file(tmp_path: Path) -> None:
    """The file is read while the server runs: as if the process had been killed right after the
    answer.
    """
    async with Running(tmp_path) as api:
        async with asyncio.TaskGroup() as group:
            for index in range(50):
                group.create_task(api.create(CONFIG_MAPS, config_map(f"c{index}")))
        connection = sqlite3.connect(tmp_path / "objects.sqlite3")
        query = "SELECT count(*) FROM objects WHERE plural = 'configmaps' AND namespace = 'default'"
        assert connection.execute(query).fetchone() == (50,)
        connection.close()


async def test_a_folder_serves_one_server_at_a_time(tmp_path: Path) -> None:
    async with Running(tmp_path):
        with pytest.raises(StorageInUse, match="in use by another server"):
            await ApiServer(ServerOptions(data_dir=tmp_path)).start()


async def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    async with Running(tmp_path / "data"):
        files = list((tmp_path / "data").glob("objects.sqlite3*"))
        assert files
        assert {each.stat().st_mode & 0o077 for each in files} == {0}


async def test_what_the_storage_cannot_keep_did_not_happen(tmp_path: Path) -> None:
    async with Running(tmp_path) as api:
        before = await api.get(CONFIG_MAPS)
        with sqlite3.connect(tmp_path / "objects.sqlite3") as connection:
            connection.execute("ALTER TABLE objects RENAME TO lost")
        answer = await api.send("POST", CONFIG_MAPS, config_map("a"))
        assert answer.status == 500
        assert "the storage failed" in answer.body["message"]
        assert await api.get(CONFIG_MAPS) == before
        connection.execute("ALTER TABLE lost RENAME TO objects")
        connection.close()
        created = await api.create(CONFIG_MAPS, config_map("a"))
    async with Running(tmp_path) as api:
        assert await api.get(f"{CONFIG_MAPS}/a") == created
