"""The plots of ``hundred-gpus``. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from multiqueue.simulation.report import svg
from multiqueue.simulation.report.charts import draw_groups
from multiqueue.simulation.report.table import format_seconds
from multiqueue.simulation.scenarios.figures import GOAL_WAIT, RunFigures, average
from multiqueue.simulation.scenarios.hundred_gpus import System

Groups = dict[System, list[RunFigures]]

TICKS = (1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 360_000.0)
"""Seconds; waits grow by factors, so their axis does, too."""
WIDTH = 0.7
"""The part of its column that the points of a system use."""


def draw_seeds(groups: Groups) -> str:
    """Plot the mean wait of every seed in a column for each system, their mean, and the goal."""
    frame = svg.Frame(left=60, height=330, bottom=50)
    across = frame.x_scale(-0.5, len(groups) - 0.5)
    waits = [run.wait for runs in groups.values() for run in runs]
    up, ticks = _find_waits(frame, [*waits, GOAL_WAIT])
    away = min(TICKS, key=lambda tick: abs(math.log(tick / GOAL_WAIT)))
    ticks = [*(tick for tick in ticks if tick[0] != away), (GOAL_WAIT, format_seconds(GOAL_WAIT))]
    parts = []
    for place, (system, runs) in enumerate(groups.items()):
        for line, words in enumerate(re.findall(r"[+-]?\w+", system), 1):
            parts.append(svg.text((across(place), frame.base + 16 * line), words))
        parts.append(_level(across, up, place, runs))
        for number, run in enumerate(runs):
            shift = WIDTH * ((number + 0.5) / len(runs) - 0.5)
            hint = f"{system}, seed {run.seed}: {format_seconds(run.wait)}"
            at = (across(place + shift), up(run.wait))
            parts.append(svg.dot(at, place, hint, radius=4))
    return svg.canvas(
        frame,
        "Mean wait of every seed",
        svg.upright(frame, ticks, up),
        svg.across(frame, [], across, ""),
        svg.level((frame.left, frame.right_edge), up(GOAL_WAIT), "goal", "the goal"),
        *parts,
    )


def _level(across: svg.Scale, up: svg.Scale, place: int, runs: Sequence[RunFigures]) -> str:
    mean = average(runs, "wait")
    ends = (across(place - WIDTH / 2), across(place + WIDTH / 2))
    hint = f"{runs[0].system}, mean: {format_seconds(mean)}"
    return svg.level(ends, up(mean), f"mean c{place}", hint)


def draw_sizes(groups: Groups, name: str) -> str:
    """Plot a figure of the waits (``mean`` or ``longest``) by size of the gang."""
    frame = svg.Frame(left=60, height=320)
    found = {system: _by_size(runs, name) for system, runs in groups.items()}
    sizes = sorted({size for waits in found.values() for size in waits})
    across = frame.x_scale(-0.3, len(sizes) - 0.7)
    up, ticks = _find_waits(frame, [wait for waits in found.values() for wait in waits.values()])
    parts = []
    for colour, (system, waits) in enumerate(found.items()):
        points = [(across(n), up(waits[size])) for n, size in enumerate(sizes) if size in waits]
        parts.append(svg.line(points, colour, system))
        parts += [
            svg.dot(point, colour, f"{system}, {_tell(size)}: {format_seconds(waits[size])}")
            for point, size in zip(points, (size for size in sizes if size in waits), strict=True)
        ]
    places = [(float(n), str(size)) for n, size in enumerate(sizes)]
    return svg.canvas(
        frame,
        f"Waits by GPUs of the gang: {name}",
        svg.upright(frame, ticks, up),
        svg.across(frame, places, across, "GPUs of the gang"),
        *parts,
    )


def draw_parts(groups: Groups) -> str:
    """Plot how many minutes of the mean wait come from gangs of each size, and after stops."""
    shown = {
        system.value: {
            **{
                f"{size} GPU{'s'[: size - 1]}": part
                for size, part in _by_size(runs, "part").items()
            },
            "after stops": average(runs, "wait_again"),
        }
        for system, runs in groups.items()
    }
    return draw_groups(
        shown,
        "Parts of the mean wait",
        svg.time_ticks,
        format_seconds,
        colour=_first_colour(groups),
    )


def draw_stops(groups: Groups) -> str:
    """Plot the stops, and the GPU-hours that were lost by them, by system."""
    shown = {
        system.value: {
            "stops": average(runs, "stops"),
            "GPU-hours lost": average(runs, "lost_hours"),
        }
        for system, runs in groups.items()
    }
    return draw_groups(
        shown,
        "Stops and what they cost",
        svg.round_ticks,
        lambda number: f"{number:.0f}",
        colour=_first_colour(groups),
    )


def _tell(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _first_colour(groups: Groups) -> int:
    return list(System).index(next(iter(groups)))


def _by_size(runs: Sequence[RunFigures], name: str) -> dict[int, float]:
    """Return the mean over seeds of a figure for each size."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for size in run.sizes:
            found.setdefault(size.gpus, []).append(getattr(size, name))
    return {gpus: sum(values) / len(values) for gpus, values in sorted(found.items())}


def _find_waits(
    frame: svg.Frame, waits: Sequence[float]
) -> tuple[svg.Scale, list[tuple[float, str]]]:
    """Return the scale of an axis for these waits, which grows by factors, and its ticks."""
    most = max(*waits, TICKS[1])
    least = max((each for each in TICKS if each <= min(waits)), default=TICKS[0])
    scale = frame.y_scale(math.log(least), math.log(most))
    ticks = [(each, format_seconds(each)) for each in TICKS if least <= each <= most]
    return lambda wait: scale(math.log(max(least, wait))), ticks
