"""Reads and replaces fields of an object by their path. Pure: nothing is changed in place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]
"""Keys and positions in lists, such as ``("spec", "replicatedJobs", 0, "template")``."""


def get_field(obj: Any, path: FieldPath) -> Any:
    """Return the value at a path; None if it or anything above it is absent or of another type."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, list) or step >= len(obj):
                return None
            obj = obj[step]
        else:
            if not isinstance(obj, Mapping):
                return None
            obj = obj.get(step)
    return obj


def set_field(obj: Any, path: FieldPath, value: Any) -> Any:
    """Return the object with another value at a path; missing mappings are added.

    Raises:
        IndexError: a list on the way is shorter than the path says.
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [*obj[:step], set_field(obj[step], rest, value), *obj[step + 1 :]]
    present = obj if isinstance(obj, Mapping) else {}
    return {**present, step: set_field(present.get(step), rest, value)}


def drop_field(obj: Any, path: FieldPath) -> Any:
    """Return the object without the field at a path."""
    parent = get_field(obj, path[:-1])
    if not isinstance(parent, Mapping) or path[-1] not in parent:
        return obj
    rest = {key: value for key, value in parent.items() if key != path[-1]}
    return set_field(obj, path[:-1], rest)


def describe_path(path: FieldPath) -> str:
    """Return a path as error messages write it: ``spec.replicatedJobs[0].template``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step:
            text += f"['{step}']"
        else:
            text += f".{step}" if text else step
    return text


_STEP = re.compile(r"\['([^']+)'\]|([^.\[]+)")


def parse_path(text: str) -> FieldPath:
    """Return the path that a text names: ``spec.template``, ``metadata.labels['a.b/c']``."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(text))
