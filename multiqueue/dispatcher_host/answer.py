"""Read a dispatcher's answer without trusting any part of it.

A plugin may return anything, even texts whose comparison hangs. So an answer is read in the
plugin's own thread and within its budget, into values of exactly the types of `Nomination`.
`msgspec.convert` cannot do this: it returns a `Nomination` unchanged, even if it contains lists
instead of tuples, subclasses of `str`, or times without a zone.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination

SOONEST = timedelta(seconds=1)
"""The earliest time to be asked again; when something changes, the core asks anyway."""
MAX_TEXT = 1024
"""Maximum length of a reason or note, in characters; a check's message holds about thirty."""
MAX_ITEMS = 4096
"""Most names or verdicts in one answer: many times the workers that a check may have."""
MAX_STRANGERS = 16
"""Most unknown names of one answer that are reported."""
MAX_NUMBER = 2**63 - 1
"""Largest absolute value of a number, such as a score, that other programs can read."""


class Failure(StrEnum):
    """Why there is no answer, for metrics."""

    NOT_LOADED = "NotLoaded"
    """It is not installed, cannot be imported, or its profile or arguments are wrong."""
    RAISED = "Raised"
    """The call raised; the message names the error, the file and the line."""
    TIMED_OUT = "TimedOut"
    """The call took longer than its budget. It is called again after a pause, in a new process."""
    ENDED = "Ended"
    """Its process ended, crashed or ran out of memory. It is called again after a pause."""
    MALFORMED = "Malformed"
    """The answer is no Nomination, or a value in it has the wrong type or is too large."""
    PAUSED = "Paused"
    """It was not called: it hung or ended a short time ago, or others wait for its slow answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of asking a dispatcher.

    Attributes:
        nomination: The answer; None if there is a problem.
        problem: Why there is no answer, for users.
        failure: Why there is no answer, for programs; None if there is one.
        retry_at: When to ask again, if there is no answer.
        dispatcher: Name of the dispatcher that answered, or should have.
        instead_of: Name of the dispatcher that should have answered, if the fallback answered.
    """

    nomination: Nomination | None = None
    problem: str = ""
    failure: Failure | None = None
    retry_at: datetime | None = None
    dispatcher: str = ""
    instead_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReading:
    """An answer after reading.

    Attributes:
        nomination: The usable part of the answer; None if it is malformed.
        malformed: What is wrong with the answer.
        strangers: Names in the answer that are no clusters of the view.
    """

    nomination: Nomination | None = None
    malformed: str = ""
    strangers: tuple[str, ...] = ()


class MalformedError(Exception):
    """A part of an answer does not have the declared type.

    Args:
        words: What is wrong with the part; follows the path.
        path: Path of the part in the answer.
    """

    def __init__(self, words: str, path: str = "") -> None:
        super().__init__(f"{path} {words}" if path else words)
        self._words = words
        self._path = path

    def inside(self, name: str) -> MalformedError:
        """Return the same error with a path that begins one level further out."""
        dot = "." if self._path and not self._path.startswith("[") else ""
        return MalformedError(self._words, f"{name}{dot}{self._path}")


def take(got: object) -> AnswerReading:
    """Read an answer as exactly its types. The plugin is responsible for anything raised."""
    try:
        return AnswerReading(nomination=_reader(Nomination)(got))
    except MalformedError as error:
        return AnswerReading(malformed=str(error))


def hold_against(reading: AnswerReading, view: DispatchView, dispatcher: str) -> AnswerReading:
    """Return the answer without clusters that the view does not know."""
    answer = reading.nomination
    if answer is None:
        return reading
    known = {cluster.name for cluster in view.clusters}
    strangers = tuple(sorted({name for name in answer.clusters if name not in known}))
    strangers = strangers[:MAX_STRANGERS]
    verdicts = [verdict for verdict in answer.verdicts if verdict.cluster in known]
    words = f'is no cluster of this check, but dispatcher "{dispatcher}" named it'
    verdicts += [ClusterVerdict(cluster=s, nominated=False, reason=words) for s in strangers]
    at = answer.ask_again_at
    return AnswerReading(
        nomination=replace(
            answer,
            clusters=_without_repetition(answer.clusters, known),
            verdicts=tuple(verdicts),
            ask_again_at=max(at, view.now + SOONEST) if at is not None else None,
        ),
        strangers=strangers,
    )


def _without_repetition(names: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name in known))


Read = Callable[[Any], Any]
"""Returns the value as exactly its type; the same object if it already has that type."""


@cache
def _reader(hint: Any) -> Read:
    """Return the reader for values of a type; built once, as views have thousands of values."""
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        (inner,) = (each for each in get_args(hint) if each is not type(None))
        read = _reader(inner)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _tuple_reader(_reader(get_args(hint)[0]))
    if is_dataclass(hint):
        return _struct_reader(hint)
    return _SCALARS[hint]


def _tuple_reader(read_item: Read) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, tuple):
            raise _malformed(value, "tuple")
        if (count := tuple.__len__(value)) > MAX_ITEMS:
            raise MalformedError(f"has {count} items, more than {MAX_ITEMS}")
        items: list[Any] = []
        is_same = type(value) is tuple
        for item in tuple.__iter__(value):
            try:
                got = read_item(item)
            except MalformedError as error:
                raise error.inside(f"[{len(items)}]") from None
            is_same = is_same and got is item
            items.append(got)
        return value if is_same else tuple(items)

    return read


def _struct_reader(type_: Any) -> Read:
    hints = get_type_hints(type_)
    parts = [
        (f.name, hint if (hint := hints[f.name]) in {str, int, bool} else None, _reader(hint))
        for f in fields(type_)
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, type_):
            raise _malformed(value, type_.__name__)
        found = {}
        is_same = type(value) is type_
        for name, plain, read_part in parts:
            part = getattr(value, name)
            # Most parts have the right type: checked inline, as calls take twice as long.
            kind = type(part)
            if kind is plain and (
                (kind is str and len(part) <= MAX_TEXT and part.isascii() and part.isprintable())
                or (kind is int and -MAX_NUMBER <= part <= MAX_NUMBER)
                or kind is bool
            ):
                found[name] = part
                continue
            try:
                got = read_part(part)
            except MalformedError as error:
                raise error.inside(name) from None
            is_same = is_same and got is part
            found[name] = got
        return value if is_same else type_(**found)

    return read


def _read_str(value: Any) -> str:
    if not isinstance(value, str):
        raise _malformed(value, "str")
    # Lone surrogates can be neither sent nor stored.
    text = str.__str__(value)[: 2 * MAX_TEXT].encode(errors="replace").decode()
    if not text.isprintable():  # it goes into conditions, Events and logs
        text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _read_bool(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _malformed(value, "bool")


def _read_int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _malformed(value, "int")
    number = int.__int__(value)
    if not -MAX_NUMBER <= number <= MAX_NUMBER:
        raise MalformedError(f"is {number!r:.200}, more than 64 bits hold")
    return number


def _read_time(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise _malformed(value, "datetime")
    if value.tzinfo is None:
        raise MalformedError("has no time zone")
    return datetime.fromtimestamp(value.timestamp(), UTC)


_SCALARS: Mapping[Any, Read] = {
    str: _read_str,
    bool: _read_bool,
    int: _read_int,
    datetime: _read_time,
}
"""Readers return exactly these types, since a subclass may override methods."""


def _malformed(value: object, wanted: str) -> MalformedError:
    words = f"{value!r:.200}"
    if " at 0x" in words:  # an address: the text would differ each time
        words = f"of type {type(value).__name__}"
    hint = "; nominate must be no async function" if isinstance(value, types.CoroutineType) else ""
    return MalformedError(f"is {words}, no {wanted}{hint}")
