"""Discovery documents, legacy and aggregated, and the version.

All are plain objects, cheap to make; callers may cache them by ``registry.generation``.
"""

import platform
from collections.abc import Iterator
from typing import Any

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion, Registry

AGGREGATED_GROUP = "apidiscovery.k8s.io"
AGGREGATED_VERSIONS = ("v2", "v2beta1")
SERVER_MINOR = 36
"""The Kubernetes version whose API this server follows."""

_STATUS_VERBS = ["get", "patch", "update"]


def api_versions() -> JsonObject:
    """APIVersions, at /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_group_list(registry: Registry) -> JsonObject:
    """APIGroupList, at /apis."""
    groups = [_group(registry, group) for group in registry.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(registry: Registry, group: str) -> JsonObject:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in registry.versions(group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(registry: Registry, group: str, version: str) -> JsonObject | None:
    """APIResourceList, at /api/v1 and /apis/<group>/<version>; None if not served."""
    kinds = registry.kinds_in(group, version)
    if not kinds:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [resource for kind in kinds for resource in _legacy(kind, version)],
    }


def _legacy(kind: Kind, version: str) -> Iterator[JsonObject]:
    resource: JsonObject = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    yield resource
    for name, shown, verbs in _subresources(kind, version):
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **{key: value for key, value in shown.items() if key == "kind" or value},
            "verbs": verbs,
        }


def _verbs(kind: Kind) -> list[str]:
    return ["create"] if kind.hooks.respond else sorted(kind.verbs)


def _subresources(kind: Kind, version: str) -> Iterator[tuple[str, JsonObject, list[str]]]:
    """(name, the kind it speaks with group and version where they differ, verbs)."""
    found = kind.version(version)
    if found is None:
        return
    for subresource in kind.subresources:
        shown = _foreign(kind, found, subresource.group, subresource.version, subresource.kind)
        yield subresource.name, shown, sorted(subresource.verbs)
    if found.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        yield "scale", scale, _STATUS_VERBS
    if found.has_status:
        yield "status", {"kind": kind.kind}, _STATUS_VERBS


def _foreign(kind: Kind, version: KindVersion, group: str, name: str, spoken: str) -> JsonObject:
    if (group, name) == (kind.group, version.name):
        return {"kind": spoken}
    return {"group": group, "version": name, "kind": spoken}


def aggregated(registry: Registry, *, core: bool, version: str) -> JsonObject:
    """APIGroupDiscoveryList, at /api (core) and /apis, of apidiscovery.k8s.io/``version``."""
    groups = [group for group in registry.groups() if (group == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group, "creationTimestamp": None}
                if group
                else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": name,
                        "resources": [
                            _resource(kind, name) for kind in registry.kinds_in(group, name)
                        ],
                        "freshness": "Current",
                    }
                    for name in registry.versions(group)
                ],
            }
            for group in groups
        ],
    }


def _resource(kind: Kind, version: str) -> JsonObject:
    resource: JsonObject = {
        "resource": kind.plural,
        "responseKind": _gvk(kind.group, version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": {**_gvk(kind.group, version, ""), **shown},
            "verbs": verbs,
        }
        for name, shown, verbs in _subresources(kind, version)
    ]
    if subresources:
        resource["subresources"] = subresources
    return resource


def _gvk(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def aggregated_version(accept: str) -> str | None:
    """``v2`` or ``v2beta1`` if an Accept header asks for aggregated discovery first, else None."""
    for choice in accept.split(","):
        media, *options = (part.strip() for part in choice.split(";"))
        wanted = dict(option.partition("=")[::2] for option in options)
        if media not in {"application/json", "*/*"}:
            continue
        if wanted.get("g") != AGGREGATED_GROUP:
            return None
        if wanted.get("v") in AGGREGATED_VERSIONS and wanted.get("as") == "APIGroupDiscoveryList":
            return wanted["v"]
    return None


def content_type(version: str) -> str:
    """The Content-Type of an aggregated document."""
    return f"application/json;g={AGGREGATED_GROUP};v={version};as=APIGroupDiscoveryList"


def server_version() -> JsonObject:
    """What /version answers. ``gitVersion`` says that this is no kube-apiserver."""
    details: dict[str, Any] = {
        "major": "1",
        "minor": str(SERVER_MINOR),
        "gitVersion": f"v1.{SERVER_MINOR}.0+multiqueue",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return details
