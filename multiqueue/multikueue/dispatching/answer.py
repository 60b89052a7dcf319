"""What a dispatcher answered: read bit by bit, as nothing of it can be believed.

A plugin may return anything, down to texts whose comparison hangs. So an answer is read in the
plugin's own thread, within its budget, into values of exactly the types that `Nomination` says.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination

SOONEST = timedelta(seconds=1)
"""A dispatcher cannot ask to be asked again sooner; the core asks when something changes."""
MAX_TEXT = 1024
"""Characters of a reason or note that are kept; a check's message holds some thirty of them."""


class Failure(StrEnum):
    """Why there is no answer, for metrics."""

    NOT_LOADED = "NotLoaded"
    RAISED = "Raised"
    TIMED_OUT = "TimedOut"
    MALFORMED = "Malformed"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of asking.

    Attributes:
        nomination: The answer; None where there is a problem.
        problem: Why there is none, for the user.
        failure: The same for programs; None where there is an answer.
        retry_at: When to ask again where there is none.
        dispatcher: Who answered, or should have.
        instead_of: Who should have, where the fallback did.
    """

    nomination: Nomination | None = None
    problem: str = ""
    failure: Failure | None = None
    retry_at: datetime | None = None
    dispatcher: str = ""
    instead_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer that was read.

    Attributes:
        nomination: What can be used of it; None: it is malformed.
        malformed: What is wrong with it.
        strangers: Names in it that are no cluster of the view.
    """

    nomination: Nomination | None = None
    malformed: str = ""
    strangers: tuple[str, ...] = ()


class MalformedError(Exception):
    """A part of an answer is not what the types say."""


def read_answer(got: object, view: DispatchView, dispatcher: str) -> Reading:
    """Take from an answer what can be used. Whatever it raises is the plugin's doing."""
    try:
        answer = _read_struct(got, Nomination, "")
    except MalformedError as error:
        return Reading(malformed=str(error))
    known = {cluster.name for cluster in view.clusters}
    strangers = tuple(sorted({name for name in answer.clusters if name not in known}))
    verdicts = [verdict for verdict in answer.verdicts if verdict.cluster in known]
    words = f'is no cluster of this check, but dispatcher "{dispatcher}" named it'
    verdicts += [ClusterVerdict(cluster=s, nominated=False, reason=words) for s in strangers]
    at = answer.ask_again_at
    return Reading(
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


def _read_struct(value: object, type_: Any, path: str) -> Any:
    if not isinstance(value, type_):
        where = f"{path} is" if path else "it is"
        raise MalformedError(f"{where} {_show(value)}, no {type_.__name__}")
    read = {}
    for name, hint, default in _parts(type_):
        part = getattr(value, name, default)
        if part is MISSING:
            raise MalformedError(f"{path or type_.__name__} lacks {name}")
        read[name] = _read(part, hint, f"{path}.{name}" if path else name)
    return type_(**read)


def _read(value: object, hint: Any, path: str) -> Any:
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        return None if value is None else _read(value, hint, path)
    if origin is tuple:
        if not isinstance(value, tuple):
            raise MalformedError(f"{path} is {_show(value)}, no tuple")
        inner = get_args(hint)[0]
        return tuple(
            _read(each, inner, f"{path}[{i}]") for i, each in enumerate(tuple.__iter__(value))
        )
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_struct(value, hint, path)
    return _read_scalar(value, hint, path)


def _read_scalar(value: object, hint: Any, path: str) -> Any:
    """The value as exactly that type: a subclass may bring methods of its own."""
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise MalformedError(f"{path} is {_show(value)}, no {hint.__name__}")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise MalformedError(f"{path} has no time zone")
        return datetime.fromtimestamp(value.timestamp(), UTC)
    if isinstance(value, str):
        text = str.__str__(value)
        return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    if isinstance(value, bool):
        return value
    return int.__int__(value)


def _show(value: object) -> str:
    return f"{value!r:.200}"


@cache
def _parts(type_: Any) -> tuple[tuple[str, Any, Any], ...]:
    """(name, type, default) of each field."""
    hints = get_type_hints(type_)
    return tuple((field.name, hints[field.name], field.default) for field in fields(type_))
