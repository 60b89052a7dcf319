"""Options that several of kueuectl's commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import click

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import form_option

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_VARIABLE = "KUEUECTL_LIST_REQUEST_LIMIT"
LIMIT = 100


class DryRun(StrEnum):
    """What is done instead of the change; kubectl's words."""

    NONE = "none"
    CLIENT = "client"
    """Nothing is sent."""
    SERVER = "server"
    """The server checks the change, and keeps nothing."""

    @property
    def words(self) -> str:
        """What follows a message; empty if the change is made."""
        return "" if self is DryRun.NONE else f" ({self} dry run)"


def dry_run_option(function: F) -> F:
    """Add ``--dry-run``; the command gets a `DryRun`."""
    return click.option(
        "--dry-run",
        is_flag=False,
        flag_value=str(DryRun.CLIENT),
        default=str(DryRun.NONE),
        type=click.Choice([str(each) for each in DryRun]),
        callback=lambda _context, _option, value: DryRun(value),
        help="client sends nothing; server has the change checked, and keeps nothing. Without a "
        "value it is client.",
    )(function)


def object_option(function: F) -> F:
    """Add ``-o``; the command gets ``output``: a message, or the object in a form."""
    help_ = "Print the object, or its name only, instead of a message."
    return form_option("human", "json", "yaml", "name", help_=help_)(function)


def list_options(function: F) -> F:
    """Add ``-o``, ``-w``, ``-l`` and ``--field-selector``."""
    for add in (
        click.option(
            "-w", "--watch", is_flag=True, help="Go on with each object that changes, until Ctrl-C."
        ),
        form_option("human", "wide", "json", "yaml", "name"),
        click.option(
            "--field-selector",
            metavar="FIELDS",
            default="",
            help="Only objects with these fields, such as metadata.name=a.",
        ),
        click.option(
            "-l",
            "--selector",
            metavar="LABELS",
            default="",
            help="Only objects with these labels, such as team=vision.",
        ),
    ):
        function = add(function)
    return function


def all_namespaces_option(function: F) -> F:
    """Add ``-A``."""
    return click.option("-A", "--all-namespaces", is_flag=True, help="Those of all namespaces.")(
        function
    )


def for_option(*, required: bool = False) -> Callable[[F], F]:
    """Add ``--for``; the command gets ``for_object``."""
    return click.option(
        "--for",
        "for_object",
        metavar="TYPE[.GROUP]/NAME",
        required=required,
        default="",
        help="Only those of this job, such as job/train.",
    )


def request_limit() -> int:
    """Return how many objects one request lists.

    Raises:
        UsageProblem: the environment variable is no number.
    """
    given = os.environ.get(LIMIT_VARIABLE, "")
    if not given:
        return LIMIT
    try:
        return max(0, int(given))
    except ValueError as error:
        raise UsageProblem(
            f'invalid list request limit: {LIMIT_VARIABLE} is "{given}"; set it to a number'
        ) from error
