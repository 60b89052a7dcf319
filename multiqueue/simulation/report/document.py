"""The comparison as a document for programs."""

from __future__ import annotations

from typing import Any

from multiqueue.simulation.compare import Comparison
from multiqueue.simulation.metrics import finish_ratios


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
