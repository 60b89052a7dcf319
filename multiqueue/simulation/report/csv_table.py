"""The figures of all runs as CSV, one run per line."""

from __future__ import annotations

import csv
from io import StringIO

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import METRICS


def format_csv(comparison: Comparison) -> str:
    """Return a table: dispatcher, seed, then the figures in seconds, percent and hours."""
    names = [metric.name for metric in METRICS]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dispatcher", "seed", *names])
    for label, runs in comparison.runs.items():
        for run, figures in zip(runs, comparison.figures[label], strict=True):
            cells = [f"{figures[name]:.6g}" if name in figures else "" for name in names]
            writer.writerow([label, run.seed, *cells])
    return text.getvalue()
