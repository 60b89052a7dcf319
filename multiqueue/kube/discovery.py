"""Asks a cluster which collection has the objects of a kind."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """A kind as a cluster serves it.

    Attributes:
        resource: Its collection.
        has_status: Whether its status is a subresource.
    """

    resource: Resource
    has_status: bool


async def find_served_kind(client: KubeClient, api_version: str, kind: str) -> ServedKind | None:
    """Return how the cluster serves a kind; None if it does not.

    Raises:
        KubeError: the cluster does not answer.
    """
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        response = await client.request("GET", root)
    except NotFound:
        return None
    rows = orjson.loads(response.body).get("resources") or ()
    row = next((row for row in rows if row["kind"] == kind and "/" not in row["name"]), None)
    if row is None:
        return None
    group, _, version = api_version.rpartition("/")
    resource = Resource(
        group=group,
        version=version,
        plural=row["name"],
        kind=kind,
        namespaced=row["namespaced"],
    )
    has_status = any(each["name"] == f"{row['name']}/status" for each in rows)
    return ServedKind(resource=resource, has_status=has_status)
