"""Reads what the configuration tells a dispatcher: ``view.arguments``, typed and checked.

What is absent has the default. What is malformed raises `ValueError`, whose text names the argument
and says what to write; the manager shows it on the check of every Workload that waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from multiqueue.api.config.durations import parse_duration


def read_count(arguments: Mapping[str, Any], name: str, default: int, *, least: int = 1) -> int:
    """Return a whole number.

    Raises:
        ValueError: it is none, or too small.
    """
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"argument {name}: {value!r} must be a whole number of at least {least}")
    return value


def read_duration(arguments: Mapping[str, Any], name: str, default: timedelta) -> timedelta:
    """Return a duration, written as in the rest of the configuration: ``90s``, ``5m``.

    Raises:
        ValueError: it is none, or not positive.
    """
    value = arguments.get(name)
    if value is None:
        return default
    try:
        duration = parse_duration(str(value))
    except ValueError as error:
        raise ValueError(f"argument {name}: {error}") from error
    if duration <= timedelta():
        raise ValueError(f'argument {name}: "{value}" must be longer than nothing')
    return duration


def read_choice(
    arguments: Mapping[str, Any], name: str, choices: Sequence[str], default: str
) -> str:
    """Return one of some words.

    Raises:
        ValueError: it is another one.
    """
    value = arguments.get(name, default)
    if value not in choices:
        raise ValueError(f"argument {name}: {value!r} must be one of {', '.join(choices)}")
    return str(value)
