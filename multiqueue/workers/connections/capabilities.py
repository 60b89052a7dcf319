"""What a worker can do, in a form to publish: versions, kinds, flavors, topologies.

Pure except for `discover`, which asks a worker for what its informers do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import GROUP
from multiqueue.api.serde import decode
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import TOPOLOGIES

CONFIG_MAP = "multiqueue-workers"
"""In the manager's namespace; one key per worker, and one with the factors of estimates."""
OUR_GROUP = "remote.multiqueue.dev"
"""Served by every installation of this program, and by nobody else."""
MAX_SHOWN = 64
"""Most flavors, and topologies, of one worker to publish; the others are counted."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The answers of a worker about itself.

    Attributes:
        kubernetes: Version of its API server; empty: unknown.
        program: The program that queues there.
        versions: Versions of our API that it serves, the preferred one first.
        topologies: Levels by name; None: we may not read them.
    """

    kubernetes: str = ""
    program: str = ""
    versions: tuple[str, ...] = ()
    topologies: Mapping[str, tuple[str, ...]] | None = None


async def discover(client: KubeClient) -> Discovery:
    """Ask a worker about itself.

    Raises:
        KubeError: The worker does not answer.
    """
    version = await _get(client, "/version")
    groups = (await _get(client, "/apis")).get("groups") or []
    ours: Json = next((group for group in groups if group.get("name") == GROUP), {})
    is_multiqueue = any(group.get("name") == OUR_GROUP for group in groups)
    return Discovery(
        kubernetes=str(version.get("gitVersion") or ""),
        program="multiqueue" if is_multiqueue else "kueue",
        versions=tuple(str(v.get("version")) for v in ours.get("versions") or ()),
        topologies=await _list_topologies(client),
    )


def build_capabilities(
    discovery: Discovery, kinds: Sequence[str], flavors: Sequence[api.ResourceFlavor]
) -> Json:
    """Return the published description of a worker, in a fixed order."""
    shown = sorted(flavors, key=lambda flavor: flavor.metadata.name)
    capabilities: Json = {
        "kubernetes": discovery.kubernetes,
        "program": discovery.program,
        "apiVersions": list(discovery.versions),
        "kinds": sorted(kinds),
        "flavors": [_flavor(flavor) for flavor in shown[:MAX_SHOWN]],
    }
    if len(shown) > MAX_SHOWN:
        capabilities["moreFlavors"] = len(shown) - MAX_SHOWN
    if discovery.topologies is not None:
        names = sorted(discovery.topologies)[:MAX_SHOWN]
        capabilities["topologies"] = {name: list(discovery.topologies[name]) for name in names}
    return capabilities


def _flavor(flavor: api.ResourceFlavor) -> Json:
    shown: Json = {"name": flavor.metadata.name, "nodeLabels": dict(flavor.spec.node_labels)}
    if flavor.spec.topology_name:
        shown["topology"] = flavor.spec.topology_name
    return shown


async def _get(client: KubeClient, path: str) -> Json:
    """Read a document about the server; empty if we may not read it."""
    try:
        found = orjson.loads((await client.request("GET", path)).body)
    except (ApiError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


async def _list_topologies(client: KubeClient) -> dict[str, tuple[str, ...]] | None:
    try:
        listed = await client.list(TOPOLOGIES, decode=lambda data: decode(api.Topology, data))
    except ApiError:
        return None  # the right to read them is optional
    return {
        topology.metadata.name: tuple(level.node_label for level in topology.spec.levels)
        for topology in listed.items
    }
