"""Asks before work stops."""

from __future__ import annotations

import sys

import click

from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.output import echo


def ask_first(words: str, *, yes: bool) -> None:
    """Say what will happen, and ask on a terminal.

    Args:
        words: What will happen, as a sentence.
        yes: Whether the user has agreed already, with ``-y``.

    Raises:
        CliError: The answer is no.
        UsageProblem: Nobody can be asked.
    """
    echo(words, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageProblem("nothing was changed: without a terminal, -y has to be given")
    if not click.confirm("Do you want to proceed?", err=True):
        raise CliError("nothing was changed")
