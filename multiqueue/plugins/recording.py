"""Decisions as JSON, for reading and for replay: the view of a dispatcher and its answer.

A recording is a file with one JSON document per line. Values have the types of
`multiqueue.plugins.view` and their field names; values of the Kubernetes API are written as the API
writes them. Times are in RFC 3339, durations in seconds. A missing field has its default, so newer
programs can read old recordings.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
import orjson

from multiqueue.plugins.nomination import Nomination
from multiqueue.plugins.view import DispatchView

T = TypeVar("T")
_SPACES = frozenset({Union, types.UnionType})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One question to a dispatcher, and its answer.

    Attributes:
        dispatcher: Name of the dispatcher that was asked.
        profile: The DispatchProfile that named it; empty if none did.
        view: The view that the dispatcher received.
        nomination: The dispatcher's answer; None if there is a problem.
        problem: Why there is no answer.
    """

    dispatcher: str
    profile: str = ""
    view: DispatchView
    nomination: Nomination | None = None
    problem: str = ""


def dump(value: object) -> Any:
    """Return a value of the plugin API as JSON types; fields at their default are omitted."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: dump(each)
            for field in fields(value)
            if not _is_default(field, each := getattr(value, field.name))
        }
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            return [[dump(key), dump(each)] for key, each in value.items()]
        return {key: dump(each) for key, each in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(dump(each) for each in value)
    if isinstance(value, tuple | list):
        return [dump(each) for each in value]
    return value


def load(kind: type[T], data: Any) -> T:
    """Return a value of the plugin API from JSON types.

    Raises:
        ValueError: The data is malformed; the text names the field.
    """
    return cast("T", _load(kind, data, kind.__name__))


def write_recording(decisions: Iterable[Decision]) -> Iterator[bytes]:
    """Yield the lines of a recording."""
    for decision in decisions:
        yield orjson.dumps(dump(decision)) + b"\n"


def read_recording(lines: Iterable[bytes | str]) -> Iterator[Decision]:
    """Yield the decisions of a recording; empty lines are skipped.

    Raises:
        ValueError: A line is malformed; the text has its number and the field.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield load(Decision, orjson.loads(line))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def _load(kind: Any, data: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return data
    if origin in _SPACES:
        inner = [each for each in get_args(kind) if each is not types.NoneType]
        return None if data is None else _load(inner[0], data, where)
    if origin is not None:
        return _load_collection(origin, get_args(kind), data, where)
    if is_dataclass(kind):
        return _load_object(cast("type", kind), data, where)
    make = _maker_of(kind)
    if make is not None:
        return _call(make, data, where)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ValueError(f"{where}: {data!r:.80} must be of type {kind.__name__}")
    return data


def _maker_of(kind: type) -> Callable[[Any], Any] | None:
    """Return the function that makes a value of a type that JSON lacks; None if JSON has it."""
    if issubclass(kind, msgspec.Struct):
        return lambda given: msgspec.convert(given, kind)
    if issubclass(kind, Enum):
        return kind
    if kind is datetime:
        return datetime.fromisoformat
    if kind is timedelta:
        return lambda seconds: timedelta(seconds=seconds)
    return None


def _load_object(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: {data!r:.80} must be an object")  # noqa: TRY004 - as the rest
    known = _types_of(kind)
    for name in data.keys() - known.keys():
        raise ValueError(f"{where}.{name}: is unknown")
    values = {name: _load(known[name], each, f"{where}.{name}") for name, each in data.items()}
    for field in fields(kind):
        if field.name not in values and _has_no_default(field):
            raise ValueError(f"{where}.{field.name}: is missing")
    return kind(**values)


def _load_collection(origin: Any, args: tuple[Any, ...], data: Any, where: str) -> Any:
    if issubclass(origin, Mapping):
        pairs = data.items() if isinstance(data, dict) else _list(data, where)
        return {
            _load(args[0], key, where): _load(args[1], each, f"{where}[{key}]")
            for key, each in pairs
        }
    items = _list(data, where)
    if issubclass(origin, tuple) and args[-1:] != (...,):
        if len(items) != len(args):
            raise ValueError(f"{where}: {data!r:.80} must have {len(args)} parts")
        return tuple(_load(each, item, where) for each, item in zip(args, items, strict=True))
    made = (_load(args[0], item, f"{where}[{index}]") for index, item in enumerate(items))
    return frozenset(made) if issubclass(origin, frozenset) else tuple(made)


def _list(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(f"{where}: {data!r:.80} must be a list")  # noqa: TRY004 - as the rest
    return data


def _call(make: Callable[[Any], Any], data: Any, where: str) -> Any:
    try:
        return make(data)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {data!r:.80}: {error}") from error


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _has_no_default(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    return field.default_factory is not MISSING and value == field.default_factory()
