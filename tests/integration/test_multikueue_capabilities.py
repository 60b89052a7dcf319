"""What the workers can do, as the manager publishes it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from multiqueue.cli.workers import read_workers
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import CONFIG_MAPS, RESOURCE_FLAVORS
from multiqueue.workers.connections.capabilities import CONFIG_MAP
from tests.builders.queues import make_gpu_flavor
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.queue_manager import CONFIG
from tests.waiting import SECONDS


async def until_published(world: MultiKueueWorld, words: str) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                found = await world.hub.client.get(
                    CONFIG_MAPS, CONFIG_MAP, namespace=CONFIG.namespace
                )
            except NotFound:
                found = {"data": {}}
            if words in json.dumps(found["data"]):
                return {name: json.loads(text) for name, text in found["data"].items()}
            await asyncio.sleep(0.05)


async def test_versions_kinds_and_flavors_of_workers_are_published_and_shown():
    async with multikueue_world("worker1") as world:
        await world.workers["worker1"].create(RESOURCE_FLAVORS, make_gpu_flavor("h100", gpu="h100"))
        async with world.manager():
            await world.until_connected()
            got = (await until_published(world, "h100"))["worker1"]
            assert got["kinds"] == ["Job.v1.batch"]
            assert "v1beta2" in got["apiVersions"]
            assert {"name": "h100", "nodeLabels": {"gpu": "h100"}} in got["flavors"]
            assert got["topologies"] == {}
            (shown,) = await read_workers(world.hub.client, system_namespace=CONFIG.namespace)
            assert shown.to_dict()["capabilities"] == got
            assert shown.to_dict()["warnings"] == []
