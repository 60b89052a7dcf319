"""Lists: order, sums, extremes and positions."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from multiqueue.lib.cel.functions.function import Function, Overload

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_SUMMABLE = ("int", "uint", "double", "duration")
_ANY = ("list<~A>", "~A")


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        total += item
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise ValueError("integer overflow")
    return _held(total)


def _minimum(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return _held(min(items))


def _maximum(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return _held(max(items))


def _held(value: Any) -> Any:
    """Times come as Python's, and go back as protobuf's."""
    if isinstance(value, datetime):
        timestamp = Timestamp()
        timestamp.FromDatetime(value)
        return timestamp
    if isinstance(value, timedelta):
        duration = Duration()
        duration.FromTimedelta(value)
        return duration
    return value


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if item == wanted), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    found = _index_of(items[::-1], wanted)
    return -1 if found < 0 else len(items) - 1 - found


def _over(name: str, types: tuple[str, ...], result: str, call: Any) -> Function:
    return Function(
        name,
        tuple(
            Overload(
                id=f"list_{type_}_{name}",
                params=(f"list<{type_}>",),
                result=result or type_,
                call=call,
                member=True,
            )
            for type_ in types
        ),
    )


LISTS = (
    _over("isSorted", _ORDERED, "bool", _is_sorted),
    _over("sum", _SUMMABLE, "", _sum),
    _over("min", _ORDERED, "", _minimum),
    _over("max", _ORDERED, "", _maximum),
    Function(
        "indexOf",
        (Overload(id="list_index_of", params=_ANY, result="int", call=_index_of, member=True),),
    ),
    Function(
        "lastIndexOf",
        (Overload(id="list_last", params=_ANY, result="int", call=_last_index_of, member=True),),
    ),
)
