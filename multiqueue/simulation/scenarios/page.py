"""What comes of ``hundred-gpus`` as one self-contained HTML page. Misses come first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from multiqueue.simulation.goals import Goal
from multiqueue.simulation.report.html import build_html, head, section, tile
from multiqueue.simulation.report.table import format_seconds
from multiqueue.simulation.scenarios import charts
from multiqueue.simulation.scenarios.figures import (
    RATES,
    RunFigures,
    ScenarioOutcome,
    average,
    group,
    judge,
)
from multiqueue.simulation.scenarios.hundred_gpus import (
    DAYS,
    DESCRIPTIONS,
    QUEUED,
    VARIATIONS,
    WARM_UP_DAYS,
    System,
    Variation,
    lay_out,
)

TITLE = "A hundred GPUs, fifty people"
COLUMNS = (
    ("wait", "mean wait", format_seconds),
    ("p99", "p99 wait", format_seconds),
    ("interactive_wait", "interactive", format_seconds),
    ("large_longest", "longest from 8 GPUs on", format_seconds),
    ("completed", "done in an hour", lambda value: f"{value:.2f}"),
    ("used", "GPUs in use", lambda value: f"{value:.1%}"),
    ("useful", "useful", lambda value: f"{value:.1%}"),
    ("overhead", "overhead", lambda value: f"{value:.2%}"),
    ("stops", "stops", lambda value: f"{value:.0f}"),
    ("claims", "room kept for", lambda value: f"{value:.0f}"),
    ("gave_up", "gave up", lambda value: f"{value:.0f}"),
)
TILES = frozenset({"wait", "overhead", "stops", "claims"})
SHARING: tuple[System, ...] = tuple(system for system in QUEUED if lay_out(system).has_priorities)
"""The systems that stop jobs. Beside the waits of the others, theirs could not be seen."""


def build_page(outcome: ScenarioOutcome) -> str:
    """Return the page as HTML."""
    runs = outcome.runs
    at = {
        rate: {system: each for (other, system), each in group(runs).items() if other == rate}
        for rate in RATES
    }
    crowded = at[RATES[-1]]
    shared = {system: each for system, each in crowded.items() if system in SHARING}
    goals = judge(outcome)
    seeds = sorted({run.seed for run in runs})
    parts = [
        head(TITLE, _describe(seeds, outcome.variation), list(crowded)),
        _tiles(goals, crowded),
        _goals(goals),
        '<div class="pair">',
        *(
            section(
                f"Every seed at {rate:g} jobs in an hour",
                "A point is the mean wait of a seed, the line is their mean; dashes: the goal.",
                charts.draw_seeds(at[rate]),
            )
            for rate in reversed(RATES)
        ),
        section(
            "Who waits",
            f"Mean wait by size of the gang, at {RATES[-1]:g} jobs in an hour.",
            charts.draw_sizes(crowded, "mean"),
        ),
        section(
            "Who waits longest",
            "The longest wait of a seed by size of the gang, mean over seeds.",
            charts.draw_sizes(crowded, "longest"),
        ),
        section(
            "Where the waiting comes from",
            "What gangs of each size add to the mean wait of all jobs, and the part of it that "
            "comes after stops.",
            charts.draw_parts(shared),
        ),
        section(
            "What stops cost",
            f"In the {DAYS - WARM_UP_DAYS} days of a seed that count.",
            charts.draw_stops(shared),
        ),
        "</div>",
        _figures(runs),
        _foot(),
    ]
    return build_html(TITLE, parts)


def _describe(seeds: Sequence[int], variation: Variation) -> str:
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return (
        f"{DAYS} days of jobs on one cluster of 100 GPUs, {which}: {RATES[0]:g} or {RATES[-1]:g} "
        "jobs in an hour, 12 of which are 85 GPUs of work. Only in the systems that are told does "
        "anybody declare a run time."
        + (f" Here, {VARIATIONS[variation]}." if variation is not Variation.NONE else "")
    )


def _tiles(goals: Sequence[Goal], at: charts.Groups) -> str:
    missed = sum(not goal.reached for goal in goals)
    gentle, cohort = at[System.GENTLE], at[System.COHORT]
    kind = "worse" if missed else "better"
    tiles = [
        tile("goals missed", f'<em class="{kind}">{missed} of {len(goals)}</em>', System.GENTLE),
        *(
            tile(
                words, escape(tell(average(gentle, name))), f"cohort {tell(average(cohort, name))}"
            )
            for name, words, tell in COLUMNS
            if name in TILES
        ),
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _goals(goals: Sequence[Goal]) -> str:
    rows = "".join(
        f'<tr><td class="{"better" if goal.reached else "worse"}">'
        f"{'reached' if goal.reached else 'missed'}</td>"
        f'<th scope="row">{escape(goal.words)}</th><td>{escape(goal.measured)}</td>'
        f"<td>{goal.change:+.1%}</td></tr>"
        for goal in sorted(goals, key=lambda goal: goal.reached)
    )
    return section(
        f"Goals of {System.GENTLE} at {RATES[-1]:g} jobs in an hour",
        "The last column is how far what was measured is above or below the goal.",
        _table(("", "goal", "measured", "beside the goal"), rows),
    )


def _figures(runs: Sequence[RunFigures]) -> str:
    places = {system: place for place, system in enumerate(System)}
    rows = "".join(
        f"<tr><td>{rate:g}</td>"
        f'<th scope="row" class="key c{places[system]}">{escape(system)}</th>'
        + "".join(f"<td>{escape(tell(average(each, name)))}</td>" for name, _, tell in COLUMNS)
        + "</tr>"
        for (rate, system), each in group(runs).items()
    )
    names = ("jobs in an hour", "system", *(words for _, words, _ in COLUMNS))
    return section("All figures", "Means over seeds.", _table(names, rows))


def _table(names: Sequence[str], rows: str) -> str:
    heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in names)
    return (
        f'<div class="scroll"><table class="tight"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _foot() -> str:
    systems = " ".join(f"{system}: {words}." for system, words in DESCRIPTIONS.items())
    return (
        f"<footer>{escape(systems)} The first {WARM_UP_DAYS} days are played and not counted. "
        "Waiting is all time in which a job holds no GPUs, after stops, too. Overhead is lost work "
        "and time to begin again, as a part of the time for which jobs held GPUs. Room is kept for "
        "a job (a claim) if it has waited long and it is known when enough others end.</footer>"
    )
