"""Builds small, deterministic RFC 6902 patches for admission answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Operation = dict[str, Any]


def build_json_patch(before: Any, after: Any) -> list[Operation]:
    """Return operations that turn one value into the other; none if they are equal.

    If the lengths of two lists differ, the whole list is replaced.
    """
    return list(_diff(before, after, ""))


def _diff(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _diff_mappings(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _diff(old, new, f"{path}/{i}")
    elif before != after or type(before) is not type(after):
        yield {"op": "replace", "path": path, "value": after}


def _diff_mappings(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str
) -> Iterator[Operation]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
    for key, value in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{path}/{_escape(key)}", "value": value}
        else:
            yield from _diff(before[key], value, f"{path}/{_escape(key)}")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
