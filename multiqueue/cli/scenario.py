"""``multiqueue simulate --scenario``: play a scenario with fixed parameters; print its tables."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from multiqueue.cli.output import echo, print_data, print_table
from multiqueue.simulation.scenarios.figures import (
    RunFigures,
    average,
    group,
    judge,
    play_all,
    to_document,
)
from multiqueue.simulation.scenarios.hundred_gpus import DESCRIPTIONS

HEADERS = (
    "JOBS/H",
    "SYSTEM",
    "WAIT (SEEDS)",
    "P99",
    "INTERACTIVE",
    "8, 16 GPUS P99",
    "LONGEST",
    "DONE/H",
    "IN USE",
    "USEFUL",
    "OVERHEAD",
    "STOPS",
)


def play_scenario(
    seeds: Sequence[int], processes: int | None, csv_file: Path | None, output: str
) -> None:
    """Play ``hundred-gpus``, print what came of it, and write the figures of every run."""
    runs = play_all(seeds, processes=processes, on_done=_show)
    if csv_file is not None:
        _write_csv(runs, csv_file)
    if output != "human":
        print_data(to_document(runs), output)
        return
    print_table(HEADERS, [_row(each) for each in group(runs).values()])
    echo("")
    goals = sorted(judge(runs), key=lambda goal: goal.reached)
    print_table(
        ["GOAL OF cohort+gentle AT 12 JOBS/H", "MEASURED", ""],
        [[goal.words, goal.measured, "reached" if goal.reached else "missed"] for goal in goals],
    )
    echo("")
    for system, words in DESCRIPTIONS.items():
        echo(f"{system}: {words}")
    echo(
        "Waits are minutes and means over seeds; in brackets the best and the worst seed. Waiting "
        "is all time in which a job holds no GPUs, after stops, too."
    )


def _row(runs: Sequence[RunFigures]) -> list[str]:
    waits = [run.wait / 60 for run in runs]

    def minutes(name: str) -> str:
        return f"{average(runs, name) / 60:.1f}"

    def percent(name: str) -> str:
        return f"{100 * average(runs, name):.1f}%"

    return [
        f"{runs[0].rate:g}",
        runs[0].system,
        f"{sum(waits) / len(waits):.1f} ({min(waits):.1f} to {max(waits):.1f})",
        minutes("p99"),
        minutes("interactive_wait"),
        minutes("large_p99"),
        minutes("large_longest"),
        f"{average(runs, 'completed'):.2f}",
        percent("used"),
        percent("useful"),
        percent("overhead"),
        f"{average(runs, 'stops'):.0f}",
    ]


def _write_csv(runs: Sequence[RunFigures], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(asdict(runs[0])))
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def _show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {total} runs\x1b[K", err=True, nl=done == total)
