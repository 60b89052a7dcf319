"""The comparison as a table of texts."""

from __future__ import annotations

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import METRICS, Metric

MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
NO_CHANGE = "0 %"


def list_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows: one figure per row, one dispatcher per column, with changes."""
    summaries = comparison.summaries()
    names = list(summaries)
    rows = []
    for metric in METRICS:
        values = [summaries[name].get(metric.name) for name in names]
        if all(value is None for value in values):
            continue
        first = values[0]
        cells = []
        for place, value in enumerate(values):
            told = format_value(metric, value) if value is not None else "-"
            change = format_change(first, value) if place and metric.better else ""
            cells.append(f"{told} {change}".strip())
        rows.append([metric.title, *cells])
    return ["FIGURE", *(name.upper() for name in names)], rows


def format_value(metric: Metric, value: float) -> str:
    """Return a figure in its unit, for people."""
    match metric.unit:
        case "s":
            return format_seconds(value)
        case "%":
            return f"{value:.1f} %"
        case "h" | "jobs":
            return f"{value:.0f}"
    return f"{value:.2f}"


def format_seconds(value: float) -> str:
    """Return a time in a suitable unit: ``42 s``, ``3.5 min``, ``7.1 h``, ``2.3 d``."""
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if value >= 2 * size or (value >= size and value % size == 0):
            return f"{value / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{value:.0f} s"


def format_change(first: float | None, value: float | None) -> str:
    """Return the change in percent; empty if it is undefined."""
    if not first or value is None:
        return ""
    change = round(100 * (value - first) / abs(first))
    return f"({change:+} %)" if change else f"({NO_CHANGE})"


def describe(comparison: Comparison) -> str:
    """Return one line that says what was simulated."""
    plan = comparison.plan
    clusters = ", ".join(
        f"{each.name} ({' + '.join(f'{count} {name}' for name, count in each.gpus.items())})"
        for each in plan.fleet.clusters
    )
    seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else f"seed {plan.seeds[0]}"
    jobs = len(next(iter(comparison.runs.values()))[0].jobs)
    return (
        f"{jobs} jobs of {plan.wanted.source} ({seeds}) at a load of {plan.wanted.load:g} on "
        f"{plan.fleet.total} GPUs: {clusters}"
    )


def list_seeds(comparison: Comparison, name: str = "mean_wait") -> list[str]:
    """Return one line per seed with a figure's change against the first dispatcher.

    Empty with one seed, since the table has its figures.
    """
    if len(comparison.plan.seeds) < 2:
        return []
    (first, base), *others = comparison.figures.items()
    title = next(metric.title for metric in METRICS if metric.name == name)
    lines = []
    for label, figures in others:
        pairs = zip(base, figures, strict=True)
        changes = [format_change(was[name], now[name]).strip("()") or "-" for was, now in pairs]
        lines.append(f"{title} of {label} beside {first}, by seed: {', '.join(changes)}")
    return lines
