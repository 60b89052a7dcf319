"""docs/reference/commands.md: every command with its arguments and options, from the parser."""

from __future__ import annotations

from collections.abc import Iterator

import click

from multiqueue.cli.main import NOTES, cli
from tools.reference.markdown import Reference, code, page, table

EXIT_CODES = (
    "Code 1 also means that a drain needs an administrator, that workers differ, or that an error "
    "was found; code 2 of `clusters verify`, that the answer is unknown."
)


def build() -> Reference:
    """Return the page."""
    root = click.Context(cli, info_name="multiqueue", **cli.context_settings)
    found = list(_walk(root))
    missing = [each for context in found for each in _undescribed(context)]
    index = table(
        ["command", "what it does"],
        [[_link(context), context.command.get_short_help_str(200)] for context in found[1:]],
    )
    head = (
        "The same texts as `multiqueue COMMAND --help`. Every command has `-h` and `--help`. As a "
        "plugin of kubectl the program is called `kubectl multiqueue`. Commands that show a state "
        "take `-o json|yaml`. Durations are written as `90s`, `10m` or bare seconds."
    )
    sections = [_section(context) for context in found]
    text = page("Commands", "`multiqueue/cli`", head, NOTES, EXIT_CODES, index, *sections)
    return Reference(name="commands.md", text=text, undescribed=tuple(missing))


def _walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from _walk(click.Context(child, info_name=name, parent=context))


def _link(context: click.Context) -> str:
    path = context.command_path
    return f"[`{path}`](#{path.replace(' ', '-')})"


def _section(context: click.Context) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## {context.command_path}", f"```text\n{usage}\n```", _help(command.help or "")]
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [
        [code(names), _words(text)]
        for names, text in filter(None, records)
        if not names.endswith("--help")
    ]
    if rows:
        parts.append(table(["option", "what it does"], rows))
    return "\n\n".join(filter(None, parts))


def _help(text: str) -> str:
    """Return the help of a command; click keeps the lines of paragraphs that begin with ``\\b``."""
    blocks = []
    for block in text.replace("``", "`").split("\n\n"):
        lines = block.strip("\n")
        kept = lines.startswith("\b")
        blocks.append(f"```text\n{lines[1:].strip()}\n```" if kept else _words(lines))
    return "\n\n".join(blocks)


def _words(text: str) -> str:
    """Return a text in which Markdown finds no tags of HTML and no emphasis."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")


def _undescribed(context: click.Context) -> Iterator[str]:
    if not context.command.help:
        yield context.command_path
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and not (parameter.help or parameter.hidden):
            yield f"{context.command_path} {parameter.opts[0]}"
