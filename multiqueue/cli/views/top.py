"""The live screen of ``multiqueue top``: what it shows, and what keys do. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import click

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.cli.views import fleet
from multiqueue.lib.words import words
from multiqueue.views.ages import format_age
from multiqueue.views.phase import ENDED
from multiqueue.views.start import say_start_shortly

Json = dict[str, Any]
JOB_HEADERS = words("JOB QUEUE GPUS PHASE WORKER START AGE")
ORDERS = ("created", "priority", "gpus", "phase", "clusterQueue", "worker")
"""How jobs may be sorted; the manager does it."""
NOT_ENDED = ",".join(f"phase!={state}" for state in sorted(ENDED))
MOST_JOBS = 200
HEAD = 2
"""Lines of a table above its rows."""
UP, DOWN, ENTER, ESCAPE, ERASE = "up", "down", "enter", "escape", "erase"
HELP = "q quit  j k select  w why  l logs  e events  p pods  d cancel  c cordon  / find  s sort"
_ON_JOB = {
    ENTER: ("why",),
    "w": ("why",),
    "l": ("logs",),
    "e": ("events",),
    "p": ("pods",),
    "d": ("cancel",),
}
"""The command of each key; what stops work asks first by itself."""


_OWN = ("--interval", "-o", "--output", "-n", "--namespace")
"""Options with a value that are not for the connection."""


class Row(NamedTuple):
    """A line that can be selected: a worker, or a Workload with its namespace."""

    name: str
    namespace: str = ""
    worker: str = ""


class Quit(NamedTuple):
    """The user has seen enough."""


class Run(NamedTuple):
    """A command that the user wants, without options for the connection."""

    arguments: tuple[str, ...]


@dataclass(slots=True)
class Screen:
    """What the user has chosen. Mutable: keys change it.

    Shape: ``rows`` are the lines of the last drawing that can be selected, ``selected`` is one of
    them or None. ``find`` is the beginning of the names that are looked for; ``is_typing`` while it
    is typed.
    """

    rows: Sequence[Row] = ()
    selected: Row | None = None
    order: int = 0
    find: str = ""
    is_typing: bool = False

    def know(self, rows: Sequence[Row]) -> None:
        """Take over what is there now; what is selected stays so while it is there.

        If nothing is, the first job that was found is.
        """
        self.rows = rows
        if self.selected is not None:
            same = (row for row in rows if row[:2] == self.selected[:2])
            self.selected = next(same, None)
        if self.selected is None and self.find and not self.is_typing:
            self.selected = next((row for row in rows if row.namespace), None)

    def press(self, key: str) -> Quit | Run | None:
        """Follow a key; return what there is to do beside drawing anew."""
        if self.is_typing:
            self._type(key)
        elif key in {"j", DOWN}:
            self._move(1)
        elif key in {"k", UP}:
            self._move(-1)
        elif key == "/":
            self.find, self.is_typing = "", True
        elif key == ESCAPE:
            self.find, self.selected = "", None
        elif key == "s":
            self.order = (self.order + 1) % len(ORDERS)
        elif key == "q":
            return Quit()
        else:
            return self._command(key)
        return None

    def _type(self, key: str) -> None:
        if key in {ENTER, ESCAPE}:
            self.is_typing = False
            self.find = self.find if key == ENTER else ""
        elif key == ERASE:
            self.find = self.find[:-1]
        elif len(key) == 1 and key.isprintable():
            self.find += key

    def _move(self, by: int) -> None:
        if self.rows:
            at = 0 if self.selected is None else self.rows.index(self.selected) + by
            self.selected = self.rows[max(0, min(len(self.rows) - 1, at))]

    def _command(self, key: str) -> Run | None:
        row = self.selected
        if row is None:
            return None
        if key == "c" and row.worker:
            return Run(("clusters", "cordon", row.worker))
        if not row.namespace:
            return Run(("clusters", "show", row.name)) if key in {ENTER, "w"} else None
        command = _ON_JOB.get(key)
        return command and Run((*command, row.name, "-n", row.namespace))

    @property
    def parameters(self) -> dict[str, str]:
        """What the manager is asked for the jobs."""
        asked = {"limit": str(MOST_JOBS), "sortBy": ORDERS[self.order], "fieldSelector": NOT_ENDED}
        return {**asked, "search": self.find} if self.find else asked


class Facts(NamedTuple):
    """What the manager told: rows of the fleet API, and what could not be read."""

    totals: Sequence[Json]
    quotas: Sequence[Json]
    workers: Sequence[Json]
    jobs: Sequence[Json]
    problems: Sequence[str] = ()


Format = Callable[[Sequence[str], Sequence[Sequence[Any]]], str]
"""Makes lines of titles and cells, no longer than the terminal is wide."""


def draw(
    screen: Screen, facts: Facts, now: datetime, format_: Format, *, width: int, height: int
) -> list[str]:
    """Return the lines of the screen; the jobs get what the rest leaves, and five lines at least.

    The last line tells of the keys. What is selected is shown reversed, and stays in sight.
    """
    worker_cells = fleet.list_worker_rows(facts.workers)
    workers = [Row(cells[0], worker=cells[0]) for cells in worker_cells]
    jobs = [_row(each) for each in facts.jobs]
    screen.know([*workers, *jobs])
    lines = list(describe(facts.totals, now, width))
    lines += _table(format_, fleet.QUEUE_HEADERS, fleet.list_queue_rows(facts.quotas))
    lines += _mark(_table(format_, fleet.WORKER_HEADERS, worker_cells), workers, screen)
    table = _table(format_, JOB_HEADERS, [_cells(each, now) for each in facts.jobs])
    if screen.find and not screen.is_typing:
        found = f'Jobs whose name begins with "{screen.find}": {len(jobs)}; Esc shows all'
        lines += ["", found[:width]]
    room = max(5, height - len(lines) - len(facts.problems) - 2)
    lines += _around(_mark(table, jobs, screen), jobs, screen, room)
    lines += [f"note: {problem}"[:width] for problem in facts.problems]
    return [*lines, "", _last_line(screen)[:width]]


def describe(totals: Iterable[Json], now: datetime, width: int) -> Iterable[str]:
    """Return the fleet in as many lines as it takes."""
    for each in totals:
        yield from textwrap.wrap(fleet.describe_totals(each, now), width)


def _last_line(screen: Screen) -> str:
    if screen.is_typing:
        return f"find: {screen.find}_"
    return f"{HELP} (by {ORDERS[screen.order]})"


def _table(format_: Format, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return ["", *format_(headers, rows).splitlines()] if rows else []


def _mark(lines: list[str], rows: Sequence[Row], screen: Screen) -> list[str]:
    """Show the selected line of a table reversed."""
    if screen.selected not in rows:
        return lines
    at = HEAD + rows.index(screen.selected)
    marked = click.style(click.unstyle(lines[at]), reverse=True)
    return [*lines[:at], marked, *lines[at + 1 :]]


def _around(lines: list[str], rows: Sequence[Row], screen: Screen, room: int) -> list[str]:
    """Return the head of a table and as many lines as there is room for, with the selected one."""
    most = room - HEAD
    at = rows.index(screen.selected) if screen.selected in rows else 0
    first = max(0, min(at - most // 2, len(rows) - most))
    return lines[:HEAD] + lines[HEAD + first : HEAD + first + most]


def _row(job: Json) -> Row:
    meta, status = job["metadata"], job["status"]
    return Row(meta["name"], meta["namespace"], status["worker"] or "")


def _cells(job: Json, now: datetime) -> list[Any]:
    meta, status = job["metadata"], job["status"]
    return [
        f"{meta['namespace']}/{(status['job'] or meta['name']).rpartition('/')[2]}",
        status["clusterQueue"],
        status["gpus"],
        status["phase"],
        status["worker"],
        say_start_shortly(status["start"], now) if status["start"] else "",
        format_age(parse_time(status["created"]), now),
    ]


def own_options(arguments: Sequence[str]) -> list[str]:
    """Return what was given to ``top`` for the connection, to give it to another command."""
    given = list(arguments[arguments.index("top") + 1 :]) if "top" in arguments else []
    kept: list[str] = []
    while given:
        option = given.pop(0)
        if option in _OWN:
            del given[:1]
        elif option.partition("=")[0] not in _OWN:
            kept.append(option)
    return kept
