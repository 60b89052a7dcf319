"""Builds the kind that a CustomResourceDefinition defines."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from multiqueue.embedded.server.ages import age
from multiqueue.embedded.server.kinds import Cell, Kind, KindVersion, PrinterColumn, Scale
from multiqueue.lib.jsonpath import JsonPathError, compile_path

Convert = Callable[[Any, datetime], Any]
"""From a value and the time of the request to what a cell shows."""


def kind_from_crd(crd: Mapping[str, Any]) -> Kind:
    """The kind of a valid CustomResourceDefinition; accepted names win over those of the spec."""
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    return Kind(
        group=spec["group"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        list_kind=names.get("listKind") or names["kind"] + "List",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        versions=tuple(_version(orjson.dumps(version)) for version in spec["versions"]),
        has_generation=True,
        builtin=False,
        put_needs_revision=True,
    )


@lru_cache(maxsize=64)
def _version(raw: bytes) -> KindVersion:
    """The same for the same definition: what was compiled for it serves each server of a process,
    and outlasts changes of a definition's status.
    """
    version = orjson.loads(raw)
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return KindVersion(
        name=version["name"],
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
        deprecated=bool(version.get("deprecated")),
        deprecation_warning=version.get("deprecationWarning") or "",
        schema=schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        columns=tuple(
            printer_column(column) for column in version.get("additionalPrinterColumns") or ()
        ),
        selectable_fields=dict(map(_selectable, version.get("selectableFields") or ())),
        has_status=subresources.get("status") is not None,
        scale=Scale(
            spec_replicas_path=scale["specReplicasPath"],
            status_replicas_path=scale["statusReplicasPath"],
            label_selector_path=scale.get("labelSelectorPath") or "",
        )
        if scale
        else None,
    )


def printer_column(column: Mapping[str, Any]) -> PrinterColumn:
    """A column of ``additionalPrinterColumns``."""
    type_ = column.get("type") or "string"
    return PrinterColumn(
        name=column["name"],
        type=type_,
        format=column.get("format") or "",
        description=column.get("description") or "",
        priority=column.get("priority") or 0,
        cell=_cell(column["jsonPath"], _CONVERSIONS.get(type_, _text)),
    )


def _cell(json_path: str, convert: Convert) -> Cell:
    try:
        find = compile_path(json_path)
    except JsonPathError:
        return lambda _obj, _now: None

    def cell(obj: Mapping[str, Any], now: datetime) -> Any:
        found = find(obj)
        return convert(found[0], now) if found and found[0] is not None else None

    return cell


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


_CONVERSIONS: Mapping[str, Convert] = {
    "string": _text,
    "integer": _whole,
    "number": _number,
    "boolean": _boolean,
    "date": age,
}


def _selectable(field: Mapping[str, Any]) -> tuple[str, Callable[[Mapping[str, Any]], str]]:
    """Label and reader of a selectable field; missing values read as empty, booleans as in JSON."""
    find = compile_path(field["jsonPath"])

    def read(obj: Mapping[str, Any]) -> str:
        found = find(obj)
        value = found[0] if found else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return field["jsonPath"].removeprefix("."), read
