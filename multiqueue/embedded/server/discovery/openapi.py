"""OpenAPI documents of version 3, one per group version.

kubectl needs: schemas with their kind (explain), and operations with their kind and the
``fieldValidation`` and ``dryRun`` parameters (then it leaves validation to the server). Documents
are made when first asked for and kept until the registry changes.
"""

import hashlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from multiqueue.embedded.server.discovery.discovery import SERVER_MINOR
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion, Registry
from multiqueue.embedded.server.schema.types import COMPONENT, schema_of

GVK = "x-kubernetes-group-version-kind"
REF = "#/components/schemas/"

Schema = Mapping[str, Any]

_INTERNAL = frozenset({COMPONENT})
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


class Documents:
    """The documents of one registry at one generation."""

    def __init__(self, registry: Registry) -> None:
        self.generation = registry.generation
        self._registry = registry
        self._encoded: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}
        self.paths = {
            f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
            for group in registry.groups()
            for version in registry.versions(group)
        }

    def document(self, path: str) -> bytes | None:
        """One encoded document."""
        if path not in self.paths:
            return None
        if path not in self._encoded:
            self._encoded[path] = orjson.dumps(_document(self._registry, *self.paths[path]))
        return self._encoded[path]

    def hash(self, path: str) -> str | None:
        """The hash of one document."""
        if path not in self._hashes:
            raw = self.document(path)
            if raw is None:
                return None
            self._hashes[path] = hashlib.sha256(raw).hexdigest().upper()
        return self._hashes[path]


def _current(registry: Registry) -> Documents:
    documents = _cache.get(registry)
    if documents is None or documents.generation != registry.generation:
        documents = _cache[registry] = Documents(registry)
    return documents


_cache: WeakKeyDictionary[Registry, Documents] = WeakKeyDictionary()


def index(registry: Registry) -> JsonObject:
    """What /openapi/v3 answers: for each path its ``serverRelativeURL`` with a hash."""
    documents = _current(registry)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={documents.hash(path)}"}
            for path in documents.paths
        }
    }


def document(registry: Registry, path: str) -> bytes | None:
    """What /openapi/v3/<path> answers (``apis/batch/v1``), encoded; None if not served."""
    return _current(registry).document(path)


def document_hash(registry: Registry, path: str) -> str | None:
    """The hash of a document: its ETag, and the query parameter that allows caching for ever."""
    return _current(registry).hash(path)


def _document(registry: Registry, group: str, version: str) -> JsonObject:
    components = Components()
    paths: JsonObject = {}
    for kind in registry.kinds_in(group, version):
        found = kind.version(version)
        if found is not None:
            _add_kind(components, kind, found)
            paths |= _paths(kind, found)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v1.{SERVER_MINOR}.0"},
        "paths": paths,
        "components": {"schemas": components.schemas},
    }


class Components:
    """The named schemas of a document, collected while schemas are turned into references."""

    def __init__(self) -> None:
        self.schemas: JsonObject = {}

    def reference(self, name: str) -> JsonObject:
        """A reference to a component."""
        return {"$ref": REF + name}

    def publish(self, schema: Schema) -> JsonObject:
        """A schema as published: named parts become components, internal keys vanish."""
        name = schema.get(COMPONENT)
        if name is None:
            return self._inline(schema)
        if name not in self.schemas:
            self.schemas[name] = {}  # reserves the name: a type may contain itself
            self.schemas[name] = self._component(schema)
        reference = self.reference(name)
        rest = {
            key: value for key, value in schema.items() if key.startswith("x-kubernetes-patch-")
        }
        return {"allOf": [reference], "default": {}, **rest} if rest else reference

    def _component(self, schema: Schema) -> JsonObject:
        if schema.get("x-kubernetes-int-or-string"):
            return {"oneOf": [{"type": "string"}, {"type": "number"}]}
        return self._inline(schema)

    def _inline(self, schema: Schema) -> JsonObject:
        published: JsonObject = {}
        for key, value in schema.items():
            if key == "properties":
                published[key] = {name: self.publish(sub) for name, sub in value.items()}
            elif key in {"items", "additionalProperties", "not"} and isinstance(value, Mapping):
                published[key] = self.publish(value)
            elif key in {"allOf", "anyOf", "oneOf"}:
                published[key] = [self.publish(sub) for sub in value]
            elif key not in _INTERNAL:
                published[key] = value
        if published.get("format") == "micro-time":
            published["format"] = "date-time"
        return published


def component_name(kind: Kind, version: KindVersion) -> str:
    """The component of a kind, e.g. ``io.x-k8s.kueue.v1beta2.Workload`` (the group reversed)."""
    name = version.schema.get(COMPONENT)
    if name is not None:
        return str(name)
    return f"{'.'.join(reversed(kind.group.split('.')))}.{version.name}.{kind.kind}"


def _add_kind(components: Components, kind: Kind, version: KindVersion) -> None:
    name = component_name(kind, version)
    gvk = [{"group": kind.group, "version": version.name, "kind": kind.kind}]
    if name in components.schemas and COMPONENT in version.schema:
        components.schemas[name][GVK] = gvk
    elif COMPONENT in version.schema:
        components.publish(version.schema)
        components.schemas[name][GVK] = gvk
    else:
        components.schemas[name] = _custom(components, version.schema) | {GVK: gvk}
    components.schemas[f"{name}List"] = _list(components, name, kind, version)


def _custom(components: Components, schema: Schema) -> JsonObject:
    published = components.publish(schema)
    implied = {
        "apiVersion": {
            "type": "string",
            "description": "The version of the schema that the object is in.",
        },
        "kind": {"type": "string", "description": "The kind of the object."},
        "metadata": {"allOf": [components.publish(schema_of("meta.ObjectMeta"))], "default": {}},
    }
    return {
        **published,
        "properties": {**implied, **_without(published.get("properties", {}), implied)},
    }


def _without(properties: Mapping[str, Any], implied: Mapping[str, Any]) -> JsonObject:
    return {name: schema for name, schema in properties.items() if name not in implied}


def _list(components: Components, name: str, kind: Kind, version: KindVersion) -> JsonObject:
    return {
        "type": "object",
        "description": f"A list of {kind.kind} objects.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": components.publish(schema_of("meta.ListMeta")),
            "items": {"type": "array", "items": components.reference(name)},
        },
        GVK: [{"group": kind.group, "version": version.name, "kind": kind.list_kind}],
    }


def _json_body(reference: str) -> JsonObject:
    return {"requestBody": {"content": {"*/*": {"schema": {"$ref": REF + reference}}}}}


def _paths(kind: Kind, version: KindVersion) -> JsonObject:
    root = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{scope}/{kind.plural}"
    gvk = {"group": kind.group, "version": version.name, "kind": kind.kind}
    name = component_name(kind, version)
    read, write = {GVK: gvk}, {GVK: gvk, "parameters": _parameters(), **_json_body(name)}
    if kind.hooks.respond:
        return {collection: {"post": _operation("post", write)}}
    paths: JsonObject = {
        collection: {
            "get": _operation("list", read),
            "post": _operation("post", write),
            "delete": _operation("deletecollection", read),
        },
        f"{collection}/{{name}}": {
            "get": _operation("get", read),
            "put": _operation("put", write),
            "patch": _operation("patch", {GVK: gvk, "parameters": _parameters()}),
            "delete": _operation("delete", read),
        },
    }
    if version.has_status:
        paths[f"{collection}/{{name}}/status"] = {
            "get": _operation("get", read),
            "put": _operation("put", write),
            "patch": _operation("patch", {GVK: gvk, "parameters": _parameters()}),
        }
    return paths


def _operation(action: str, parts: JsonObject) -> JsonObject:
    return {
        "x-kubernetes-action": action,
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        **parts,
    }


def _parameters() -> list[JsonObject]:
    return [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in _WRITE_PARAMETERS
    ]
