"""Encode JSON objects as Kubernetes' protobuf: the other direction of what the server reads."""

import base64
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from multiqueue.embedded.server.protobuf.messages import INLINE, Field, fields_of, type_of

MAGIC = b"k8s\x00"


def envelope(obj: Mapping[str, Any], *, kind: str = "", api_version: str = "") -> bytes:
    """A body, as Go clients send it."""
    api_version, kind = api_version or obj["apiVersion"], kind or obj["kind"]
    type_meta = text(1, api_version) + text(2, kind)
    raw = message(type_of(api_version, kind), obj)
    return MAGIC + chunk(1, type_meta) + chunk(2, raw) + text(3, "") + text(4, "")


def message(type_name: str, obj: Mapping[str, Any]) -> bytes:
    """A message of a type."""
    return b"".join(_fields(type_name, obj))


def chunk(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    """A text field."""
    return chunk(number, content.encode())


def varint(value: int) -> bytes:
    """A number in groups of seven bits; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(type_name: str, obj: Mapping[str, Any]) -> Iterator[bytes]:
    for number, field in fields_of(type_name).items():
        if field.name == INLINE:
            yield chunk(number, message(field.type, obj))
        elif field.name in obj:
            yield from _field(number, field, obj[field.name])
        elif not field.shape and not field.optional and field.type in _EMPTY:
            yield _value(number, field.type, _EMPTY[field.type])  # Go sends these always


def _field(number: int, field: Field, value: Any) -> Iterator[bytes]:
    if field.shape == "[]":
        for item in value:
            yield _value(number, field.type, item)
    elif field.shape == "{}":
        for key, item in value.items():
            yield chunk(number, text(1, key) + _value(2, field.type, item))
    else:
        yield _value(number, field.type, value)


_EMPTY = {"string": "", "boolean": False, "int32": 0, "int64": 0}


def _value(number: int, type_name: str, value: Any) -> bytes:
    if type_name in {"boolean", "int32", "int64"}:
        return varint(number << 3) + varint(int(value))
    return chunk(number, _content(type_name, value))


def _content(type_name: str, value: Any) -> bytes:
    match type_name:
        case "string":
            return str(value).encode()
        case "bytes":
            return base64.b64decode(value)
        case "quantity":
            return text(1, value)
        case "intOrString" if isinstance(value, str):
            return varint(8) + varint(1) + text(3, value)
        case "intOrString":
            return varint(8) + varint(0) + varint(16) + varint(value) + text(3, "")
        case "time" | "microTime":
            moment = datetime.fromisoformat(value)
            seconds = int(moment.replace(microsecond=0).timestamp())
            return varint(8) + varint(seconds) + varint(16) + varint(moment.microsecond * 1000)
        case "raw":
            return chunk(1, orjson.dumps(value))
    if type_name.startswith("items:"):
        return b"".join(text(1, item) for item in value)
    return message(type_name, value)
