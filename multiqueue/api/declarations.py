"""Reads declarations about jobs and clusters in annotations. Pure.

A value that cannot be read counts as absent; code that shows it to people reports the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple, TypeVar

from multiqueue.api.durations import parse_duration
from multiqueue.api.names import (
    CHECKPOINT_HOOK,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_ON,
    CHECKPOINT_SECONDS,
    DATA,
    NON_PREEMPTIBLE,
    NOTIFY,
    PRICES,
    RESTART,
    RUNTIME,
    SPEEDS,
)
from multiqueue.api.notify_reasons import parse_notify
from multiqueue.lib.digits import is_number

T = TypeVar("T")
ON_TERM, ON_NOTICE = "Term", "Notice"
"""When a job saves its work: its pods are told to stop, or it is told before that."""
MOST = Decimal(1_000_000)
"""Upper bound of speeds and prices; a larger number is in a wrong unit."""

_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOOK = re.compile(rf"({_LABEL}:{_LABEL})((?:/[A-Za-z0-9._~-]*)*)")
MAX_HOOK = 253


class CheckpointHook(NamedTuple):
    """Where a notice is posted to: name and port of a Service, and a path that begins with /."""

    service: str
    path: str


@lru_cache(maxsize=4096)
def parse_runtime(text: str) -> timedelta:
    """Read the runtime of a job, as ``90m``.

    Raises:
        ValueError: the text is not a positive duration.
    """
    found = parse_duration(text.strip())
    if found <= timedelta():
        raise ValueError(f'"{text}" is not longer than nothing; write a duration such as "90m"')
    return found


@lru_cache(maxsize=4096)
def parse_speeds(text: str) -> Mapping[str, int]:
    """Read speeds by hardware, as ``a100=1,h100=2.2``, in thousandths.

    Raises:
        ValueError: the text is not such a list, or a speed is not positive.
    """
    found = _parse_amounts(text)
    for name, speed in found.items():
        if speed <= 0:
            raise ValueError(f'the speed of "{name}" must be positive')
    return found


@lru_cache(maxsize=1024)
def parse_prices(text: str) -> Mapping[str, int]:
    """Read prices by flavor, as ``a100=1.80,h100=4``, in thousandths.

    Raises:
        ValueError: the text is not such a list.
    """
    return _parse_amounts(text)


def parse_data(text: str) -> frozenset[str]:
    """Read names of data sets, as ``imagenet,laion-5b``."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def parse_save_trigger(text: str) -> str:
    """Read when a job saves its work beside its intervals: `ON_TERM` or `ON_NOTICE`.

    Raises:
        ValueError: the text is neither.
    """
    found = text.strip()
    if found not in {ON_TERM, ON_NOTICE}:
        raise ValueError(f'"{found}" is neither "{ON_TERM}" nor "{ON_NOTICE}"')
    return found


def parse_save_seconds(text: str) -> int:
    """Read how many seconds a job needs to save its work.

    Raises:
        ValueError: the text is no whole number.
    """
    found = text.strip()
    if not is_number(found):
        raise ValueError(f'"{found}" is not a whole number of seconds, such as 90')
    return int(found)


def parse_hook(text: str) -> CheckpointHook:
    """Read ``SERVICE:PORT/PATH``, with the number or the name of the port.

    Raises:
        ValueError: the text is something else, or its path might lead out of the Service.
    """
    found = text.strip()
    match = _HOOK.fullmatch(found) if len(found) <= MAX_HOOK else None
    if match is None or not {".", ".."}.isdisjoint(match[2].split("/")):
        raise ValueError(
            f'"{found[:MAX_HOOK]}" is not SERVICE:PORT/PATH, such as trainer:8080/save; the path '
            'may have letters, digits, "-", ".", "_" and "~"'
        )
    return CheckpointHook(match[1], match[2] or "/")


def parse_flag(text: str) -> bool:
    """Read ``true`` or ``false``.

    Raises:
        ValueError: the text is neither.
    """
    found = text.strip()
    if found not in {"true", "false"}:
        raise ValueError(f'"{found}" is neither "true" nor "false"')
    return found == "true"


def read(annotations: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    """Return the parsed value of an annotation; None if it is absent, empty or malformed."""
    text = annotations.get(name, "")
    if not text.strip():
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def find_malformed(annotations: Mapping[str, str]) -> list[str]:
    """Return a text with name and error for each of our annotations that cannot be read."""
    return [
        f"metadata.annotations[{name}] is malformed and ignored: {problem}"
        for name, problem in list_malformed(annotations)
    ]


def list_malformed(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and error of each of our annotations that cannot be read."""
    parsers: Mapping[str, Callable[[str], object]] = {
        RUNTIME: parse_runtime,
        SPEEDS: parse_speeds,
        PRICES: parse_prices,
        DATA: parse_data,
        CHECKPOINT_HOOK: parse_hook,
        CHECKPOINT_INTERVAL: parse_runtime,
        CHECKPOINT_ON: parse_save_trigger,
        CHECKPOINT_SECONDS: parse_save_seconds,
        NON_PREEMPTIBLE: parse_flag,
        RESTART: parse_runtime,
        NOTIFY: parse_notify,
    }
    for name, parse in parsers.items():
        text = annotations.get(name, "")
        if not text.strip():
            continue
        try:
            parse(text)
        except ValueError as error:
            yield name, str(error)


def _parse_amounts(text: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, sign, amount = (piece.strip() for piece in part.partition("="))
        if not name or not sign:
            raise ValueError(f'"{part.strip()}" is not NAME=NUMBER, such as h100=2.2')
        try:
            value = Decimal(amount)
        except InvalidOperation:
            raise ValueError(f'"{amount}" is not a number, such as h100=2.2') from None
        if not value.is_finite() or not 0 <= value <= MOST:
            raise ValueError(f'"{amount}" is not between 0 and {MOST}')
        found[name] = round(value * 1000)
    return found
