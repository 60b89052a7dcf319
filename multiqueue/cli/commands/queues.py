"""``multiqueue queues``: questions about one queue."""

from __future__ import annotations

import click

from multiqueue.cli.lazy import LazyGroup

SUBCOMMANDS = {"show": "Show a queue in numbers; --diagnose says why its Workloads wait"}
"""Each is in a module of its own, ``queues_NAME``."""


@click.command(
    "queues",
    cls=LazyGroup,
    sections={"Commands": SUBCOMMANDS},
    modules="multiqueue.cli.commands.queues_{}",
)
def command() -> None:
    """Show queues in numbers, and say why their Workloads wait."""
