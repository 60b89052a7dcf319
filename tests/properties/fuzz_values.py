"""Values for fuzzing: objects after a schema, and every kind of nonsense in their places."""

import copy
import json
from collections.abc import Mapping
from random import Random
from typing import Any

TEXTS = [
    "",
    "a",
    "Bad_Name",
    "x" * 70,
    "y" * 300,
    "-1",
    "1",
    "1Gi",
    "1e400",
    "NaN",
    "true",
    "null",
    "2026-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z",
    "ü",
    "\u0000",
    "\u202e\ufeff",
    "😀",
    "../../etc",
    "a/b/c",
    "{{}}",
    "\\",
    '"',
    "%00",
    "a\nb",
    "*",
    "kueue.x-k8s.io/queue-name",
]
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    2**64,
    10**30,
    0.5,
    1e308,
]
ODDITIES: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": []}}]
MAX_DEPTH = 7


def sample(random: Random, schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that a schema mostly allows."""
    if "x-kubernetes-int-or-string" in schema:
        return random.choice([1, "1", "500m", "1Gi", "50%", random.choice(TEXTS)])
    if schema.get("enum"):
        return random.choice(schema["enum"])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {random.choice(TEXTS): random.choice(ODDITIES)}
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _fields(random, schema, depth)
        case "object":
            inner = schema.get("additionalProperties")
            values = inner if isinstance(inner, Mapping) else {}
            keys = random.sample(["a", "cpu", "nvidia.com/gpu", random.choice(TEXTS)], 2)
            return {key: sample(random, values, depth + 1) for key in keys}
        case "array":
            count = random.choice([0, 1, 1, 2, 3])
            return [sample(random, schema["items"], depth + 1) for _ in range(count)]
        case "integer" | "number":
            return random.choice([0, 1, 2, 3, 5, random.choice(NUMBERS)])
        case "boolean":
            return random.random() < 0.5
    return random.choice(["a", "b", "spot", "cpu", random.choice(TEXTS)])


def _fields(random: Random, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    needed = schema.get("required", ())
    return {
        name: sample(random, inner, depth + 1)
        for name, inner in schema["properties"].items()
        if depth < MAX_DEPTH
        and random.random() < (0.95 if name in needed else 0.5 if depth < 3 else 0.25)
    }


def spoil(random: Random, value: Any) -> Any:
    """A copy with nonsense in one place."""
    result = copy.deepcopy(value)
    where, key = _place(random, result)
    if where is None:
        return nonsense(random)
    if isinstance(where, dict) and random.random() < 0.2:
        where[random.choice(TEXTS)] = nonsense(random)
    elif isinstance(where, list) and random.random() < 0.2:
        where.extend([where[key]] * random.choice([1, 20, 300]))
    else:
        where[key] = nonsense(random)
    return result


def _place(random: Random, value: Any) -> tuple[Any, Any]:
    where, key = None, None
    while isinstance(value, dict | list) and value:
        where = value
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if random.random() < 0.25:
            break
        value = where[key]
    return where, key


def nonsense(random: Random) -> Any:
    """Anything."""
    kind = random.randrange(6)
    if kind == 0:
        return random.choice(TEXTS)
    if kind == 1:
        return random.choice(NUMBERS)
    if kind == 2:
        return "z" * random.choice([1000, 70_000])
    if kind == 3:
        return nested(random.choice([5, 60, 400]), as_list=random.random() < 0.5)
    return copy.deepcopy(random.choice(ODDITIES))


def nested(depth: int, *, as_list: bool) -> Any:
    """Something in something in something."""
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if as_list else {"a": value}
    return value


def encoded(random: Random, value: Any) -> bytes:
    """JSON of a value, now and then broken as bytes can be."""
    text = json.dumps(value)
    match random.randrange(40):
        case 0:
            return text[: random.randrange(len(text) + 1)].encode()
        case 1:
            return text.encode() + random.choice([b"}", b" x", b"\x00", b"\xff\xfe", b"\n{}"])
        case 2:
            return text.replace(":", ":NaN,", 1).encode()
        case 3:
            return text.replace("{", '{"metadata":{"name":"b"},', 1).encode()
        case 4:
            return text.encode("utf-16")
        case 5:
            return text.replace('"', "'").encode()
        case 6:
            return text.replace('"a"', '"\\ud800"').encode()
        case 7:
            return random.choice([b"", b" ", b"null", b"[]", b"1", b'"x"', b"\xff", b"k8s\x00\x0a"])
    return text.encode()
