"""Decodes bytes or dicts from the wire into Structs, and encodes Structs as wire dicts.

Go's decoder reads null as the zero value. So do we: nulls are dropped if a strict decode fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import orjson

T = TypeVar("T", bound=msgspec.Struct)


def decode(type_: type[T], data: bytes | bytearray | memoryview | Mapping[str, Any]) -> T:
    """Decode an object; unknown fields are ignored, nulls count as absent.

    Raises:
        msgspec.ValidationError: a field has a wrong type; the message names its path.
    """
    if isinstance(data, Mapping):
        try:
            return msgspec.convert(data, type_)
        except msgspec.ValidationError:
            return msgspec.convert(drop_nulls(data), type_)
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        return msgspec.convert(drop_nulls(orjson.loads(data)), type_)


def encode(obj: msgspec.Struct) -> dict[str, Any]:
    """Return the wire form as plain dicts and lists; defaults are left out."""
    result: dict[str, Any] = orjson.loads(msgspec.json.encode(obj))
    return result


def drop_nulls(value: Any) -> Any:
    """Return the value without null members of mappings, at any depth."""
    if isinstance(value, Mapping):
        return {k: drop_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [drop_nulls(v) for v in value]
    return value
