"""``--log-level`` and ``--log-format`` of the commands that keep running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def log_options(function: F) -> F:
    """Add the options."""
    function = click.option(
        "--log-format",
        type=click.Choice(["auto", "json", "console"]),
        default="auto",
        show_default=True,
        help="auto: for people on a terminal, JSON elsewhere.",
    )(function)
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="Least important messages to log.",
    )(function)


def start_logging(level: str, format_: str) -> None:
    """Set up the logs of the process."""
    from multiqueue.observability.logging import LogFormat, configure_logging

    configure_logging(level=level, format=LogFormat(format_))
