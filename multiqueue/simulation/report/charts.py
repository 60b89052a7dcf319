"""The plots of a comparison. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import finish_ratios, mean
from multiqueue.simulation.records import JobRecord, RunRecord
from multiqueue.simulation.report import svg
from multiqueue.simulation.report.table import format_seconds
from multiqueue.simulation.timeline import Steps, build_timeline

WAITS = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21_600, "6 h"))
LONG_WAITS = ((86_400, "1 d"), (345_600, "4 d"))
SHORTEST = 5.0
SIZES = ((1, 1, "1"), (2, 4, "2 to 4"), (5, 8, "5 to 8"), (9, 16, "9 to 16"), (17, 9999, "more"))
SLICES = 160
DAY = 86_400.0


def draw_waits(comparison: Comparison) -> str:
    """Return which part of the jobs waited how long at most, a line a dispatcher."""
    frame = svg.Frame()
    pooled = {
        label: sorted(max(SHORTEST, job.waited) for run in runs for job in run.jobs)
        for label, runs in comparison.runs.items()
    }
    longest = max(waits[-1] for waits in pooled.values())
    low, high = math.log(SHORTEST), math.log(max(longest, 60.0))
    across, up = frame.x_scale(low, high), frame.y_scale(0, 100)
    ticks = [(math.log(at), words) for at, words in (*WAITS, *LONG_WAITS) if at <= longest]
    lines = []
    for place, (label, waits) in enumerate(pooled.items()):
        points = [(across(low), up(0.0))]
        step = max(1, len(waits) // 400)
        points += [
            (across(math.log(waits[n])), up(100 * (n + 1) / len(waits)))
            for n in range(0, len(waits), step)
        ]
        points += [(across(math.log(waits[-1])), up(100)), (across(high), up(100))]
        lines.append(svg.line(points, place, label))
    return svg.canvas(
        frame,
        "Part of the jobs by how long they waited",
        svg.upright(frame, [(v, f"{v} %") for v in range(0, 101, 25)], up),
        svg.across(frame, ticks, across, "waited no longer than"),
        *lines,
    )


def draw_use(run: RunRecord, cluster: str, colour: int) -> str:
    """Return how many GPUs of one cluster were in use, from the first to the last submission."""
    frame = svg.Frame(width=300, height=130, left=34, bottom=28, top=8, right=6)
    total = next(each.total for each in run.fleet.clusters if each.name == cluster)
    end = run.jobs[-1].job.submit or 1.0
    across, up = frame.x_scale(0, end), frame.y_scale(0, total)
    steps = build_timeline(run).clusters[cluster]
    points = [
        (across(begin), up(_average(steps, begin, end / SLICES)))
        for begin in (end * n / SLICES for n in range(SLICES))
    ]
    days = [(day * DAY, f"{day} d") for day in range(int(end // DAY) + 1)]
    return svg.canvas(
        frame,
        f"GPUs in use on {cluster} with {run.label}",
        svg.upright(frame, [(0, "0"), (total / 2, f"{total / 2:g}"), (total, str(total))], up),
        svg.area(points, frame.base, colour, f"{cluster}: {total} GPUs"),
        svg.across(frame, days, across, ""),
    )


def draw_teams(comparison: Comparison) -> str:
    """Return by team how many times longer its jobs took than alone, a bar a dispatcher."""
    ratios = {
        label: finish_ratios([job for run in runs for job in run.jobs])
        for label, runs in comparison.runs.items()
    }
    return _draw_groups(
        ratios, "Finish-time ratio by team", lambda value: f"{value:.2f} x", lambda v: f"{v:g}"
    )


def draw_sizes(comparison: Comparison) -> str:
    """Return the mean wait by size of the gang, a bar a dispatcher."""
    waits = {
        label: _waits_by_size([job for run in runs for job in run.jobs])
        for label, runs in comparison.runs.items()
    }
    return _draw_groups(waits, "Mean wait by GPUs of the job", format_seconds, format_seconds)


def draw_seeds(comparison: Comparison, name: str) -> str:
    """Return of each seed by how much a figure differs from the first dispatcher's, in percent."""
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
        f'<line class="axis" x1="{frame.left}" x2="{frame.right_edge}" '
        f'y1="{up(0):.1f}" y2="{up(0):.1f}"/>',
        *dots,
    )


def _average(steps: Steps, begin: float, span: float) -> float:
    return steps.integrate(begin, begin + span) / span


def _waits_by_size(jobs: Sequence[JobRecord]) -> dict[str, float]:
    found = {
        words: [job.waited for job in jobs if low <= job.job.gpus <= high]
        for low, high, words in SIZES
    }
    return {words: mean(waits) for words, waits in found.items() if waits}


def _draw_groups(
    values: Mapping[str, Mapping[str, float]],
    label: str,
    tell: svg.Tell,
    tell_tick: svg.Tell,
) -> str:
    frame = svg.Frame(left=60)
    groups = list(next(iter(values.values())))
    most = max(value for each in values.values() for value in each.values())
    ticks = svg.round_ticks(most)
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
            bars.append(svg.bar(corner, size, number, f"{name}, {group}: {tell(value)}"))
        bars.append(svg.text((middle, frame.base + 18), group))
    return svg.canvas(
        frame,
        label,
        svg.upright(frame, [(tick, tell_tick(tick)) for tick in ticks], up),
        *bars,
        svg.across(frame, [], frame.x_scale(0, 1), ""),
    )
