"""The comparison as one self-contained HTML page, with its style and plots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import METRICS, WARM_UP, Metric, Summary
from multiqueue.simulation.report import charts
from multiqueue.simulation.report.html import COLOURS, build_html, head, section, tile
from multiqueue.simulation.report.table import NO_CHANGE, describe, format_change, format_value

TILES = ("mean_wait", "p99_wait", "utilisation", "copies")
BY_NAME = {metric.name: metric for metric in METRICS}


def build_page(comparison: Comparison) -> str:
    """Return the page as HTML."""
    labels = list(comparison.runs)
    parts = [
        head(title_of(labels), describe(comparison), labels),
        _tiles(comparison.summaries(), labels),
        '<div class="pair">',
        section(
            "How long jobs waited",
            "Part of the jobs that waited longer than a time; both axes grow by factors.",
            charts.draw_waits(comparison),
        ),
        section(
            "Who waited",
            "Mean wait, by how many GPUs a job has.",
            charts.draw_sizes(comparison),
        ),
        section(
            "How teams fare",
            "How many times longer a team's jobs took than alone on A100s; alike is fair.",
            charts.draw_teams(comparison),
        ),
        _seeds(comparison, labels),
        "</div>",
        _figures(comparison.summaries(), labels),
        _uses(comparison, labels),
        _foot(comparison),
    ]
    return build_html(title_of(labels), parts)


def title_of(labels: Sequence[str]) -> str:
    """Return a title that names the contestants and the first one, their reference."""
    if len(labels) == 1:
        return f"How {labels[0]} does"
    *others, last = labels[1:]
    named = f"{', '.join(others)} and {last}" if others else last
    return f"{named[0].upper()}{named[1:]} against {labels[0]}"


def _tiles(summaries: dict[str, Summary], labels: Sequence[str]) -> str:
    """Return tiles with the last contestant's figures and their change from the first's."""
    first, last = summaries[labels[0]], summaries[labels[-1]]
    tiles = []
    for name in TILES:
        metric, value = BY_NAME[name], last[name]
        told = _change(metric, first[name], value)
        of = f"{labels[-1]}; {labels[0]} {format_value(metric, first[name])}"
        tiles.append(tile(metric.title, f"{escape(format_value(metric, value))} {told}", of))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _seeds(comparison: Comparison, labels: Sequence[str]) -> str:
    if len(comparison.plan.seeds) < 2 or len(labels) < 2:
        return ""
    return section(
        "Whether it is luck",
        f"Mean wait beside {labels[0]}, seed by seed; below the line is better.",
        charts.draw_seeds(comparison, "mean_wait"),
    )


def _figures(summaries: dict[str, Summary], labels: Sequence[str]) -> str:
    rows = []
    for metric in METRICS:
        values = [summaries[label].get(metric.name) for label in labels]
        known = [value for value in values if value is not None]
        if known:
            cells = "".join(
                _cell(metric, values[0], value, place, max(known))
                for place, value in enumerate(values)
            )
            rows.append(f'<tr><th scope="row">{escape(metric.title)}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    return (
        f"<section><h2>All figures</h2><p>With the difference to {escape(labels[0])}; "
        f"the mean over all seeds.</p>"
        f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _cell(metric: Metric, first: float | None, value: float | None, place: int, most: float) -> str:
    if value is None:
        return "<td>-</td>"
    told = _change(metric, first, value) if place and metric.better else ""
    width = 100 * value / most if most > 0 else 0.0
    return (
        f"<td>{escape(format_value(metric, value))}{told}"
        f'<div class="meter c{place % COLOURS}"><i style="width:{width:.1f}%"></i></div></td>'
    )


def _change(metric: Metric, first: float | None, value: float) -> str:
    words = format_change(first, value).strip("()")
    if not words or first is None:
        return ""
    is_better = (value < first) == (metric.better == "lower")
    kind = "" if words == NO_CHANGE else "better" if is_better else "worse"
    return f' <small class="{kind}">{escape(words)}</small>'


def _uses(comparison: Comparison, labels: Sequence[str]) -> str:
    parts = []
    for place, label in enumerate(labels):
        run = comparison.runs[label][0]
        plots = "".join(
            f"<div><h3>{escape(cluster.name)}</h3>"
            f"{charts.draw_use(run, cluster.name, place % COLOURS)}</div>"
            for cluster in run.fleet.clusters[:12]
        )
        parts.append(f'<h2 class="who">{escape(label)}</h2><div class="uses">{plots}</div>')
    seed = comparison.plan.seeds[0]
    return (
        f"<section><h2>GPUs in use, cluster by cluster</h2>"
        f"<p>From the first to the last submission of seed {seed}; the top of each plot is all "
        f"that the cluster has.</p>{''.join(parts)}</section>"
    )


def _foot(comparison: Comparison) -> str:
    notes = dict.fromkeys(n for runs in comparison.runs.values() for run in runs for n in run.notes)
    words = [
        f"The first {WARM_UP:.0%} of the time is played and not counted in the figures.",
        "Waiting is all time in which a job does not run, after evictions too.",
        *notes,
    ]
    return f"<footer>{escape(' '.join(words))}</footer>"
