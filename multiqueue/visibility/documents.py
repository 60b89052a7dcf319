"""Documents about the visibility API: discovery, version, OpenAPI. Pure and constant."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from typing import Any

import orjson

from multiqueue import __version__
from multiqueue.visibility import remote_documents
from multiqueue.visibility.fleet import documents as fleet_documents
from multiqueue.visibility.refusals import GROUP
from multiqueue.visibility.summary import KIND, VERSIONS

Json = dict[str, Any]

DISCOVERY_GROUP = "apidiscovery.k8s.io"
TITLE = "multiqueue visibility"
QUEUES = (
    ("clusterqueues", "clusterqueue", "ClusterQueue", False),
    ("localqueues", "localqueue", "LocalQueue", True),
)
"""(plural, singular, kind, namespaced).

The API serves only their pending Workloads, not the queues; upstream lists the queues without
verbs, too.
"""
PENDING = "pendingworkloads"


def group_list() -> Json:
    """Return the APIGroupList, at /apis."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(), remote_documents.group(), fleet_documents.group()],
    }


def group() -> Json:
    """Return the APIGroup, at /apis/GROUP."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def _group() -> Json:
    versions = [{"groupVersion": f"{GROUP}/{v}", "version": v} for v in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def resource_list(version: str) -> Json:
    """Return the APIResourceList, at /apis/GROUP/VERSION."""
    resources: list[Json] = []
    for plural, singular, kind, namespaced in QUEUES:
        common: Json = {"namespaced": namespaced}
        resources += [
            {**common, "name": plural, "singularName": singular, "kind": kind, "verbs": []},
            {
                **common,
                "name": f"{plural}/{PENDING}",
                "singularName": "",
                "kind": KIND,
                "verbs": ["get"],
            },
        ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": resources,
    }


def aggregated(discovery_version: str) -> Json:
    """Return the APIGroupDiscoveryList, at /apis."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{DISCOVERY_GROUP}/{discovery_version}",
        "metadata": {},
        "items": [
            {"metadata": {"name": GROUP}, "versions": [_discovery(v) for v in VERSIONS]},
            remote_documents.discovery(),
            fleet_documents.discovery(),
        ],
    }


def _discovery(version: str) -> Json:
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": GROUP, "version": version, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": [],
            "subresources": [
                {
                    "subresource": PENDING,
                    "responseKind": {"group": GROUP, "version": version, "kind": KIND},
                    "verbs": ["get"],
                }
            ],
        }
        for plural, singular, kind, namespaced in QUEUES
    ]
    return {"version": version, "resources": resources, "freshness": "Current"}


def wanted_discovery(accept: str) -> str | None:
    """Return ``v2`` or ``v2beta1`` if an Accept header wants aggregated discovery, else None."""
    for choice in accept.split(","):
        options = dict(part.strip().partition("=")[::2] for part in choice.split(";")[1:])
        if options.get("g") == DISCOVERY_GROUP and options.get("v") in {"v2", "v2beta1"}:
            return options["v"]
    return None


def version() -> Json:
    """Return the document at /version."""
    return {
        "major": "",
        "minor": "",
        "gitVersion": f"v{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


@cache
def openapi_v3(version: str) -> bytes:
    """Return the OpenAPI v3 document of a version."""
    prefix = "#/components/schemas/"
    return orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": TITLE, "version": f"v{__version__}"},
            "paths": _paths(version, prefix, v3=True),
            "components": {"schemas": _schemas(version, prefix)},
        }
    )


def openapi_v3_index() -> Json:
    """Return the document at /openapi/v3."""
    paths = {}
    for each in VERSIONS:
        path = f"apis/{GROUP}/{each}"
        digest = openapi_hash(each)
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def openapi_hash(version: str) -> str:
    """Return a hash that changes with the document."""
    return hashlib.sha256(openapi_v3(version)).hexdigest().upper()


@cache
def openapi_v2() -> bytes:
    """Return the OpenAPI v2 document."""
    paths: Json = {}
    definitions: Json = {}
    for each in VERSIONS:
        paths |= _paths(each, "#/definitions/", v3=False)
        definitions |= _schemas(each, "#/definitions/")
    return orjson.dumps(
        {
            "swagger": "2.0",
            "info": {"title": TITLE, "version": f"v{__version__}"},
            "paths": paths,
            "definitions": definitions,
        }
    )


def _component(version: str, kind: str) -> str:
    return f"{'.'.join(reversed(GROUP.split('.')))}.{version}.{kind}"


def _paths(version: str, prefix: str, *, v3: bool) -> Json:
    reference = {"$ref": prefix + _component(version, KIND)}
    paths: Json = {}
    for plural, _, _, namespaced in QUEUES:
        scope = "/namespaces/{namespace}" if namespaced else ""
        names = [("name", "path", "string"), ("offset", "query", "integer")]
        names += [("limit", "query", "integer")]
        if namespaced:
            names.insert(0, ("namespace", "path", "string"))
        paths[f"/apis/{GROUP}/{version}{scope}/{plural}/{{name}}/{PENDING}"] = {
            "get": {
                "description": f"Workloads that wait in a queue of {plural}, in queue order.",
                "operationId": f"read{version.capitalize()}{plural.capitalize()}Pendingworkloads",
                "x-kubernetes-action": "get",
                "x-kubernetes-group-version-kind": _gvk(version),
                "parameters": [_parameter(*each, v3=v3) for each in names],
                "responses": {
                    "200": {
                        "description": "OK",
                        **(
                            {"content": {"application/json": {"schema": reference}}}
                            if v3
                            else {"schema": reference}
                        ),
                    }
                },
            }
        }
    return paths


def _parameter(name: str, where: str, type_: str, *, v3: bool) -> Json:
    parameter: Json = {"name": name, "in": where, "required": where == "path"}
    return parameter | ({"schema": {"type": type_}} if v3 else {"type": type_})


def _gvk(version: str) -> Json:
    return {"group": GROUP, "version": version, "kind": KIND}


def _schemas(version: str, prefix: str) -> Json:
    item = _component(version, "PendingWorkload")
    number = {"type": "integer", "format": "int32"}
    metadata = {"type": "object", "description": "Metadata of the object."}
    return {
        item: {
            "description": "A Workload that waits.",
            "type": "object",
            "required": [
                "priority",
                "localQueueName",
                "positionInClusterQueue",
                "positionInLocalQueue",
            ],
            "properties": {
                "metadata": {**metadata, "description": "Name, namespace, owners, creation time."},
                "priority": {**number, "description": "Its priority."},
                "localQueueName": {
                    "type": "string",
                    "description": "The LocalQueue it was submitted to.",
                },
                "positionInClusterQueue": {
                    **number,
                    "description": "Its position in the ClusterQueue, from 0.",
                },
                "positionInLocalQueue": {
                    **number,
                    "description": "Its position in the LocalQueue, from 0.",
                },
            },
        },
        _component(version, KIND): {
            "description": "Workloads that wait in a queue, in queue order.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": "Version of this object."},
                "kind": {"type": "string", "description": "Kind of this object."},
                "metadata": metadata,
                "items": {
                    "type": "array",
                    "items": {"$ref": prefix + item},
                    "description": "The wanted page.",
                },
            },
            "x-kubernetes-group-version-kind": [_gvk(version)],
        },
    }
