"""Keeps the fields that one version lacks in an annotation of the object in that version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from multiqueue.api.names import GROUP

V1BETA1_ONLY = f"{GROUP}/v1beta1-only-fields"
V1BETA2_ONLY = f"{GROUP}/v1beta2-only-fields"

Object = dict[str, Any]


def put(obj: Object, annotation: str, fields: Object) -> None:
    """Write fields to an annotation, if there are any."""
    if not fields:
        return
    metadata = obj.setdefault("metadata", {})
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        annotations = metadata["annotations"] = {}
    annotations[annotation] = json.dumps(fields, sort_keys=True, separators=(",", ":"))


def take(obj: Object, annotation: str) -> Object:
    """Remove the annotation and return its fields; an unreadable one stays and counts as empty."""
    metadata = mapping(obj, "metadata")
    annotations = mapping(metadata, "annotations")
    if annotation not in annotations:
        return {}
    try:
        fields = json.loads(annotations[annotation])
    except (TypeError, ValueError):
        return {}
    if not isinstance(fields, dict):
        return {}
    del annotations[annotation]
    if not annotations:
        del metadata["annotations"]
    return fields


def mapping(parent: Any, *path: str) -> Object:
    """Return the mapping at a path, or a new empty one."""
    for name in path:
        parent = parent.get(name) if isinstance(parent, dict) else None
    return parent if isinstance(parent, dict) else {}


def drop_empty(parent: Object, name: str, kind: type[list[Any] | Object]) -> None:
    """Remove an empty list or mapping, as Go does; a wrong type stays, for validation to find."""
    value = parent.get(name)
    if isinstance(value, kind) and not value:
        del parent[name]


def items(parent: Any, name: str) -> Iterator[Object]:
    """Yield the mappings in a list field; skip anything else."""
    values = parent.get(name) if isinstance(parent, dict) else None
    for item in values if isinstance(values, list) else ():
        if isinstance(item, dict):
            yield item


def rename(parent: Object, old: str, new: str) -> None:
    """Move a field to another name, unless that name is taken."""
    if old in parent and new not in parent:
        parent[new] = parent.pop(old)
