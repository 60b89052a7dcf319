"""The plots of a comparison. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import finish_ratios, mean
from multiqueue.simulation.records import JobRecord, RunRecord
from multiqueue.simulation.report import svg
from multiqueue.simulation.report.table import format_seconds
from multiqueue.simulation.timeline import Steps, build_timeline

WAITS = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21_600, "6 h"))
LONG_WAITS = ((86_400, "1 d"), (345_600, "4 d"))
SHORTEST = 5.0
SMALLEST_PART = 0.1
"""In percent of the jobs; below it, the tail is one job or two."""
APART = 0.8
"""Smallest distance in pixels between two points of a line that are both drawn."""
SIZES = ((1, 1, "1"), (2, 4, "2 to 4"), (5, 8, "5 to 8"), (9, 16, "9 to 16"), (17, 9999, "more"))
SLICES = 160


def draw_waits(comparison: Comparison) -> str:
    """Plot the share of jobs that waited longer than a time, with one line per dispatcher."""
    frame = svg.Frame()
    pooled = {
        label: sorted(max(SHORTEST, job.waited) for run in runs for job in run.jobs)
        for label, runs in comparison.runs.items()
    }
    longest = max(60.0, *(waits[-1] for waits in pooled.values()))
    across = frame.x_scale(math.log(SHORTEST), math.log(longest))
    up = frame.y_scale(math.log10(SMALLEST_PART), 2)
    ticks = [(math.log(at), words) for at, words in (*WAITS, *LONG_WAITS) if at <= longest]
    lines = []
    for place, (label, waits) in enumerate(pooled.items()):
        points = [(across(math.log(SHORTEST)), up(2))]
        for number, wait in enumerate(waits):
            part = max(SMALLEST_PART, 100 * (len(waits) - number - 1) / len(waits))
            points.append((across(math.log(wait)), up(math.log10(part))))
        lines.append(svg.line(_thin(points), place, label))
    parts = [(2.0, "100 %"), (1.0, "10 %"), (0.0, "1 %"), (-1.0, "0.1 %")]
    return svg.canvas(
        frame,
        "Part of the jobs that waited longer than a time",
        svg.upright(frame, parts, up),
        svg.across(frame, ticks, across, "waited longer than"),
        *lines,
    )


def draw_use(run: RunRecord, cluster: str, colour: int) -> str:
    """Return a plot of a cluster's GPUs in use, from the first to the last submission."""
    frame = svg.Frame(width=300, height=130, left=34, bottom=28, top=8, right=6)
    total = next(each.total for each in run.fleet.clusters if each.name == cluster)
    end = run.jobs[-1].job.submit or 1.0
    across, up = frame.x_scale(0, end), frame.y_scale(0, total)
    steps = build_timeline(run).clusters[cluster]
    points = [
        (across(begin), up(_average(steps, begin, end / SLICES)))
        for begin in (end * n / SLICES for n in range(SLICES))
    ]
    times = [(at, format_seconds(at) if at else "0") for at in svg.time_ticks(end, 3) if at <= end]
    return svg.canvas(
        frame,
        f"GPUs in use on {cluster} with {run.label}",
        svg.upright(frame, [(0, "0"), (total / 2, f"{total / 2:g}"), (total, str(total))], up),
        svg.area(points, frame.base, colour, f"{cluster}: {total} GPUs"),
        svg.across(frame, times, across, ""),
    )


def draw_teams(comparison: Comparison) -> str:
    """Return a plot of each team's slowdown against running alone; a bar per dispatcher."""
    ratios = {
        label: finish_ratios([job for run in runs for job in run.jobs])
        for label, runs in comparison.runs.items()
    }
    return draw_groups(
        ratios, "Finish-time ratio by team", svg.round_ticks, lambda value: f"{value:.3g}"
    )


def draw_sizes(comparison: Comparison) -> str:
    """Return a plot of the mean wait by size of the gang; a bar per dispatcher."""
    waits = {
        label: _waits_by_size([job for run in runs for job in run.jobs])
        for label, runs in comparison.runs.items()
    }
    return draw_groups(waits, "Mean wait by GPUs of the job", svg.time_ticks, format_seconds)


def draw_seeds(comparison: Comparison, name: str) -> str:
    """Return a plot of a figure's change against the first dispatcher, by seed, in percent."""
    frame = svg.Frame(height=240)
    labels = list(comparison.figures)
    seeds = comparison.plan.seeds
    base = comparison.figures[labels[0]]
    changes = {
        label: [
            100 * (run[name] - first[name]) / first[name] if first[name] else 0.0
            for run, first in zip(comparison.figures[label], base, strict=True)
        ]
        for label in labels[1:]
    }
    most = max((abs(value) for values in changes.values() for value in values), default=0.0)
    edge = max(svg.round_ticks(max(most, 10.0), 2))
    across, up = frame.x_scale(-0.5, len(seeds) - 0.5), frame.y_scale(-edge, edge)
    dots = [
        svg.dot((across(n), up(value)), place + 1, f"{label}, seed {seeds[n]}: {value:+.0f} %")
        for place, (label, values) in enumerate(changes.items())
        for n, value in enumerate(values)
    ]
    ticks = [(value, f"{value:+.0f} %") for value in (-edge, -edge / 2, 0.0, edge / 2, edge)]
    return svg.canvas(
        frame,
        f"Difference to {labels[0]} by seed",
        svg.upright(frame, ticks, up),
        svg.across(frame, [(n, str(seed)) for n, seed in enumerate(seeds)], across, "seed"),
        svg.level((frame.left, frame.right_edge), up(0), "axis", labels[0]),
        *dots,
    )


def _thin(points: Sequence[svg.Point]) -> list[svg.Point]:
    """Drop points that are too close to the previous one."""
    kept = [points[0]]
    for point in points[1:]:
        if math.dist(point, kept[-1]) >= APART:
            kept.append(point)
    return kept


def _average(steps: Steps, begin: float, span: float) -> float:
    return steps.integrate(begin, begin + span) / span


def _waits_by_size(jobs: Sequence[JobRecord]) -> dict[str, float]:
    found = {
        words: [job.waited for job in jobs if low <= job.job.gpus <= high]
        for low, high, words in SIZES
    }
    return {words: mean(waits) for words, waits in found.items() if waits}


def draw_groups(
    values: Mapping[str, Mapping[str, float]],
    label: str,
    choose_ticks: Callable[[float], list[float]],
    tell: Callable[[float], str],
    *,
    colour: int = 0,
) -> str:
    """Return a plot with a group of bars for each inner key, and a bar in it for each outer key.

    Args:
        values: The heights of the bars.
        label: The name of the plot, for screen readers.
        choose_ticks: Finds the ticks up to the highest value.
        tell: Puts a value into words.
        colour: The colour of the first bar of each group; the others have those after it.
    """
    frame = svg.Frame(left=60)
    groups = list(next(iter(values.values())))
    most = max(value for each in values.values() for value in each.values())
    ticks = choose_ticks(most)
    up = frame.y_scale(0, ticks[-1])
    room = (frame.right_edge - frame.left) / max(1, len(groups))
    width = min(36.0, room * 0.76 / len(values))
    bars = []
    for place, group in enumerate(groups):
        middle = frame.left + room * (place + 0.5)
        for number, (name, each) in enumerate(values.items()):
            value = each.get(group, 0.0)
            x = middle + (number - len(values) / 2) * width
            corner, size = (x + 1, up(value)), (width - 2, frame.base - up(value))
            hint = f"{name}, {group}: {tell(value)}"
            bars.append(svg.bar(corner, size, colour + number, hint))
        bars.append(svg.text((middle, frame.base + 18), group))
    return svg.canvas(
        frame,
        label,
        svg.upright(frame, [(tick, tell(tick)) for tick in ticks], up),
        *bars,
        svg.across(frame, [], frame.x_scale(0, 1), ""),
    )
