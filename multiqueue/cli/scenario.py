"""``multiqueue simulate --scenario``: play a scenario with fixed parameters; print its tables."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path

import click

from multiqueue.cli.output import echo, print_data, print_table, write_result
from multiqueue.simulation.goals import GOAL_HEADERS, list_goal_rows
from multiqueue.simulation.scenarios.figures import (
    RunFigures,
    ScenarioOutcome,
    average,
    group,
    judge,
    play_all,
    to_document,
)
from multiqueue.simulation.scenarios.hundred_gpus import DESCRIPTIONS, VARIATIONS, Variation
from multiqueue.simulation.scenarios.page import build_page

WAITS = ("RATE", "SYSTEM", "WAIT (SEEDS)", "P99", "URGENT", "LARGE P99", "LONGEST")
USE = ("RATE", "SYSTEM", "DONE", "IN USE", "USEFUL", "OVERHEAD", "STOPS", "GAVE UP")


def play_scenario(
    seeds: Sequence[int],
    processes: int | None,
    output: str,
    *,
    report: Path | None = None,
    csv_file: Path | None = None,
    variation: Variation = Variation.NONE,
) -> None:
    """Play ``hundred-gpus``, print what came of it, and write the page and the figures of runs.

    Raises:
        UsageProblem: A file cannot be written.
    """
    outcome = play_all(seeds, variation=variation, processes=processes, on_done=_show)
    for path, build in ((report, build_page), (csv_file, _format_csv)):
        if path is not None:
            write_result(path, build(outcome))
    if output != "human":
        print_data(to_document(outcome), output)
        return
    groups = group(outcome.runs).values()
    print_table(WAITS, [_list_waits(each) for each in groups])
    echo("")
    print_table(USE, [_list_use(each) for each in groups])
    echo("\nThe goals of cohort+gentle at 12 jobs in an hour:")
    print_table(GOAL_HEADERS, list_goal_rows(judge(outcome)))
    echo("")
    for system in dict.fromkeys(run.system for run in outcome.runs):
        echo(f"{system}: {DESCRIPTIONS[system]}")
    if variation is not Variation.NONE:
        echo(f"--variation {variation}: {VARIATIONS[variation]}")
    echo(
        "Waits are minutes and means over seeds; in brackets the best and the worst seed. Waiting "
        "is all time in which a job holds no GPUs, after stops, too. URGENT is the mean of "
        "interactive jobs; LARGE P99 and LONGEST are of gangs of 8 GPUs and more. RATE and DONE "
        "are jobs in an hour."
    )


def _list_waits(runs: Sequence[RunFigures]) -> list[str]:
    waits = [run.wait / 60 for run in runs]
    names = ("p99", "interactive_wait", "large_p99", "large_longest")
    return [
        f"{runs[0].rate:g}",
        runs[0].system,
        f"{sum(waits) / len(waits):.1f} ({min(waits):.1f} to {max(waits):.1f})",
        *(f"{average(runs, name) / 60:.1f}" for name in names),
    ]


def _list_use(runs: Sequence[RunFigures]) -> list[str]:
    return [
        f"{runs[0].rate:g}",
        runs[0].system,
        f"{average(runs, 'completed'):.2f}",
        *(f"{100 * average(runs, name):.1f}%" for name in ("used", "useful", "overhead")),
        *(f"{average(runs, name):.0f}" for name in ("stops", "gave_up")),
    ]


def _format_csv(outcome: ScenarioOutcome) -> str:
    """Return a line with the figures of each run; those by size are on the page and in JSON."""
    text = StringIO()
    names = [each.name for each in fields(RunFigures) if each.name != "sizes"]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(run) for run in outcome.runs)
    return text.getvalue()


def _show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {total} runs\x1b[K", err=True, nl=done == total)
