"""What a request is about, from its path: as an API server reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl

from multiqueue.jobs.framework.related import list_related
from multiqueue.kube import resources
from multiqueue.kube.resources import Resource
from tests.fleet.kinds import INTEGRATIONS

SERVED: dict[tuple[str, str], Resource] = {
    (value.api_version, value.plural): value
    for value in (
        *vars(resources).values(),
        *(each for kind in INTEGRATIONS.values() for each in (kind.resource, *list_related(kind))),
    )
    if isinstance(value, Resource)
}
"""Every collection that the program knows, by apiVersion and plural."""

KINDS: dict[str, Resource] = {plural: resource for (_, plural), resource in SERVED.items()}
"""Collections by plural alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """The collection, the object and the part of it that a path names.

    ``resource`` is None for what is no collection: discovery, versions.
    """

    resource: Resource | None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    group_version: str = ""


def parse_query(target: str) -> tuple[str, dict[str, str]]:
    """Cut a request target into path and parameters."""
    path, _, query = target.partition("?")
    return path, dict(parse_qsl(query)) if query else {}


@lru_cache(maxsize=65536)
def parse_path(path: str) -> Target:
    """Read a path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        version, rest = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:
        version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        return Target(None)
    if not rest:
        return Target(None, group_version=version)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    found = SERVED.get((version, rest[0]))
    name, subresource = (*rest[1:], "", "")[:2]
    return Target(found, namespace, name, subresource, version)
