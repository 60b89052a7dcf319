"""Conversion between v1beta1 and v1beta2, on dicts as on the wire."""

from __future__ import annotations

from multiqueue.api.conversion.convert import (
    Converter,
    convert,
    convert_in_place,
    converters,
    is_known_kind,
)

__all__ = [
    "Converter",
    "convert",
    "convert_in_place",
    "converters",
    "is_known_kind",
]
