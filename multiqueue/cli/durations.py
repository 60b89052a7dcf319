"""Durations on the command line: ``90s``, ``10m``, ``1h30m``, or a number of seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from multiqueue.api.durations import parse_duration


class DurationType(click.ParamType[timedelta]):
    """Reads a duration in the form of configurations; a number alone means seconds.

    Args:
        shortest: The shortest valid duration.
    """

    name = "duration"

    def __init__(self, shortest: timedelta = timedelta()) -> None:
        self._shortest = shortest

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the duration; refuse an invalid or too short one."""
        if isinstance(value, timedelta):
            return value
        text = str(value).strip()
        try:
            found = parse_duration(f"{text}s" if _is_number(text) else text)
        except ValueError as error:
            self.fail(f"{error}", param, ctx)
        if found < timedelta():
            self.fail(f'"{text}" is negative; write a time such as 30m', param, ctx)
        if found < self._shortest:
            self.fail(f'"{text}" is less than {self._shortest.total_seconds():g} s', param, ctx)
        return found


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-").replace(".", "", 1)
    return digits.isascii() and digits.isdecimal()


DURATION = DurationType()

since_option = click.option(
    "--since",
    type=DURATION,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How far to go back, such as 30m or 12h.",
)
"""Adds ``--since`` to a list of what happened."""
