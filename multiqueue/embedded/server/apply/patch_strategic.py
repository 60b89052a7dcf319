"""Strategic merge patch: a merge patch that knows which lists are maps.

Lists with ``x-kubernetes-patch-strategy: merge`` merge by ``x-kubernetes-patch-merge-key`` (of
primitives: as sets); others are replaced.
Directives: ``$patch`` (replace, delete, merge), ``$retainKeys``,
``$deleteFromPrimitiveList/<field>``, ``$setElementOrder/<field>``.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
SET_ORDER = "$setElementOrder/"
STRATEGY = "x-kubernetes-patch-strategy"
MERGE_KEY = "x-kubernetes-patch-merge-key"

Schema = Mapping[str, Any]


def apply_strategic_merge_patch(target: Any, patch: Mapping[str, Any], schema: Schema) -> Any:
    """Return ``target`` changed by ``patch``; untouched parts are shared, nothing is mutated.

    Raises:
        ValueError: a directive or list element is malformed.
    """
    directive = patch.get(PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise ValueError(f"unknown patch type: {directive}")
    merged = dict(target) if isinstance(target, dict) else {}
    _retain_keys(merged, patch)
    for key, value in patch.items():
        if key in {PATCH, RETAIN_KEYS}:
            continue
        if not key.startswith((DELETE_PRIMITIVES, SET_ORDER)):
            _merge_field(merged, key, value, _property(schema, key))
    _delete_primitives(merged, patch)
    _set_order(merged, target, patch, schema)
    return merged


def _delete_primitives(merged: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, values in patch.items():
        name = key.removeprefix(DELETE_PRIMITIVES)
        if name != key and isinstance(merged.get(name), list):
            merged[name] = [each for each in merged[name] if each not in values]


def _set_order(
    merged: dict[str, Any], target: Any, patch: Mapping[str, Any], schema: Schema
) -> None:
    before = target if isinstance(target, dict) else {}
    for key, order in patch.items():
        name = key.removeprefix(SET_ORDER)
        if name != key and isinstance(merged.get(name), list):
            merge_key = _property(schema, name).get(MERGE_KEY)
            merged[name] = _ordered(merged[name], order, before.get(name), merge_key)


def _merge_field(merged: dict[str, Any], key: str, value: Any, schema: Schema) -> None:
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        if _strategy(schema, "replace"):
            merged[key] = {name: each for name, each in value.items() if name != PATCH}
        elif value.get(PATCH) == "delete":
            merged.pop(key, None)
        else:
            merged[key] = apply_strategic_merge_patch(merged.get(key), value, schema)
    elif isinstance(value, list) and _strategy(schema, "merge"):
        merged[key] = _merge_list(merged.get(key), value, schema)
    else:
        merged[key] = value


def _retain_keys(merged: dict[str, Any], patch: Mapping[str, Any]) -> None:
    retained = patch.get(RETAIN_KEYS)
    if retained is not None:
        for key in [key for key in merged if key not in retained]:
            del merged[key]


def _merge_list(target: Any, patch: Sequence[Any], schema: Schema) -> list[Any]:
    current = target if isinstance(target, list) else []
    merge_key = schema.get(MERGE_KEY)
    if merge_key is None:
        both = [*current, *(each for each in patch if each not in current)]
        return _ordered(both, patch, current, None)
    if any(isinstance(each, dict) and each.get(PATCH) == "replace" for each in patch):
        return [each for each in patch if PATCH not in each]
    item_schema = schema.get("items") or {}
    positions: dict[Any, int] = {}
    for index, each in enumerate(current):
        if isinstance(each, dict):
            positions.setdefault(each.get(merge_key), index)  # ports may share their number
    merged: list[Any] = list(current)
    deleted: set[int] = set()
    for element in patch:
        identity = element.get(merge_key) if isinstance(element, dict) else None
        if type(identity) not in {str, int}:
            raise ValueError(f"map: {element!r} does not contain declared merge key: {merge_key}")
        position = positions.get(identity)
        if element.get(PATCH) == "delete":
            if position is not None:
                deleted.add(position)
        elif position is None:
            positions[identity] = len(merged)
            merged.append(apply_strategic_merge_patch({}, element, item_schema))
        else:
            deleted.discard(position)
            merged[position] = apply_strategic_merge_patch(merged[position], element, item_schema)
    kept = [each for index, each in enumerate(merged) if index not in deleted]
    return _ordered(kept, patch, current, merge_key)


def _ordered(
    values: list[Any], order: Sequence[Any], before: Any, merge_key: str | None
) -> list[Any]:
    """Put listed elements into the wanted order. One that is not listed stays before the next
    listed one that it was before, and comes after new ones.
    """

    def identity(value: Any) -> Any:
        return value.get(merge_key) if merge_key and isinstance(value, dict) else value

    rank = {identity(each): index for index, each in enumerate(order)}
    place = {identity(each): index for index, each in enumerate(before or ())}
    listed = [value for value in values if identity(value) in rank]
    others = deque(value for value in values if identity(value) not in rank)
    result: list[Any] = []
    for value in sorted(listed, key=lambda each: rank[identity(each)]):
        end = place.get(identity(value), -1)
        while others and place.get(identity(others[0]), end) < end:
            result.append(others.popleft())
        result.append(value)
    return [*result, *others]


def _property(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or {}).get(name)
    if isinstance(found, Mapping):
        return found
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else {}


def _strategy(schema: Schema, wanted: str) -> bool:
    """Several strategies are joined by commas: ``merge,retainKeys``."""
    return wanted in str(schema.get(STRATEGY, "")).split(",")
