"""``multiqueue version``: print the version."""

from __future__ import annotations

import platform

import click

from multiqueue import __version__
from multiqueue.cli.output import output_option, print_data


@click.command("version")
@output_option
def command(output: str) -> None:
    """Print the version."""
    if output == "human":
        click.echo(f"multiqueue {__version__} (Python {platform.python_version()})")
        return
    print_data({"multiqueue": __version__, "python": platform.python_version()}, output)
