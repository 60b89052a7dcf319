"""What an object has before anybody says anything: parts that a Go server always writes.

It decides whether a creator owns a struct itself (``f:rollingUpdate: {".": {}}``) or only what
is in it. Custom kinds have nothing of the kind.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion

_VALUES = frozenset(
    (
        *("metadata", "spec", "status", "template", "jobTemplate", "strategy", "updateStrategy"),
        *("names", "acceptedNames", "roleRef", "loadBalancer", "daemonEndpoints"),
        *("kubeletEndpoint", "nodeInfo", "involvedObject", "source"),
    )
)
"""Struct fields of built-in kinds that are values, not pointers, where zero objects reach them."""


def zero_object(kind: Kind, version: KindVersion) -> JsonObject:
    """An object of a kind without any content. Shared: read only."""
    if not kind.builtin:
        return {"metadata": {}}
    return _zero_of(version)


@lru_cache(maxsize=256)
def _zero_of(version: KindVersion) -> JsonObject:
    return _struct(version.schema)


def _struct(schema: Mapping[str, Any]) -> JsonObject:
    required = schema.get("required", ())
    zero: JsonObject = {}
    for name, field in schema["properties"].items():
        if name in _VALUES and "properties" in field:
            zero[name] = _struct(field)
        elif name in required:
            zero[name] = _ZEROS.get(field.get("type", ""))
    return zero


_ZEROS: Mapping[str, Any] = {"string": "", "integer": 0, "boolean": False}
