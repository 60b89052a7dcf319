"""The comparison as a document for programs, and the figures of all runs as CSV."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import METRICS, finish_ratios


def build_document(comparison: Comparison) -> dict[str, Any]:
    """Return what was compared, and the figures: means over all seeds, and each seed's.

    Units: those of `multiqueue.simulation.metrics.METRICS`; times in seconds.
    """
    plan = comparison.plan
    return {
        "trace": plan.wanted.source,
        "jobs": plan.wanted.count,
        "load": plan.wanted.load,
        "seeds": list(plan.seeds),
        "clusters": [{"name": each.name, "gpus": dict(each.gpus)} for each in plan.fleet.clusters],
        "dispatchers": [
            {
                "label": label,
                "figures": summary,
                "runs": [
                    {"seed": run.seed, "figures": figures, "teams": finish_ratios(run.jobs)}
                    for run, figures in zip(
                        comparison.runs[label], comparison.figures[label], strict=True
                    )
                ],
            }
            for label, summary in comparison.summaries().items()
        ],
    }


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
