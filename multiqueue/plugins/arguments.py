"""Reads what the configuration tells a dispatcher: ``view.arguments``, typed and checked.

What is absent has the default. What is malformed raises `ValueError`, whose text names the argument
and says what to write; the manager shows it on the check of every Workload that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
        raise _wrong(name, value, f"a whole number of at least {least}")
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
        raise _wrong(name, value, f"one of {', '.join(choices)}")
    return str(value)


def read_flag(arguments: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return yes or no.

    Raises:
        ValueError: it is neither.
    """
    value = arguments.get(name, default)
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def read_names(
    arguments: Mapping[str, Any], name: str, choices: Collection[str], default: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return a list of some words.

    Raises:
        ValueError: it is none, or has another word.
    """
    value = arguments.get(name, default)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(name, value, "a list")
    for word in value:
        if word not in choices:
            raise _wrong(name, word, f"one of {', '.join(sorted(choices))}")
    return tuple(value)


def read_weights(
    arguments: Mapping[str, Any], name: str, defaults: Mapping[str, int]
) -> dict[str, int]:
    """Return weights by name: the given ones, and the defaults of those that are not given.

    Raises:
        ValueError: a name is unknown, or a weight is no whole number, or negative.
    """
    value = arguments.get(name, {})
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "names with weights")
    for word, weight in value.items():
        if word not in defaults:
            raise _wrong(name, word, f"one of {', '.join(sorted(defaults))}")
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
            raise _wrong(f"{name}.{word}", weight, "a whole number of at least 0")
    return {**defaults, **value}


def find_problems(
    arguments: Mapping[str, Any], readers: Mapping[str, Callable[[Mapping[str, Any]], object]]
) -> tuple[str, ...]:
    """Return what is wrong with arguments, all of it: for ``check_arguments``.

    Args:
        arguments: As they were given.
        readers: What reads each argument that there is, by its name.
    """
    known = ", ".join(readers) or "none"
    problems = [
        f"argument {name}: is unknown; there are: {known}" for name in arguments.keys() - readers
    ]
    for read in readers.values():
        try:
            read(arguments)
        except ValueError as error:
            problems.append(str(error))
    return tuple(sorted(problems))


def _wrong(name: str, value: object, wanted: str) -> ValueError:
    return ValueError(f"argument {name}: {value!r} must be {wanted}")
