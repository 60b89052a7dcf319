"""A click group that has names and help of its commands, and imports only the one to run."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """Imports a command only when it is used.

    Args:
        sections: The line of help of each command, by name, in the order shown; under headings.
        modules: The module of a command, with ``{}`` for its name. Each module has ``command``.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, str]], modules: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._table = {name: line for each in sections.values() for name, line in each.items()}
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        del ctx
        if cmd_name not in self._table:
            return None
        module = cmd_name.replace("-", "_")
        if keyword.iskeyword(module):
            module += "_"
        command: click.Command = importlib.import_module(self._modules.format(module)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables without importing anything, all with the same width of names."""
        del ctx
        width = max(map(len, self._table))
        for heading, table in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; name those that may be meant if there is none."""
        name = args[0]
        if name not in self._table and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            names = get_close_matches(name, self._table)
            if not names and "show" in self._table:
                names = [f"show {name}"]  # the name of what one wants to see
            alike = " or ".join(f"'{each}'" for each in names)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean {alike}?" if alike else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so, without importing anything; and options."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=line)
            for name, line in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


def hand_down(ctx: click.Context) -> bool:
    """Give the options that stand before the name of a subcommand to it.

    Returns:
        Whether there is a subcommand.
    """
    if ctx.invoked_subcommand is None:
        return False
    ctx.default_map = {
        ctx.invoked_subcommand: {
            name: value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
    }
    return True
