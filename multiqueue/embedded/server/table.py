"""Builds the Tables that ``kubectl get`` shows."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

from multiqueue.embedded.server.ages import INVALID, age
from multiqueue.embedded.server.kinds import Cell, JsonObject, KindVersion, PrinterColumn

IncludeObject = Literal["None", "Metadata", "Object"]

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
        layout = [_definition(column) for column in columns], [column.cell for column in columns]
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


def _safely(cell: Cell, obj: Mapping[str, Any], now: datetime) -> Any:
    """A cell over data that nobody validated, such as a status, must not break the whole list."""
    try:
        return cell(obj, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return INVALID
