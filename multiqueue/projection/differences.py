"""The differences between an object and its declaration.

Only declared fields count: servers add defaults, and others may own other fields. A field that we
declared once but no longer declare is a difference, too; managedFields list those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api.names import PROJECTED_FROM, PROJECTION_FIELD_MANAGER
from multiqueue.api.validation.access import Object, items, mapping, quantity, text
from multiqueue.api.validation.normalize import without_empty

WHOLE = frozenset({"namespaceSelector", "nodeLabels"})
"""Maps whose meaning changes with one more entry."""
BY_NAME = frozenset({"admissionChecks"})
"""Lists whose entries are identified by name; others may add entries."""
QUANTITIES = frozenset({"nominalQuota", "borrowingLimit", "lendingLimit", "weight"})


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field; ``wanted`` is None if it must go, ``found`` if it is missing."""

    path: str
    wanted: Any
    found: Any


def find_differences(
    desired: Object, actual: Object, *, is_whole: bool = True
) -> tuple[FieldDifference, ...]:
    """Return the differences of an object from its declaration, in the declaration's order.

    The projection label is ignored: another owner's object may be as declared, too.

    Args:
        desired: The declaration.
        actual: The existing object.
        is_whole: Whether the declaration is complete; otherwise some of our fields may be
            declared elsewhere.
    """
    wanted = without_identity(desired)
    labels = {k: v for k, v in mapping(wanted, "metadata", "labels").items() if k != PROJECTED_FROM}
    wanted["metadata"] = {"labels": labels}
    compared = tuple(_compare(wanted, actual, ""))
    return (*compared, *_left_over(desired, actual)) if is_whole else compared


def without_identity(obj: Object) -> dict[str, Any]:
    """Return the object without the fields that identify it."""
    metadata = {k: v for k, v in mapping(obj, "metadata").items() if k == "labels"}
    rest = {k: v for k, v in obj.items() if k not in {"apiVersion", "kind", "metadata"}}
    return {"metadata": metadata, **rest} if metadata else rest


def _compare(wanted: Any, found: Any, path: str) -> Iterator[FieldDifference]:
    key = path.rpartition(".")[2]
    if is_same(wanted, found, key):
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping) and key not in WHOLE:
        for name, value in wanted.items():
            yield from _compare(value, found.get(name), _join(path, name))
    elif isinstance(wanted, Sequence) and isinstance(found, Sequence) and key in BY_NAME:
        by_name = {text(item.get("name")): item for _, item in items(found)}
        for i, item in items(wanted):
            yield from _compare(item, by_name.get(text(item.get("name"))), f"{path}[{i}]")
    elif _is_list(wanted) and _is_list(found) and len(wanted) == len(found):
        for i, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _compare(one, other, f"{path}[{i}]")
    else:
        yield FieldDifference(path, wanted, found)


def is_same(wanted: Any, found: Any, key: str) -> bool:
    """Whether two values mean the same: quantities in any notation, and absent or empty."""
    if key in QUANTITIES and quantity(wanted) is not None:
        return quantity(wanted) == quantity(found)
    pruned = without_empty(wanted), without_empty(found)
    return pruned[0] == pruned[1] or all(value in (None, {}, []) for value in pruned)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _join(path: str, name: str) -> str:
    if path == "metadata.labels":
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


# ------------------------------------------------------------------ managedFields


def _left_over(desired: Object, actual: Object) -> Iterator[FieldDifference]:
    """Yield fields that we applied earlier and that are no longer declared."""
    for _, entry in items(mapping(actual, "metadata").get("managedFields")):
        if (entry.get("manager"), entry.get("operation")) == (PROJECTION_FIELD_MANAGER, "Apply"):
            yield from _undeclared(mapping(entry, "fieldsV1"), desired, actual, "")


def _undeclared(fields: Object, desired: Any, actual: Any, path: str) -> Iterator[FieldDifference]:
    """Walk a set of fields (`FieldsV1`) beside the declaration and the existing object."""
    for key, below in fields.items():
        marker, _, name = key.partition(":")
        if marker == "f":
            place, wanted, found = _join(path, name), _get(desired, name), _get(actual, name)
        elif marker == "k":
            keys = orjson.loads(name)
            place = f"{path}[{','.join(str(value) for value in keys.values())}]"
            wanted, found = _find(desired, keys), _find(actual, keys)
        else:
            continue
        if found is None:
            continue
        if wanted is None:
            yield FieldDifference(place, None, found)
        else:
            yield from _undeclared(mapping(below), wanted, found, place)


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _find(value: Any, keys: Mapping[str, Any]) -> Any:
    return next((item for _, item in items(value) if keys.items() <= item.items()), None)
