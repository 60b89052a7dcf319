"""Topology wishes in the annotations of a pod template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from multiqueue.api import names
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, forbidden, invalid, required
from multiqueue.api.validation.names import check_qualified_name

_LEVELS = (
    names.PODSET_REQUIRED_TOPOLOGY,
    names.PODSET_PREFERRED_TOPOLOGY,
    names.PODSET_SLICE_REQUIRED_TOPOLOGY,
)
_CHOICE = (
    names.PODSET_REQUIRED_TOPOLOGY,
    names.PODSET_PREFERRED_TOPOLOGY,
    names.PODSET_UNCONSTRAINED_TOPOLOGY,
)
_MAX_LAYERS = 3


def validate_topology_annotations(template: Any, path: str) -> Iterator[FieldError]:
    """Check that there is one wish, and that slices are complete.

    Args:
        template: a PodTemplateSpec.
        path: where it is, such as ``spec.template``.
    """
    annotations = mapping(template, "metadata", "annotations")
    at = f"{path}.metadata.annotations"
    given = [key for key in _CHOICE if key in annotations]
    if len(given) > 1:
        yield invalid(
            at,
            given,
            "must not contain more than one topology annotation: "
            + ", ".join(f'"{key}"' for key in _CHOICE),
        )
    for key in _LEVELS:
        if key in annotations:
            value = str(annotations[key])
            for message in check_qualified_name(value):
                yield invalid(f"{at}[{key}]", value, message)
    unconstrained = annotations.get(names.PODSET_UNCONSTRAINED_TOPOLOGY)
    if unconstrained is not None and unconstrained not in {"true", "false"}:
        key = names.PODSET_UNCONSTRAINED_TOPOLOGY
        yield invalid(f"{at}[{key}]", unconstrained, "must be true or false")
    yield from _slices(annotations, at)
    group = annotations.get(names.PODSET_GROUP_NAME)
    if group is not None and not set(_CHOICE[:2]) & set(annotations):
        yield forbidden(
            f"{at}[{names.PODSET_GROUP_NAME}]",
            "may only be set with a required or preferred topology",
        )


def _slices(annotations: Object, at: str) -> Iterator[FieldError]:
    level_key, size_key = names.PODSET_SLICE_REQUIRED_TOPOLOGY, names.PODSET_SLICE_SIZE
    level, size = annotations.get(level_key), annotations.get(size_key)
    if level is not None and size is None:
        yield required(f"{at}[{size_key}]", f"must be set with {level_key}")
    if size is not None and level is None:
        yield forbidden(f"{at}[{size_key}]", f"may only be set with {level_key}")
    if size is not None and not _is_positive(size):
        yield invalid(f"{at}[{size_key}]", size, "must be a whole number greater than 0")
    constraints = annotations.get(names.PODSET_SLICE_CONSTRAINTS)
    if constraints is None:
        return
    path = f"{at}[{names.PODSET_SLICE_CONSTRAINTS}]"
    if level is not None or size is not None:
        yield forbidden(path, f"not together with {level_key} and {size_key}")
    if not _are_layers(constraints):
        yield invalid(
            path,
            constraints,
            f'must be a JSON list of 1 to {_MAX_LAYERS} {{"topology": LEVEL, "size": PODS}}',
        )


def _is_positive(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and int(value) > 0


def _are_layers(value: Any) -> bool:
    try:
        layers = json.loads(value)
    except (TypeError, ValueError):
        return False
    return (
        isinstance(layers, list)
        and 1 <= len(layers) <= _MAX_LAYERS
        and all(
            isinstance(layer, dict)
            and isinstance(layer.get("topology"), str)
            and isinstance(layer.get("size"), int)
            and layer["size"] > 0
            for layer in layers
        )
    )
