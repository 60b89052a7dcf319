"""Merges discovery and OpenAPI of backends with those of the kinds served here. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiqueue.embedded.server.aggregation.backend import Backend
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.version_order import version_priority


@dataclass(frozen=True, slots=True)
class BackendDocuments:
    """The documents of a backend at the last check; empty until it first answered."""

    resources: Sequence[JsonObject] = ()
    """As in aggregated discovery."""
    is_current: bool = False
    openapi: Mapping[str, JsonObject] = field(default_factory=dict)
    """Its part of the index of OpenAPI v3."""


def sorted_backends(backends: Iterable[Backend]) -> list[Backend]:
    """Sort backends for discovery: groups by priority, then by name; versions likewise."""
    found = list(backends)
    of_group: dict[str, int] = {}
    for each in found:
        of_group[each.group] = max(each.priorities[0], of_group.get(each.group, 0))
    return sorted(
        found,
        key=lambda each: (
            -of_group[each.group],
            each.group,
            -each.priorities[1],
            version_priority(each.version),
        ),
    )


def add_groups(local: Sequence[JsonObject], backends: Iterable[Backend]) -> list[JsonObject]:
    """The groups of an APIGroupList, with those of backends behind."""
    groups = {group["name"]: {**group, "versions": [*group["versions"]]} for group in local}
    for backend in sorted_backends(backends):
        group = groups.setdefault(backend.group, {"name": backend.group, "versions": []})
        if all(each["version"] != backend.version for each in group["versions"]):
            name = f"{backend.group}/{backend.version}"
            group["versions"].append({"groupVersion": name, "version": backend.version})
        group["preferredVersion"] = group["versions"][0]
    return list(groups.values())


def add_discovery(
    local: Sequence[JsonObject], backends: Iterable[Backend], known: Mapping[str, BackendDocuments]
) -> list[JsonObject]:
    """The items of an APIGroupDiscoveryList, with those of backends behind."""
    items = {
        item["metadata"].get("name", ""): {**item, "versions": [*item["versions"]]}
        for item in local
    }
    for backend in sorted_backends(backends):
        empty: JsonObject = {"metadata": {"name": backend.group}, "versions": []}
        versions = items.setdefault(backend.group, empty)["versions"]
        versions[:] = [each for each in versions if each["version"] != backend.version]
        versions.append(_discovery(backend, known.get(backend.name, BackendDocuments())))
    return list(items.values())


def _discovery(backend: Backend, known: BackendDocuments) -> JsonObject:
    freshness = "Current" if known.is_current else "Stale"
    version: JsonObject = {"version": backend.version, "freshness": freshness}
    return {**version, "resources": list(known.resources)} if known.resources else version


def resources_of(document: Any, backend: Backend) -> list[JsonObject] | None:
    """Return a version's resources in an APIGroupDiscoveryList; None if it lacks the version."""
    if not isinstance(document, dict) or document.get("kind") != "APIGroupDiscoveryList":
        return None
    for item in document.get("items") or ():
        if item.get("metadata", {}).get("name") == backend.group:
            for version in item.get("versions") or ():
                if version.get("version") == backend.version:
                    return list(version.get("resources") or ())
    return None


def add_openapi(local: JsonObject, known: Iterable[BackendDocuments]) -> JsonObject:
    """The index of OpenAPI v3, with the documents of backends."""
    paths = dict(local["paths"])
    for each in known:
        paths.update(each.openapi)
    return {"paths": paths}


def openapi_part(index: Any, backend: Backend) -> dict[str, JsonObject]:
    """Return the part of a backend's OpenAPI v3 index for its version."""
    key = backend.path.strip("/")
    entry = (index.get("paths") or {}).get(key) if isinstance(index, dict) else None
    return {key: entry} if isinstance(entry, dict) else {}
