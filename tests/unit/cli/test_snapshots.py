"""What people read of the program, as files: help texts, and tables on two terminals.

`make reference` writes them anew.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from multiqueue.cli.kueuectl import tables
from multiqueue.cli.main import COMMANDS, cli
from multiqueue.cli.output import format_table
from multiqueue.cli.views import cohorts, decisions, flavors, standings, worker
from multiqueue.cli.views.pods import HEADERS as POD_HEADERS
from multiqueue.cli.views.usage import list_table
from multiqueue.simulation.goals import GOAL_HEADERS
from multiqueue.simulation.rivals import TRACE_HEADERS
from tests.unit.cli.sample_cells import CELLS

FOLDER = Path(__file__).parent / "snapshots"
ROOT = Path(__file__).parents[3]
NARROW, BROAD = 80, 160
Titles = Sequence[str]

BUILT: dict[tuple[str, str], list[Titles]] = {
    ("clusters_show", "headers"): [worker.FLAVOR_HEADERS, worker.JOB_HEADERS],
    ("cohorts", "view.HEADERS"): [cohorts.HEADERS],
    ("cohorts", "view.FLOW_HEADERS"): [cohorts.FLOW_HEADERS],
    ("decisions", "view.HEADERS"): [decisions.HEADERS],
    ("flavors", "view.HEADERS"): [flavors.HEADERS],
    ("lists", "headers"): [
        tables.CLUSTER_QUEUE_HEADERS,
        tables.LOCAL_QUEUE_HEADERS,
        tables.RESOURCE_FLAVOR_HEADERS,
        ("NAMESPACE", *tables.WORKLOAD_HEADERS),
    ],
    ("pods", "headers"): [POD_HEADERS],
    ("queues_show", "headers"): [("FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED")],
    ("simulate", "*list_rows(shown)"): [("FIGURE", "ALL-AT-ONCE", "INCREMENTAL")],
    ("simulate", "GOAL_HEADERS"): [GOAL_HEADERS],
    ("simulate", "TRACE_HEADERS"): [TRACE_HEADERS],
    ("usage", "(*(name.upper() for name in by), *titles)"): [("OWNER", *list_table([])[0])],
    ("workloads", "view.HEADERS"): [standings.HEADERS],
}
"""Titles that a command puts together while it runs, by its module and expression."""


def find_tables() -> Iterator[tuple[str, Titles]]:
    """Yield a name and the titles of each table that a command fits to the terminal."""
    for path in sorted((ROOT / "multiqueue" / "cli").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "print_table":
                if any(ast.unparse(each) == "wide=True" for each in call.keywords):
                    continue  # it is not cut
                yield from _titles_of(path, ast.unparse(call.args[0]))


def _titles_of(path: Path, expression: str) -> Iterator[tuple[str, Titles]]:
    known = BUILT.get((path.stem, expression))
    if known is None:
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        try:
            known = [eval(expression, {**vars(module), **_late_names(path)})]
        except NameError as error:
            raise AssertionError(f"{path.name}: say in BUILT what {expression} is") from error
    for each in known:
        told = f"{path.stem.rstrip('_')}-{'-'.join(each[:1] + each[-1:])}-{len(each)}"
        yield told.replace(" ", "-").lower(), each


def _late_names(path: Path) -> dict[str, Titles]:
    """Return the titles that functions import when they run, as HEADERS."""
    names: dict[str, Titles] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and "views" in node.module:
            module = importlib.import_module(node.module)
            names |= {
                each.name: getattr(module, each.name)
                for each in node.names
                if each.name.endswith("HEADERS")
            }
    return names


TABLES = dict(find_tables())


def check(file: Path, text: str) -> None:
    """Compare a text with a file, or write the file."""
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.exists(), "run `make reference`"
    assert file.read_text() == text, "run `make reference`"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_terminals(name: str) -> None:
    titles = TABLES[name]
    rows = [[CELLS[title][i] for title in titles] for i in (0, 1)]
    narrow, broad = (
        click.unstyle(format_table(titles, rows, width=width)) for width in (NARROW, BROAD)
    )
    check(FOLDER / "tables" / f"{name}.txt", f"{narrow}\n\n{broad}\n")
    assert max(map(len, narrow.splitlines())) <= NARROW
    assert max(map(len, broad.splitlines())) <= BROAD
    shown = narrow.splitlines()[0]
    assert shown.startswith(titles[0])
    assert shown.endswith(titles[-1])


def help_of(context: click.Context) -> Iterator[str]:
    """Yield the help of a command, and those of its subcommands."""
    yield context.get_help()
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from help_of(
                click.Context(child, info_name=name, parent=context, terminal_width=NARROW)
            )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_known(name: str) -> None:
    root = click.Context(cli, info_name="multiqueue", **cli.context_settings)
    command = cli.get_command(root, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=root, terminal_width=NARROW)
    texts = list(help_of(context))
    # click keeps the names of the option of whoever asked first.
    told = re.sub(r"(-h, )?--help +Show", "-h, --help  Show", "\n\n".join(texts))
    check(FOLDER / "help" / f"{name}.txt", f"{told}\n")
    lines = (line for text in texts for line in text.splitlines())
    examples = "  multiqueue "
    assert [line for line in lines if len(line) > NARROW and examples not in line] == []


def test_no_snapshot_is_left_of_what_is_gone() -> None:
    want = {f"help/{name}.txt" for name in COMMANDS} | {f"tables/{name}.txt" for name in TABLES}
    assert {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.txt")} == want
