"""Read and check a dispatcher's arguments from the configuration (``view.arguments``).

A missing argument gets its default. A malformed one raises `ValueError`. The text of the error
names the argument and says what to write; the manager shows it on the check of every waiting
Workload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from multiqueue.api.durations import parse_duration


def read_count(arguments: Mapping[str, Any], name: str, default: int, *, least: int = 1) -> int:
    """Return an argument that is a whole number.

    Raises:
        ValueError: The argument is not a whole number, or is too small.
    """
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _wrong(name, value, f"a whole number of at least {least}")
    return value


def read_duration(arguments: Mapping[str, Any], name: str, default: timedelta) -> timedelta:
    """Return an argument that is a duration, in the configuration's format: ``90s``, ``5m``.

    Raises:
        ValueError: The argument is not a duration, or is not positive.
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
    """Return an argument that must be one of the given words.

    Raises:
        ValueError: The argument is another word.
    """
    value = arguments.get(name, default)
    if value not in choices:
        raise _wrong(name, value, f"one of {', '.join(choices)}")
    return str(value)


def read_flag(arguments: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return an argument that is true or false.

    Raises:
        ValueError: The argument is neither.
    """
    value = arguments.get(name, default)
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def read_names(
    arguments: Mapping[str, Any], name: str, choices: Collection[str], default: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return an argument that is a list of some of the given words.

    Raises:
        ValueError: The argument is not a list, or contains another word.
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
    """Return an argument that maps names to weights; missing names get their default weight.

    Raises:
        ValueError: A name is unknown, or a weight is not a whole number or is negative.
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
    """Return all problems of the given arguments, for use in ``check_arguments``.

    Args:
        arguments: The arguments from the configuration.
        readers: For each known argument, the function that reads it.
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
