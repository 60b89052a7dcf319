"""Rules of topology requests in the annotations of a pod template."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api.validation.access import Object, boolean, mapping, text
from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from multiqueue.api.validation.names import check_qualified_name
from multiqueue.lib.digits import is_number

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
_SLICING = (
    names.PODSET_SLICE_REQUIRED_TOPOLOGY,
    names.PODSET_SLICE_SIZE,
    names.PODSET_SLICE_CONSTRAINTS,
)
_MAX_LAYERS = 3
_GROUP_SIZE = 2


def validate_topology_annotations(template: Any, path: str) -> Iterator[FieldError]:
    """Check that there is at most one topology request, and that slices are complete.

    Args:
        template: a PodTemplateSpec.
        path: the template's path, such as ``spec.template``; empty for a pod.
    """
    annotations = mapping(template, "metadata", "annotations")
    at = f"{path}.metadata.annotations".lstrip(".")
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
    if unconstrained is not None and boolean(unconstrained) is None:
        key = names.PODSET_UNCONSTRAINED_TOPOLOGY
        yield invalid(f"{at}[{key}]", unconstrained, "must be a boolean value")
    yield from _slices(annotations, at)
    yield from _group(annotations, at)


def validate_slices_fit(template: Any, path: str, pods: int) -> Iterator[FieldError]:
    """Check that no slice is larger than all pods together.

    Args:
        template: a PodTemplateSpec.
        path: the template's path, such as ``spec.template``.
        pods: the number of pods made from the template.
    """
    annotations = mapping(template, "metadata", "annotations")
    at = f"{path}.metadata.annotations"
    size, layers = annotations.get(names.PODSET_SLICE_SIZE), _layers(annotations)
    detail = f"must not be greater than pod set count {pods}"
    if _is_positive(size) and int(text(size)) > pods:
        yield invalid(f"{at}[{names.PODSET_SLICE_SIZE}]", size, detail)
    if layers and _has_size(layers[0]) and layers[0]["size"] > pods:
        yield invalid(f"{at}[{names.PODSET_SLICE_CONSTRAINTS}]", layers[0]["size"], detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedPodSet:
    """A pod set whose template may name a pod set group.

    Attributes:
        path: The template's path, such as ``spec.template``.
        template: A PodTemplateSpec.
        pods: How many pods are made from the template.
    """

    path: str
    template: Object
    pods: int


def validate_pod_set_groups(pod_sets: Iterable[AnnotatedPodSet]) -> Iterator[FieldError]:
    """Check that a pod set group is a pair that asks for one topology (J-77).

    One pod of the group leads it, so one of its pod sets has a single pod.
    """
    groups: dict[str, list[AnnotatedPodSet]] = defaultdict(list)
    for each in pod_sets:
        name = _annotations_of(each).get(names.PODSET_GROUP_NAME)
        if name is not None:
            groups[text(name)].append(each)
    for name, members in sorted(groups.items()):
        problem = _find_group_problem(members)
        for each in members if problem else ():
            path = f"{each.path}.metadata.annotations[{names.PODSET_GROUP_NAME}]"
            yield invalid(path, name, problem)


def _find_group_problem(members: list[AnnotatedPodSet]) -> str:
    if len(members) != _GROUP_SIZE:
        return f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
    if all(each.pods != 1 for each in members):
        counts = " and ".join(str(each.pods) for each in members)
        return f"one pod set of a group must have exactly 1 pod; these have {counts} pods"
    wanted = [
        {key: _annotations_of(each)[key] for key in _CHOICE[:2] if key in _annotations_of(each)}
        for each in members
    ]
    if wanted[0] != wanted[1]:
        return "both pod sets of a group must have the same required or preferred topology"
    return ""


def _annotations_of(pod_set: AnnotatedPodSet) -> Object:
    return mapping(pod_set.template, "metadata", "annotations")


def _group(annotations: Object, at: str) -> Iterator[FieldError]:
    """Check a pod set group: it has one topology request for all its pods and no slices."""
    group = annotations.get(names.PODSET_GROUP_NAME)
    if group is None:
        return
    path = f"{at}[{names.PODSET_GROUP_NAME}]"
    if str(group).isascii() and str(group).isdecimal():
        yield invalid(path, group, "must not be a number")
    for key in _SLICING:
        if key in annotations:
            yield forbidden(path, f"not together with {key}")
    if not set(_CHOICE[:2]) & set(annotations):
        yield forbidden(path, "may only be set with a required or preferred topology")


def _slices(annotations: Object, at: str) -> Iterator[FieldError]:
    level_key, size_key = names.PODSET_SLICE_REQUIRED_TOPOLOGY, names.PODSET_SLICE_SIZE
    level, size = annotations.get(level_key), annotations.get(size_key)
    if level is not None and size is None:
        yield required(f"{at}[{size_key}]", f"must be set with {level_key}")
    if size is not None and level is None:
        detail = f"may not be set when '{level_key}' is not specified"
        yield forbidden(f"{at}[{size_key}]", detail)
    if size is not None and not _is_positive(size):
        yield invalid(f"{at}[{size_key}]", size, "must be a whole number greater than 0")
    constraints = annotations.get(names.PODSET_SLICE_CONSTRAINTS)
    if constraints is None:
        return
    path = f"{at}[{names.PODSET_SLICE_CONSTRAINTS}]"
    if level is not None or size is not None:
        yield forbidden(path, f"not together with {level_key} and {size_key}")
    layers = _layers(annotations)
    if layers is None:
        yield invalid(
            path,
            constraints,
            f'must be a JSON list of 1 to {_MAX_LAYERS} {{"topology": LEVEL, "size": PODS}}',
        )
    else:
        yield from _check_layers(layers, path)


def _check_layers(layers: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    """Check that levels differ and that each slice divides into equal slices."""
    seen: set[str] = set()
    above: int | None = None
    for i, layer in enumerate(layers):
        level = text(layer.get("topology"))
        for message in check_qualified_name(level):
            yield invalid(f"{path}[{i}].topology", level, message)
        if level in seen:
            yield duplicate(f"{path}[{i}].topology", level)
        seen.add(level)
        if not _has_size(layer):
            yield invalid(f"{path}[{i}].size", layer.get("size"), "must be at least 1")
            above = None
            continue
        if above is not None and above % layer["size"]:
            detail = f"must evenly divide the size of the layer above, {above}"
            yield invalid(f"{path}[{i}].size", layer["size"], detail)
        above = layer["size"]


def _is_positive(value: Any) -> bool:
    return isinstance(value, str) and is_number(value) and int(value) > 0


def _has_size(layer: Object) -> bool:
    size = layer.get("size")
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def _layers(annotations: Object) -> list[dict[str, Any]] | None:
    """Return the layers of slices; None if there are none, or the text is not a list of layers."""
    try:
        layers = json.loads(annotations[names.PODSET_SLICE_CONSTRAINTS])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(layers, list) or not 1 <= len(layers) <= _MAX_LAYERS:
        return None
    return layers if all(isinstance(layer, dict) for layer in layers) else None
