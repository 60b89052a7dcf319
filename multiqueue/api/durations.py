"""Durations as Go writes them: ``90s``, ``1h30m``, ``1.5h``, ``250ms``."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


class Duration(timedelta):
    """A duration of the configuration file. Units: precise to microseconds."""


def parse_duration(text: str) -> Duration:
    """Read a Go duration.

    Raises:
        ValueError: the text is not a duration; the message says what to write.
    """
    body = text.removeprefix("-").removeprefix("+")
    if body == "0":
        return Duration()
    if not body or not re.fullmatch(rf"(?:{_PART.pattern})+", body):
        raise ValueError(
            f'"{text}" is not a duration; write a number with a unit, such as "30s" or "1h30m"'
        )
    nanoseconds = sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(body))
    if nanoseconds > 2**63 - 1:
        raise ValueError(f'"{text}" is longer than the 292 years that a duration can hold')
    microseconds = int(nanoseconds / 1000)
    return Duration(microseconds=-microseconds if text.startswith("-") else microseconds)


def format_duration(value: timedelta) -> str:
    """Format a duration as Go does: ``1m30s``, ``15m0s``, ``250ms``."""
    micros = value // timedelta(microseconds=1)
    if micros == 0:
        return "0s"
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros < 1_000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1_000)}ms"
    minutes, micros = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h" if hours else ""
    head += f"{minutes}m" if head or minutes else ""
    return f"{sign}{head}{_decimal(micros, 1_000_000)}s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
