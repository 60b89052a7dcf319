"""What `multiqueue top` draws, and what keys do."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from datetime import UTC, datetime
from typing import Any

import click
import pytest

from multiqueue.cli.keys import pressed_keys, split_keys
from multiqueue.cli.output import format_table
from multiqueue.cli.views.top import (
    DOWN,
    ENTER,
    ERASE,
    ESCAPE,
    UP,
    Facts,
    Quit,
    Run,
    Screen,
    draw,
    own_options,
)

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
TOTALS = {
    "status": {
        "gpus": 12,
        "used": 9,
        "holding": 2,
        "waiting": 12,
        "waitingGpus": 62,
        "oldest": "2026-11-22T09:56:00Z",
        "nextStart": "2026-11-22T10:01:00Z",
    }
}
WORKER = {
    "metadata": {"name": "worker-a100"},
    "status": {
        "used": 8,
        "gpus": 8,
        "connected": True,
        "use": {"state": "InUse", "message": ""},
        "running": 1,
        "waiting": 0,
        "why": "",
        "trouble": "",
    },
}


def job(number: int, worker: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": f"job-{number}-x1", "namespace": "team"},
        "status": {
            "job": f"Job/{number}",
            "clusterQueue": "research",
            "gpus": number,
            "phase": "Running" if worker else "Queued",
            "worker": worker,
            "start": None,
            "created": "2026-11-22T09:59:00Z",
        },
    }


def show(screen: Screen, *jobs: dict[str, Any], width: int = 80, height: int = 24) -> list[str]:
    facts = Facts([TOTALS], [], [WORKER], jobs)
    return draw(
        screen,
        facts,
        NOW,
        lambda headers, rows: format_table(headers, rows, width=width),
        width=width,
        height=height,
    )


def press(screen: Screen, *keys: str) -> Quit | Run | None:
    wish = None
    for key in keys:
        wish = screen.press(key)
    return wish


def reversed_lines(lines: list[str]) -> list[str]:
    return [click.unstyle(line) for line in lines if "\x1b[7m" in line]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (70, 20), (160, 60)])
def test_nothing_wraps_and_the_screen_is_not_left(width: int, height: int) -> None:
    lines = show(Screen(), *map(job, range(100)), width=width, height=height)
    assert len(lines) == height
    assert max(len(click.unstyle(line)) for line in lines) <= width
    assert lines[-1].startswith("q quit")


def test_what_is_selected_stays_selected_and_in_sight() -> None:
    screen = Screen()
    show(screen, *map(job, range(100)))
    press(screen, *["j"] * 60)
    (line,) = reversed_lines(show(screen, *map(job, range(100))))
    assert line.startswith("team/58 ")
    moved = [job(58, "worker-a100"), *map(job, range(58)), *map(job, range(59, 100))]
    (line,) = reversed_lines(show(screen, *moved))
    assert line.startswith("team/58 ")
    assert "worker-a100" in line
    assert reversed_lines(show(screen, job(1))) == [], "it has ended"
    assert press(screen, "w") is None


def test_keys_end_at_the_first_and_the_last_line() -> None:
    screen = Screen()
    show(screen, job(1), job(2))
    press(screen, DOWN, UP, UP)
    assert screen.selected is not None
    assert screen.selected.name == "worker-a100"
    press(screen, *[DOWN] * 9)
    assert screen.selected.name == "job-2-x1"


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        (ENTER, ("why", "job-1-x1", "-n", "team")),
        ("w", ("why", "job-1-x1", "-n", "team")),
        ("l", ("logs", "job-1-x1", "-n", "team")),
        ("e", ("events", "job-1-x1", "-n", "team")),
        ("p", ("pods", "job-1-x1", "-n", "team")),
        ("d", ("cancel", "job-1-x1", "-n", "team")),
        ("c", ("clusters", "cordon", "worker-a100")),
    ],
)
def test_a_key_runs_the_command_that_does_the_same(key: str, arguments: tuple[str, ...]) -> None:
    screen = Screen()
    show(screen, job(1, "worker-a100"))
    assert press(screen, key) is None, "nothing is selected"
    assert press(screen, "j", "j", key) == Run(arguments)


def test_a_worker_is_shown_and_cordoned_and_has_no_log() -> None:
    screen = Screen()
    show(screen, job(1))
    assert press(screen, "j", "w") == Run(("clusters", "show", "worker-a100"))
    assert press(screen, "c") == Run(("clusters", "cordon", "worker-a100"))
    assert press(screen, "d") is None
    assert press(screen, "j", "c") is None, "this job has no worker"


def test_what_is_typed_is_looked_for_and_runs_nothing() -> None:
    screen = Screen()
    show(screen, job(1))
    assert press(screen, "/", "q", "d", ERASE, "x") is None
    assert show(screen)[-1] == "find: qx_"
    assert "search" in screen.parameters
    press(screen, ENTER)
    assert 'Jobs whose name begins with "qx": 0; Esc shows all' in show(screen)
    assert press(screen, "s") is None
    assert screen.parameters["sortBy"] == "priority"
    press(screen, ESCAPE)
    assert "search" not in screen.parameters
    assert press(screen, "q") == Quit()


def test_the_connection_is_given_on_to_other_commands() -> None:
    given = [
        "top",
        "--interval",
        "5",
        "-n",
        "a",
        "--context",
        "prod",
        "--interval=3",
        "-o",
        "human",
    ]
    assert own_options(given) == ["--context", "prod"]


def test_keys_that_a_terminal_sends() -> None:
    sent = "j\x1b[A\x1bOB\r\x7f\x1b[15~\x1bq"
    assert split_keys(sent) == ["j", UP, DOWN, ENTER, ERASE, ESCAPE, "q"]


async def test_keys_are_read_from_a_terminal_and_it_is_as_before_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pressed_keys() as keys:
            os.write(ours, b"jq")
            assert [await keys.get(), await keys.get()] == ["j", "q"]
            assert termios.tcgetattr(theirs) != before
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


async def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:  # noqa: ASYNC230, PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        with pressed_keys() as keys:
            await asyncio.sleep(0)
            assert keys.empty()
