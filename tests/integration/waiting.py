"""Waiting for the state of an object by watching it; nothing sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import orjson

from multiqueue.embedded.cluster.cluster import SimCluster, SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import Resource
from tests.waiting import SECONDS

Object = dict[str, Any]


async def until(
    client: KubeClient,
    resource: Resource,
    holds: Callable[[list[Object]], bool],
    *,
    namespace: str | None = None,
    seconds: float = SECONDS,
) -> list[Object]:
    """Return the objects of a collection as soon as something holds for all of them together."""
    objects: dict[str, Object] = {}
    try:
        async with asyncio.timeout(seconds):
            listed = await client.list(resource, namespace=namespace)
            objects = {_key(obj): obj for obj in listed.items}
            if holds(list(objects.values())):
                return list(objects.values())
            events = client.watch(
                resource, namespace=namespace, resource_version=listed.resource_version
            )
            async with aclosing(events):
                async for event in events:
                    obj = orjson.loads(event.raw)
                    if event.type == "DELETED":
                        objects.pop(_key(obj), None)
                    elif event.type != "BOOKMARK":
                        objects[_key(obj)] = obj
                    if holds(list(objects.values())):
                        return list(objects.values())
    except TimeoutError:
        pass
    raise AssertionError(
        f"it did not come to pass: {orjson.dumps(list(objects.values())).decode()}"
    )


async def until_one(
    client: KubeClient,
    resource: Resource,
    name: str,
    holds: Callable[[Object], bool],
    *,
    namespace: str | None = None,
    seconds: float = SECONDS,
) -> Object:
    """Return an object as soon as something holds for it."""

    def find(objects: list[Object]) -> list[Object]:
        return [obj for obj in objects if obj["metadata"]["name"] == name and holds(obj)]

    found = await until(
        client, resource, lambda objs: bool(find(objs)), namespace=namespace, seconds=seconds
    )
    return find(found)[0]


def condition(obj: Object, type_: str) -> Object:
    """Return a condition, or an empty mapping."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_), {})


def is_true(obj: Object, type_: str) -> bool:
    """Whether a condition is there and True."""
    return bool(condition(obj, type_).get("status") == "True")


@asynccontextmanager
async def api_client(options: ServerOptions | None = None) -> AsyncIterator[KubeClient]:
    """A client of a fresh embedded API server."""
    async with ApiServer(options or ServerOptions(tls=False)) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        async with KubeClient(credentials) as client:
            yield client


@asynccontextmanager
async def simulation(
    client: KubeClient, *pools: str, speed: float = 1, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Simulated nodes behind an API server."""
    options = SimOptions(pools=[parse_node_pool(pool) for pool in pools], speed=speed)
    cluster = SimCluster(client, options, clock=clock)
    task = asyncio.create_task(cluster.run())
    try:
        await cluster.wait_until_ready()
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"
