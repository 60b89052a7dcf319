"""Waits until one object meets a condition: reads it once, then watches it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import orjson

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Gone
from multiqueue.kube.resources import Resource

Json = dict[str, Any]


async def wait_for(
    client: KubeClient,
    resource: Resource,
    name: str,
    accept: Callable[[Json], bool],
    *,
    namespace: str | None = None,
) -> Json:
    """Return an object once `accept` is true; the caller's timeout limits the wait.

    Raises:
        NotFound: the object does not exist.
    """
    while True:
        obj: Json = await client.get(resource, name, namespace=namespace)
        if accept(obj):
            return obj
        events = client.watch(
            resource,
            resource_version=obj["metadata"]["resourceVersion"],
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    changed: Json = orjson.loads(event.raw)
                    if event.type == "MODIFIED" and accept(changed):
                        return changed
        except Gone:
            continue
