"""Structural schemas of custom resources: pruning, nulls and defaults in one walk of closures.

Wrong types pass through untouched; :mod:`validate` finds them afterwards.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.schema.typed import Coerce, Findings, compile_typed
from multiqueue.embedded.server.schema.types import schema_of

Schema = Mapping[str, Any]
Walk = Callable[[Any, Findings], Any]


def compile_structural(schema: Schema, *, root: bool = False) -> Walk:
    """A function (value, findings) -> pruned and defaulted copy.

    Args:
        schema: an OpenAPI v3 structural schema.
        root: whether it is that of a whole object, whose apiVersion, kind and metadata are implied.
    """
    walk = _compile(schema, embedded=root)
    return walk if walk is not None else _same


def _same(value: Any, _findings: Findings) -> Any:
    return value


def _compile(schema: Schema, *, embedded: bool = False) -> Walk | None:
    """None: nothing to do below, the value is taken as it is."""
    if "items" in schema:
        return _array(schema)
    if schema.get("type") == "object" or "properties" in schema:
        return _object(
            schema, embedded=embedded or bool(schema.get("x-kubernetes-embedded-resource"))
        )
    return None


def _object(schema: Schema, *, embedded: bool) -> Walk | None:
    properties = dict(schema.get("properties", {}))
    walks: dict[str, tuple[Walk | None, bool]] = {
        name: (_compile(sub), not sub.get("nullable")) for name, sub in properties.items()
    }
    if embedded:
        walks["apiVersion"] = walks["kind"] = (None, True)
        walks["metadata"] = (_metadata(), True)
    defaults = tuple(
        _default(name, sub, walks[name][0]) for name, sub in properties.items() if "default" in sub
    )
    additional = schema.get("additionalProperties")
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
    others: tuple[Walk | None, bool] | None = None
    if isinstance(additional, Mapping):
        others = (_compile(additional), not additional.get("nullable"))
    elif preserves:
        others = (None, False)
        if not walks:
            return None
    return _object_walk(walks, others, defaults)


def _object_walk(
    walks: Mapping[str, tuple[Walk | None, bool]],
    others: tuple[Walk | None, bool] | None,
    defaults: tuple[tuple[str, Callable[[], Any]], ...],
) -> Walk:
    defaulted = frozenset(name for name, _ in defaults)

    def walk(value: Any, findings: Findings) -> Any:
        if value.__class__ is not dict:
            return value
        result = {}
        for name, item in value.items():
            entry = walks.get(name, others)
            if entry is None:
                findings.dropped = True
                continue
            inner, drops_null = entry
            if item is None and drops_null and (name in defaulted or not findings.applied):
                continue  # the default below takes its place, if there is one
            result[name] = item if inner is None else inner(item, findings)
        for name, make in defaults:
            if name not in result:
                result[name] = make()
        return result

    return walk


def _default(name: str, schema: Schema, walk: Walk | None) -> tuple[str, Callable[[], Any]]:
    """Defaults inside a default apply too."""
    value = schema["default"]
    if walk is not None:
        value = walk(copy.deepcopy(value), Findings())
    if value.__class__ in {dict, list}:
        return name, lambda: copy.deepcopy(value)
    return name, lambda: value


def _array(schema: Schema) -> Walk | None:
    inner = _compile(schema["items"])
    keys = _unique_keys(schema)
    if inner is None and keys is None:
        return None

    def walk(value: Any, findings: Findings) -> Any:
        if value.__class__ is not list:
            return value
        items = value if inner is None else [inner(item, findings) for item in value]
        if keys is not None and has_duplicates(items, keys):
            findings.duplicates = True
        return items

    return walk


def _unique_keys(schema: Schema) -> tuple[str, ...] | None:
    """Keys that must be unique together; empty for a set, None for a list that may repeat."""
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return tuple(schema.get("x-kubernetes-list-map-keys", ()))
        case "set":
            return ()
        case _:
            return None


def item_key(item: Any, keys: tuple[str, ...]) -> str:
    """What must be unique in a list of type map or set; a missing key counts as null."""
    if keys and isinstance(item, Mapping):
        return repr([item.get(key) for key in keys])
    return repr(item)


def has_duplicates(items: list[Any], keys: tuple[str, ...]) -> bool:
    """Whether two items have the same key."""
    return len(items) > 1 and len({item_key(item, keys) for item in items}) < len(items)


def _metadata() -> Coerce:
    return compile_typed(schema_of("meta.ObjectMeta"))
