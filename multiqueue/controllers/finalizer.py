"""Keeps our objects from being deleted while they are used: ``resource-in-use``.

Parity: E-119.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import Resource


def finalizers_wanted(obj: Any, *, in_use: bool) -> list[str] | None:
    """Return the finalizers that an object should have; None if it has them."""
    metadata = obj.metadata
    present = list(metadata.finalizers)
    if not metadata.deletion_timestamp:
        return None if RESOURCE_IN_USE in present else [*present, RESOURCE_IN_USE]
    if RESOURCE_IN_USE not in present or in_use:
        return None
    return [name for name in present if name != RESOURCE_IN_USE]


async def sync_finalizer(client: KubeClient, resource: Resource, obj: Any, *, in_use: bool) -> bool:
    """Write the finalizers if they are wrong; return whether there was a write.

    Raises:
        Conflict: the object changed since it was read.
    """
    wanted = finalizers_wanted(obj, in_use=in_use)
    if wanted is None:
        return False
    patch = {
        "metadata": {
            "finalizers": wanted or None,
            "resourceVersion": obj.metadata.resource_version,
        }
    }
    try:
        await client.patch(
            resource,
            obj.metadata.name,
            patch,
            namespace=obj.metadata.namespace or None,
            decode=bytes,
        )
    except NotFound:
        return True
    return True
