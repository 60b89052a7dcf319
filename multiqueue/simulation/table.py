"""The comparison as rows of text."""

from __future__ import annotations

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import METRICS, Metric

MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0


def list_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows: a figure a line, a dispatcher a column, differences to the first."""
    summaries = comparison.summaries()
    names = list(summaries)
    rows = []
    for metric in METRICS:
        first = summaries[names[0]][metric.name]
        cells = [format_value(metric, first)]
        for name in names[1:]:
            value = summaries[name][metric.name]
            cells.append(f"{format_value(metric, value)} {format_change(first, value)}".strip())
        rows.append([metric.title, *cells])
    return ["FIGURE", *(name.upper() for name in names)], rows


def format_value(metric: Metric, value: float) -> str:
    """Return a figure in its unit, for people."""
    match metric.unit:
        case "s":
            return format_seconds(value)
        case "%":
            return f"{value:.1f} %"
        case "h":
            return f"{value:.0f}"
    return f"{value:.2f}"


def format_seconds(value: float) -> str:
    """Return a time in the unit that suits it: ``42 s``, ``3.5 min``, ``7.1 h``, ``2.3 d``."""
    for size, unit in ((DAY * 2, "d"), (HOUR * 2, "h"), (MINUTE * 2, "min")):
        if value >= size:
            return f"{value / (size / 2):.1f} {unit}"
    return f"{value:.0f} s"


def format_change(first: float, value: float) -> str:
    """Return how much more or less it is, in percent; empty where that has no meaning."""
    if first == 0:
        return ""
    change = 100 * (value - first) / abs(first)
    return f"({change:+.0f} %)"
