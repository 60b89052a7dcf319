"""Tables: what ``kubectl get`` shows, made by the server."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

import orjson

from multiqueue.embedded.server.ages import INVALID, age
from multiqueue.embedded.server.jsonpath import JsonPathError, compile_path
from multiqueue.embedded.server.kinds import JsonObject, KindVersion, PrinterColumn

IncludeObject = Literal["None", "Metadata", "Object"]
Cell = Callable[[Mapping[str, Any], datetime], Any]

_META_VERSION = "meta.k8s.io/v1"


def render(
    version: KindVersion,
    objects: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    include_object: IncludeObject = "Metadata",
    list_metadata: Mapping[str, Any] | None = None,
    with_columns: bool = True,
) -> JsonObject:
    """A meta.k8s.io/v1 Table of these objects (of ``version``).

    Args:
        version: their version.
        objects: what the rows show.
        now: for ages.
        include_object: the query parameter: what each row carries in ``object``.
        list_metadata: ``metadata`` of the list (resourceVersion, continue, remainingItemCount); if
            None, the resourceVersion of the only object.
        with_columns: False in watch frames after the first.
    """
    columns, cells = _layout(version)
    rows = []
    revision = ""
    for obj in objects:
        revision = obj.get("metadata", {}).get("resourceVersion", "")
        row: JsonObject = {"cells": [_safely(cell, obj, now) for cell in cells]}
        if include_object != "None":
            row["object"] = dict(obj) if include_object == "Object" else partial(obj)
        rows.append(row)
    metadata = dict(list_metadata) if list_metadata is not None else {"resourceVersion": revision}
    return {
        "kind": "Table",
        "apiVersion": _META_VERSION,
        "metadata": metadata,
        "columnDefinitions": columns if with_columns else [],
        "rows": rows,
    }


def partial(obj: Mapping[str, Any]) -> JsonObject:
    """The PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": _META_VERSION,
        "metadata": obj.get("metadata", {}),
    }


NAME = PrinterColumn(
    name="Name",
    format="name",
    description="Name of the object, unique among its kind (in its namespace, if it has one).",
    cell=lambda obj, _now: obj.get("metadata", {}).get("name", ""),
)
AGE = PrinterColumn(
    name="Age",
    description="Time since the object was created.",
    cell=lambda obj, now: age(obj.get("metadata", {}).get("creationTimestamp"), now),
)

_layouts: WeakKeyDictionary[KindVersion, tuple[list[JsonObject], list[Cell]]] = WeakKeyDictionary()


def _layout(version: KindVersion) -> tuple[list[JsonObject], list[Cell]]:
    layout = _layouts.get(version)
    if layout is None:
        columns = version.columns or (AGE,)
        if version.leading_name:
            columns = (NAME, *columns)
        layout = [_definition(column) for column in columns], [_cell(column) for column in columns]
        _layouts[version] = layout
    return layout


def _definition(column: PrinterColumn) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: PrinterColumn) -> Cell:
    if column.cell is not None:
        return column.cell
    try:
        find = compile_path(column.json_path)
    except JsonPathError:
        return lambda _obj, _now: None
    convert = _CONVERSIONS.get(column.type, _text)

    def cell(obj: Mapping[str, Any], now: datetime) -> Any:
        found = find(obj)
        return convert(found[0], now) if found and found[0] is not None else None

    return cell


def _safely(cell: Cell, obj: Mapping[str, Any], now: datetime) -> Any:
    """A cell over data that nobody validated, such as a status, must not break the whole list."""
    try:
        return cell(obj, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return INVALID


def _text(value: Any, _now: datetime) -> Any:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _whole(value: Any, _now: datetime) -> Any:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, _now: datetime) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> Any:
    return value if isinstance(value, bool) else None


_CONVERSIONS: Mapping[str, Callable[[Any, datetime], Any]] = {
    "string": _text,
    "integer": _whole,
    "number": _number,
    "boolean": _boolean,
    "date": age,
}
