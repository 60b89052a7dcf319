"""Messages of Kubernetes' built-in kinds to the JSON that Go would make of them.

``fields.json`` (made by ``tools/generate_protobuf_fields.py``) has for each type its field numbers,
each with the JSON name and a type expression: ``core.Container``, ``[]string``, ``{}quantity``.
``*`` marks scalars that can be absent; the others are always sent and mean nothing when they are
empty, so they are left out. ``...`` instead of a name: the fields of the message stand in the JSON
object itself. Unknown numbers are skipped: a newer client knows more.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.protobuf.wire import (
    BYTES,
    VARINT,
    Malformed,
    Value,
    read_fields,
    read_packed,
    signed,
)

INLINE = "..."
DELETE_OPTIONS = "DeleteOptions"
"""The one kind that every group has."""
_TABLE = Path(__file__).parent / "fields.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALARS = {"string", "boolean", "int32", "int64"}


class UnknownMessageKind(Exception):  # noqa: N818 - an answer, not a failure
    """No table for this kind; ``str()`` says so to the client."""


@dataclass(frozen=True, slots=True)
class Field:
    """How one field number is read."""

    name: str
    type: str
    """The expression without list, map and presence marks."""
    shape: str = ""
    """``[]``, ``{}`` or nothing."""
    optional: bool = False


def decode_message(api_version: str, kind: str, data: bytes) -> JsonObject:
    """The object in a message.

    Raises:
        Malformed: the bytes are no such message.
        UnknownMessageKind: the kind is not in the table.
    """
    obj: JsonObject = {"apiVersion": api_version, "kind": kind}
    fill(obj, type_of(api_version, kind), data)
    return obj


def type_of(api_version: str, kind: str) -> str:
    """The name of a kind's message: ``core.Pod``.

    Raises:
        UnknownMessageKind: the kind is not in the table.
    """
    group, _, version = api_version.rpartition("/")
    if kind == DELETE_OPTIONS:
        return f"meta.{DELETE_OPTIONS}"
    name = f"{_table()['groups'].get(group)}.{kind}"
    if version != "v1" or name not in _table()["types"]:
        raise UnknownMessageKind(f'no protobuf form of "{kind}" of "{api_version}" is known')
    return name


def fill(target: JsonObject, type_name: str, data: bytes) -> None:
    """Add the fields of a message to an object; a message that comes twice is merged.

    Raises:
        Malformed: the bytes are no such message.
    """
    fields = fields_of(type_name)
    for number, wire_type, value in read_fields(data):
        field = fields.get(number)
        if field is None:
            continue
        try:
            _set(target, field, wire_type, value)
        except Malformed as error:
            raise Malformed(f"{field.name}: {error}") from error


def _set(target: JsonObject, field: Field, wire_type: int, value: Value) -> None:
    if field.name == INLINE:
        fill(target, field.type, _bytes(wire_type, value))
    elif field.shape == "[]":
        found = target.setdefault(field.name, [])
        if wire_type == BYTES and field.type in {"int32", "int64", "boolean"}:
            found += [_scalar(field.type, VARINT, each) for each in read_packed(_bytes(2, value))]
        else:
            found.append(_decode(field.type, wire_type, value))
    elif field.shape == "{}":
        key, item = _entry(field.type, _bytes(wire_type, value))
        target.setdefault(field.name, {})[key] = item
    elif field.type not in _SPECIAL and field.type not in _SCALARS:
        fill(target.setdefault(field.name, {}), field.type, _bytes(wire_type, value))
    else:
        decoded = _decode(field.type, wire_type, value)
        if decoded is None or (not decoded and field.type in _SCALARS and not field.optional):
            target.pop(field.name, None)
        else:
            target[field.name] = decoded


def _decode(type_name: str, wire_type: int, value: Value) -> Any:
    if type_name in _SCALARS:
        return _scalar(type_name, wire_type, value)
    data = _bytes(wire_type, value)
    special = _SPECIAL.get(type_name)
    if special is not None:
        return special(data)
    if type_name.startswith("items:"):
        item = type_name.removeprefix("items:")
        return [
            _decode(item, wire, each) for number, wire, each in read_fields(data) if number == 1
        ]
    obj: JsonObject = {}
    fill(obj, type_name, data)
    return obj


def _entry(type_name: str, data: bytes) -> tuple[str, Any]:
    """Key and value of a map's entry; what is missing is empty."""
    key, value = "", _decode(type_name, BYTES, b"")
    for number, wire_type, each in read_fields(data):
        if number == 1:
            key = _text(_bytes(wire_type, each))
        elif number == 2:
            value = _decode(type_name, wire_type, each)
    return key, value


def _scalar(type_name: str, wire_type: int, value: Value) -> Any:
    if type_name == "string":
        return _text(_bytes(wire_type, value))
    if wire_type != VARINT or not isinstance(value, int):
        raise Malformed(f"wrong wireType = {wire_type}")
    if type_name == "boolean":
        return value != 0
    return signed(value, 32 if type_name == "int32" else 64)


def _bytes(wire_type: int, value: Value) -> bytes:
    if wire_type != BYTES or isinstance(value, int):
        raise Malformed(f"wrong wireType = {wire_type}")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Malformed("not UTF-8") from error


def _moment(data: bytes) -> datetime | None:
    """A time in whole seconds and nanoseconds; None for Go's zero time, which is sent empty."""
    if not data:
        return None
    seconds = nanos = 0
    for number, wire_type, value in read_fields(data):
        if number == 1:
            seconds = _scalar("int64", wire_type, value)
        elif number == 2:
            nanos = _scalar("int32", wire_type, value)
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise Malformed("the time is out of range") from error


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _quantity(data: bytes) -> str:
    texts = [_text(_bytes(wire, value)) for number, wire, value in read_fields(data) if number == 1]
    return (texts or [""])[-1] or "0"


def _int_or_string(data: bytes) -> int | str:
    found: dict[int, Any] = {1: 0, 2: 0, 3: ""}
    for number, wire_type, value in read_fields(data):
        if number in found:
            found[number] = _scalar("string" if number == 3 else "int32", wire_type, value)
    if found[1] not in (0, 1):
        raise Malformed("neither a number nor a text")
    result: int | str = found[3] if found[1] else found[2]
    return result


def _raw(data: bytes) -> Any:
    """Open JSON in a message (RawExtension, FieldsV1)."""
    raw = b""
    for number, wire_type, value in read_fields(data):
        if number == 1:
            raw = _bytes(wire_type, value)
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error}") from error


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "bytes": _base64,
    "time": _time,
    "microTime": _micro_time,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "raw": _raw,
}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_TABLE.read_bytes())
    return table


@cache
def fields_of(type_name: str) -> dict[int, Field]:
    """The fields of a message type, by number. Shared: read only."""
    rows: dict[str, str] = _table()["types"][type_name]
    return {int(number): _field(*row.split()) for number, row in rows.items()}


def _field(name: str, expression: str) -> Field:
    shape = expression[:2] if expression[:2] in {"[]", "{}"} else ""
    inner = expression.removeprefix(shape)
    return Field(name, inner.removeprefix("*"), shape, optional=inner.startswith("*"))
