"""A plan for people: unified diffs of the declared fields, like those of ``kubectl diff``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.projection.differences import (
    BY_NAME,
    WHOLE,
    FieldDifference,
    is_same,
    without_identity,
)
from multiqueue.projection.plan import Held, SyncAction, SyncStep, title_of


def diff_lines(worker: str, change: SyncStep | Held) -> Iterator[str]:
    """Yield the lines of one object's diff; only declared fields are shown."""
    title = f"{worker} {title_of(change.obj)}"
    deleted = isinstance(change, SyncStep) and change.action is SyncAction.DELETE
    wanted = {} if deleted else without_identity(change.obj)
    found: Mapping[str, Any] = {}
    if deleted:
        found = _spec_of(change.obj)
    elif change.actual is not None:
        found = narrow(change.actual, wanted)
        for difference in change.differences:
            if difference.wanted is None:
                found = _with_left_over(found, difference)
    lines = difflib.unified_diff(
        _dump(found), _dump(wanted), f"{title} (there)", f"{title} (declared)", lineterm=""
    )
    yield from lines


def narrow(found: Any, wanted: Any, key: str = "") -> Any:
    """Return only the declared fields of an object, in its own notation and without defaults."""
    if is_same(wanted, found, key):
        return wanted
    if isinstance(found, Mapping) and isinstance(wanted, Mapping) and key not in WHOLE:
        return {k: narrow(found[k], v, k) for k, v in wanted.items() if k in found}
    if isinstance(found, list) and isinstance(wanted, list | tuple):
        if key in BY_NAME:
            names = {text(item.get("name")): item for _, item in items(wanted)}
            return [
                narrow(item, names[text(item.get("name"))])
                for _, item in items(found)
                if text(item.get("name")) in names
            ]
        if len(found) == len(wanted):
            return [narrow(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def _with_left_over(found: Mapping[str, Any], difference: FieldDifference) -> Mapping[str, Any]:
    """Add a field that will be removed: at its place if its path is plain, else by its path."""
    first, dot, rest = difference.path.partition(".")
    if not dot or "[" in first:
        return {**found, difference.path: difference.found}
    below = mapping(found, first)
    deeper = FieldDifference(rest, None, difference.found)
    return {**found, first: _with_left_over(below, deeper)}


def _spec_of(obj: Object) -> dict[str, Any]:
    return {k: v for k, v in obj.items() if k not in {"apiVersion", "kind", "metadata", "status"}}


def _dump(value: Mapping[str, Any]) -> list[str]:
    if not value:
        return []
    return yaml.safe_dump(_plain(value), sort_keys=True).splitlines()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
