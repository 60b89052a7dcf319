"""Whether an applied configuration fits the schema: undeclared fields, types, repeated items."""

from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.embedded.server.managed import path_elements
from multiqueue.embedded.server.managed.merge_types import (
    UNTYPED,
    KeyMissingError,
    MergeType,
    Shape,
)

_GO: Mapping[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_FITS: Mapping[str, tuple[type, ...]] = {
    "numeric": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "untyped": (str, bool, int, float),
}


def problems(kind: MergeType, value: Any, path: str = "") -> Iterator[str]:
    """What is wrong, in Kubernetes' words, each with its path."""
    if value is None or kind is UNTYPED:
        return
    if kind.shape is Shape.SCALAR:
        if value.__class__ not in _FITS[kind.scalar]:
            yield f"{path}: {_expected(kind.scalar, value)}"
    elif kind.shape is Shape.LIST or (kind.shape is Shape.ANY and value.__class__ is list):
        yield from _list_problems(kind, value, path)
    elif value.__class__ is dict:
        yield from _map_problems(kind, value, path)
    elif kind.shape is Shape.MAP:
        yield f"{path}: expected map, got &{{{_shown(value)}}}"


def _map_problems(kind: MergeType, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, each in value.items():
        child = kind.child(name)
        if child is None:
            yield f"{path}.{name}: field not declared in schema"
        else:
            yield from problems(child, each, f"{path}.{name}")


def _list_problems(kind: MergeType, value: Any, path: str) -> Iterator[str]:
    if value.__class__ is not list:
        yield f"{path}: expected list, got &{{{_shown(value)}}}"
        return
    seen: set[Any] = set()
    for index, item in enumerate(value):
        element = f"[{index}]"
        if kind.merges_items:
            try:
                identity = kind.identity(item)
            except KeyMissingError as error:
                yield f"{path}: element {index}: {error}"
                return
            element = path_elements.show(kind.element(item))
            if identity in seen:
                yield f"{path}: duplicate entries for key {element}"
            seen.add(identity)
        yield from problems(kind.item, item, path + element)


def _expected(scalar: str, value: Any) -> str:
    match scalar:
        case "numeric":
            return f"expected numeric (int or float), got {_GO[value.__class__]}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{_shown(value)}}}"
        case "boolean":
            return f"expected boolean, got &{{{_shown(value)}}}"
        case _:
            return f"expected any scalar, got &{{{_shown(value)}}}"


def _shown(value: Any) -> str:
    """Roughly as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(each)}' for key, each in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_shown, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
