"""Random objects of our kinds from their published schemas, with more in them than those say.

Drawn from a seed, since an object of a schema with hundreds of fields takes Hypothesis too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from multiqueue.api.crd import load_crds
from multiqueue.api.names import GROUP

Schema = Mapping[str, Any]

SCHEMAS: dict[tuple[str, str], Schema] = {
    (crd["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for crd in load_crds()
    if crd["spec"]["group"] == GROUP
    for version in crd["spec"]["versions"]
}
KINDS = sorted({kind for kind, _ in SCHEMAS})

UNKNOWN_VALUES = (
    None,
    True,
    0,
    2**80,
    -1,
    1.5,
    "",
    "x",
    [],
    [None],
    ["a", {"b": 1}],
    {},
    {"a": {}},
)
UNKNOWN_NAMES = ("xa", "x-b", "größe")
INTEGERS = (0, 1, 7, 2**31 - 1, 2**62)
QUANTITIES = ("0", "1", "500m", "2Gi", "100E", "1e3", "0.5", "1000m", 0, 3, 2**40)
NAMES = ("", "a", "a-1", "b", "kueue.x-k8s.io/workloadpriorityclass", "example.com/z")
MAX_ITEMS = 2


def make_object(kind: str, version: str, seed: int) -> dict[str, Any]:
    """An object of a kind with any of the fields of its schema, the same for the same seed."""
    random = Random(f"{kind} {version} {seed}")
    metadata = {"name": "x", **random.choice(({}, {"annotations": {"a": "b"}}))}
    fields = {
        name: field
        for name, field in SCHEMAS[kind, version]["properties"].items()
        if name not in {"apiVersion", "kind", "metadata"}
    }
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata}
    return {**_mapping({"properties": fields}, random, random.random()), **head}


def _mapping(schema: Schema, random: Random, density: float) -> dict[str, Any]:
    """Some of the fields, those that are required, and sometimes one that no schema knows."""
    required = schema.get("required") or ()
    result = {
        name: _value(name, field, random, density)
        for name, field in schema["properties"].items()
        if name in required or random.random() < density
    }
    if random.random() < 0.3:
        result[random.choice(UNKNOWN_NAMES)] = random.choice(UNKNOWN_VALUES)
    return result


def _value(name: str, schema: Schema, random: Random, density: float) -> Any:
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return random.choice(QUANTITIES)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if kind == "array":
        count = random.randint(0, MAX_ITEMS)
        items = [_value(name, schema["items"], random, density) for _ in range(count)]
        return _distinct([item for item in items if item is not None], schema)
    if kind == "object":
        return _object(name, schema, random, density)
    if schema.get("minLength"):
        return random.choice(NAMES[1:])
    simple = {"boolean": (True, False), "integer": INTEGERS, "number": INTEGERS, "string": NAMES}
    return random.choice(simple.get(kind, UNKNOWN_VALUES))


def _distinct(items: list[Any], schema: Schema) -> list[Any]:
    for name in schema.get("x-kubernetes-list-map-keys") or ():
        for index, item in enumerate(items):
            item[name] = f"n-{index}"
    return items


def _object(name: str, schema: Schema, random: Random, density: float) -> Any:
    if name != "spec" and random.random() < 0.1:
        return None
    if "properties" in schema:
        return _mapping(schema, random, density)
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        names = random.sample(("cpu", "nvidia.com/gpu"), random.randint(0, 2))
        return {each: _value(name, additional, random, density) for each in names}
    return {each: random.choice(UNKNOWN_VALUES) for each in random.sample(("a", "b"), 1)}
