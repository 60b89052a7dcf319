"""From JSON to what expressions see: times are times, numbers floats, names escaped."""

import base64
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from multiqueue.embedded.server.cel.declarations import is_embedded, properties_of
from multiqueue.embedded.server.cel.escape import escape
from multiqueue.embedded.server.cel.paths import ITEMS, Mask

Schema = Mapping[str, Any]
Convert = Callable[[Any], Any]

_UNIT_NANOS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")


def compile_values(schema: Schema, mask: Mask, *, is_object_root: bool = False) -> Convert:
    """A function from a valid value to the parts of it that are read.

    Values of the wrong type pass through; the rule fails on them.
    """
    convert = _compile(schema, mask, is_object_root=is_object_root)
    return _same if convert is None else convert


def _same(value: Any) -> Any:
    return value


def _compile(schema: Schema, mask: Mask, *, is_object_root: bool = False) -> Convert | None:
    """None: values are taken as they are."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    is_object_root = is_object_root or is_embedded(schema)
    match "object" if is_object_root else schema.get("type"):
        case "array":
            inner = _compile(schema["items"], None if mask is None else mask.get(ITEMS, {}))
            return None if inner is None else _only(list, _list_of(inner))
        case "object":
            additional = schema.get("additionalProperties")
            if isinstance(additional, Mapping):
                inner = _compile(additional, None if mask is None else mask.get(ITEMS, {}))
                return None if inner is None else _only(dict, _map_of(inner))
            return _object(schema, mask, is_object_root=is_object_root)
        case "string":
            convert = _STRING_FORMATS.get(schema.get("format", ""))
            return None if convert is None or mask == {} else _only(str, convert)
        case "number":
            return _only(int, float)
    return None


def _only(type_: type, convert: Convert) -> Convert:
    return lambda value: convert(value) if value.__class__ is type_ else value


def _list_of(inner: Convert) -> Convert:
    return lambda value: [inner(item) for item in value]


def _map_of(inner: Convert) -> Convert:
    return lambda value: {key: inner(item) for key, item in value.items()}


def _object(schema: Schema, mask: Mask, *, is_object_root: bool) -> Convert | None:
    fields: dict[str, tuple[str, Convert | None]] = {}
    properties = properties_of(schema, is_object_root=is_object_root)
    if mask is not None and ITEMS in mask:
        mask = None
    as_it_is = mask is None and not is_object_root
    as_it_is = as_it_is and not schema.get("x-kubernetes-preserve-unknown-fields")
    for name, sub in properties.items():
        identifier = escape(name)
        if identifier is None or not _is_seen(sub):
            as_it_is = False
            continue
        if mask is not None and identifier not in mask:
            continue
        convert = _compile(sub, None if mask is None else mask[identifier])
        fields[name] = (identifier, convert)
        as_it_is = as_it_is and convert is None and identifier == name
    return None if as_it_is else _fields(tuple((name, *each) for name, each in fields.items()))


def _fields(fields: tuple[tuple[str, str, Convert | None], ...]) -> Convert:
    def convert(value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        result = {}
        for name, identifier, inner in fields:
            if name in value:
                item = value[name]
                result[identifier] = item if inner is None else inner(item)
        return result

    return convert


def _is_seen(schema: Schema) -> bool:
    return bool(schema.get("type") or schema.get("x-kubernetes-int-or-string"))


def _timestamp(text: str) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromJsonString(text if "T" in text else f"{text}T00:00:00Z")
    return timestamp


def _duration(text: str) -> Duration:
    """Go's notation, such as ``1h30m`` or ``-1.5s``."""
    nanos = sum(int(Decimal(number) * _UNIT_NANOS[unit]) for number, unit in _PART.findall(text))
    duration = Duration()
    duration.FromNanoseconds(-nanos if text.startswith("-") else nanos)
    return duration


_STRING_FORMATS: dict[str, Convert] = {
    "byte": base64.b64decode,
    "date": _timestamp,
    "date-time": _timestamp,
    "duration": _duration,
}
