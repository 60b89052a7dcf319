"""Prints results: aligned columns for people, JSON, YAML or a template of kubectl for programs.

Colours appear on a terminal only (click removes them elsewhere, and `NO_COLOR` is honoured).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from multiqueue.cli.columns import CUT, GAP, fit, len_of
from multiqueue.cli.errors import UsageProblem

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

JSONPATH, COLUMNS = "jsonpath=", "custom-columns="
COLOURS = {
    "running": "green",
    "succeeded": "green",
    "ready": "green",
    "connected": "green",
    "active": "green",
    "admitted": "green",
    "pending": "yellow",
    "queued": "yellow",
    "dispatched": "cyan",
    "checking": "cyan",
    "moving": "magenta",
    "starting": "cyan",
    "cordoned": "yellow",
    "draining": "magenta",
    "waiting": "yellow",
    "stuck": "red",
    "unclear": "red",
    "drained": "green",
    "evicted": "magenta",
    "failed": "red",
    "refused": "red",
    "rejected": "red",
    "disconnected": "red",
    "inactive": "red",
    "deactivated": "red",
}
"""The colour of a state, by its first word in lower case."""


class OutputForm(click.ParamType[str]):
    """Reads ``-o``: a word, or a template as kubectl takes it.

    Args:
        words: The words that the command knows; ``table`` is another word for ``human``.
    """

    name = "form"

    def __init__(self, *words: str) -> None:
        self.words = words

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the forms for the help text."""
        del param, ctx
        return "|".join((*self.words, JSONPATH + "…", COLUMNS + "…"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the form; refuse one that is not known or not understood."""
        form = "human" if value == "table" else str(value)
        if form in self.words:
            return form
        problem = self._find_problem(form)
        if problem:
            raise click.BadParameter(problem, ctx=ctx, param=param)
        return form

    def _find_problem(self, form: str) -> str:
        """Return why a form that is no word is not taken; empty if it is a template."""
        from multiqueue.cli.templates import compile_columns, compile_template
        from multiqueue.lib.jsonpath import JsonPathError

        kind, equals, text = form.partition("=")
        compiler = {JSONPATH: compile_template, COLUMNS: compile_columns}.get(kind + equals)
        if compiler is not None:
            try:
                compiler(text)
            except JsonPathError as error:
                return f"{kind}: {error}"
            return ""
        if kind.startswith(("go-template", "template", "jsonpath", "custom-columns")):
            return (
                f'"{kind}" is not taken here; write {JSONPATH}TEMPLATE, such as '
                "jsonpath='{.items[*].metadata.name}', or custom-columns=NAME:.metadata.name"
            )
        known = ", ".join((*self.words, f"{JSONPATH}TEMPLATE", f"{COLUMNS}TITLE:PATH,..."))
        return f'"{form}" is no form; there are {known}'

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin so."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(each) for each in self.words if each.startswith(incomplete)]


def output_option(function: F) -> F:
    """Add ``-o json|yaml``; the command gets ``output``, which is ``human`` by default."""
    return form_option("human", "json", "yaml")(function)


def wide_output_option(function: F) -> F:
    """Add ``-o wide|json|yaml``; wide shows all columns in full."""
    help_ = "How to print the result; wide shows more, and cuts nothing."
    return form_option("human", "wide", "json", "yaml", help_=help_)(function)


def form_option(*words: str, help_: str = "How to print the result.") -> Callable[[F], F]:
    """Return what adds ``-o`` with these words and templates; the first one is the default."""
    return click.option(
        "-o", "--output", type=OutputForm(*words), default=words[0], show_default=True, help=help_
    )


def print_data(data: Any, output: str) -> None:
    """Print a value as JSON or YAML, or by a template."""
    if output.startswith((JSONPATH, COLUMNS)):
        _print_template(data, output)
        return
    if output == "json":
        import orjson

        click.echo(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
        return
    import yaml

    class Plain(yaml.SafeDumper):
        """Writes a value that occurs twice out twice, not as an anchor and an alias."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    text = yaml.dump(data, Dumper=Plain, sort_keys=False, allow_unicode=True)
    click.echo(text, nl=False)


def _print_template(data: Any, output: str) -> None:
    import orjson

    from multiqueue.cli.templates import compile_columns, compile_template, list_rows

    kind, _, text = output.partition("=")
    data = orjson.loads(orjson.dumps(data))
    if kind == "jsonpath":
        click.echo(compile_template(text)(data), nl=False)
        return
    titles, cells = zip(*compile_columns(text), strict=True)
    print_table(titles, [[cell(each) for cell in cells] for each in list_rows(data)], wide=True)


def write_result(path: Path, text: str) -> None:
    """Write a file that the user asked for.

    Raises:
        UsageProblem: It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f'"{path}" cannot be written: {error.strerror or error}') from error


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], *, wide: bool = False
) -> bool:
    """Print aligned columns that fit the terminal; all in full if ``wide`` is set.

    Returns:
        Whether anything was cut.
    """
    told = format_table(headers, rows, width=None if wide else _terminal_width())
    click.echo(told, color=_wants_colour())
    return told.count(CUT) > sum(str(cell).count(CUT) for row in rows for cell in row)


class RowPrinter:
    """Prints a table row by row; columns become wider as longer cells arrive.

    Args:
        headers: The titles, printed with the first row.
    """

    def __init__(self, headers: Sequence[str]) -> None:
        self._headers = list(headers)
        self._widths = [len(header) for header in headers]
        self._is_first = True

    def print(self, row: Sequence[Any]) -> None:
        """Print one row."""
        cells = [_text(cell) for cell in row]
        self._make_room(cells)
        if self._is_first:
            click.echo(_join(self._headers, self._widths))
            self._is_first = False
        told = [_coloured(self._headers[i], cell) for i, cell in enumerate(cells)]
        click.echo(_join(told, self._widths), color=_wants_colour())

    def print_all(self, rows: Sequence[Sequence[Any]]) -> None:
        """Print several rows; the columns are wide enough for all of them."""
        for row in rows:
            self._make_room([_text(cell) for cell in row])
        for row in rows:
            self.print(row)

    def _make_room(self, cells: Sequence[str]) -> None:
        self._widths = [max(w, len(c)) for w, c in zip(self._widths, cells, strict=True)]


def format_table(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None = None
) -> str:
    """Return aligned columns as text.

    Args:
        headers: The titles.
        rows: The cells; None prints as ``-``.
        width: The longest line: columns leave and cells are cut. None leaves all as it is.
    """
    titles, texts = list(headers), [[_text(cell) for cell in row] for row in rows]
    if width is not None:
        titles, texts = fit(titles, texts, width)
    widths = [
        max(len_of(each) for each in (title, *(row[i] for row in texts)))
        for i, title in enumerate(titles)
    ]
    rows = [[_coloured(titles[i], cell) for i, cell in enumerate(row)] for row in texts]
    return "\n".join(_join(row, widths) for row in [titles, *rows])


def style_state(text: str, state: str = "") -> str:
    """Colour a text by a state, or by the text's first word."""
    colour = COLOURS.get((state or text).split(" ", 1)[0].rstrip(",:").lower())
    return click.style(text, fg=colour) if colour else text


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line; its colours are removed if the output is no terminal."""
    click.echo(text, err=err, color=_wants_colour(err=err))


def _wants_colour(*, err: bool = False) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and "NO_COLOR" not in os.environ


def _terminal_width() -> int | None:
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return None


def _coloured(header: str, cell: str) -> str:
    return style_state(cell) if header in {"STATE", "CONNECTED", "ACTIVE"} else cell


def _text(cell: Any) -> str:
    if cell is None or cell == "":
        return "-"
    return " ".join(str(cell).split())


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (widths[i] - len_of(cell) + GAP) for i, cell in enumerate(cells[:-1])]
    return ("".join(padded) + cells[-1]).rstrip()
