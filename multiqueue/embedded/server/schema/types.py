"""Structural schemas of Kubernetes' own types, expanded from the tables in data/.

The tables are made by ``tools/generate_builtin_schemas.py``. Every type is expanded once, and the
schemas that use it share the same mapping, so that all kinds with a Pod template stay small.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

DATA = Path(__file__).parent / "data"

COMPONENT = "x-multiqueue-component"
"""Key of a schema that is a published component: its name, e.g. ``io.k8s.api.core.v1.PodSpec``."""

Schema = Mapping[str, Any]

_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "micro-time"},
    "quantity": {
        "x-kubernetes-int-or-string": True,
        COMPONENT: "io.k8s.apimachinery.pkg.api.resource.Quantity",
    },
    "intOrString": {
        "x-kubernetes-int-or-string": True,
        COMPONENT: "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    },
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


@cache
def schema_of(name: str) -> Schema:
    """The schema of a type such as ``core.PodSpec``. Shared: read only."""
    package, _, short = name.partition(".")
    table = _package(package)
    row = table["types"][short]
    lists = row.get("lists", {})
    properties = {
        field: _field(expression, lists.get(field, {}))
        for field, expression in row["fields"].items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if description := _descriptions().get(name):
        schema["description"] = description
    if row.get("required"):
        schema["required"] = row["required"]
    if row.get("atomic"):
        schema["x-kubernetes-map-type"] = "atomic"
    schema[COMPONENT] = f"{table['package']}.{short}"
    return schema


def _field(expression: str, merge: Mapping[str, Any]) -> Schema:
    schema = dict(_expand(expression))
    if expression.startswith("[]"):
        schema["x-kubernetes-list-type"] = merge.get("type", "atomic")
    if map_type := merge.get("mapType"):
        schema["x-kubernetes-map-type"] = map_type
    for key, extension in (
        ("keys", "x-kubernetes-list-map-keys"),
        ("mergeKey", "x-kubernetes-patch-merge-key"),
        ("strategy", "x-kubernetes-patch-strategy"),
    ):
        if key in merge:
            schema[extension] = merge[key]
    return schema


def _expand(expression: str) -> Schema:
    if expression.startswith("[]"):
        return {"type": "array", "items": _expand(expression[2:])}
    if expression.startswith("{}"):
        return {"type": "object", "additionalProperties": _expand(expression[2:])}
    return _SCALARS.get(expression) or schema_of(expression)


@cache
def _package(name: str) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads((DATA / f"{name}.json").read_bytes())
    return document


@cache
def _descriptions() -> dict[str, str]:
    document: dict[str, str] = orjson.loads((DATA / "descriptions.json").read_bytes())
    return document
