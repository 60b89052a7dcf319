"""Compare a dispatcher with the best of its rivals, trace by trace. Pure.

How much quota the manager should have depends on the dispatcher and on the jobs. So each rival
plays with several quotas, and on each trace the rival with the shortest mean wait counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from multiqueue.simulation.compare import Comparison, Contestant
from multiqueue.simulation.goals import Goal, Target, judge_targets
from multiqueue.simulation.metrics import METRICS, Metric, Summary
from multiqueue.simulation.report.table import format_change, format_value

BEST = "best rival"
FIGURES = ("mean_wait", "p99_wait", "large_p99_wait")
"""The figures that are shown for each trace."""


def give_quotas(
    contestants: Sequence[Contestant], percents: Sequence[int]
) -> tuple[Contestant, ...]:
    """Return each contestant with each quota of the manager; the last with the last quota only.

    Labels of rivals then end with the quota, as in ``all-at-once@400``.

    Args:
        contestants: The rivals, then the contestant that is compared with the best of them.
        percents: Quotas of the manager, in percent of what the workers have.
    """
    *rivals, judged = (replace(each, quota_percent=percents[-1]) for each in contestants)
    if len(percents) == 1:
        return (*rivals, judged)
    spread = [
        replace(rival, label=f"{rival.label}@{percent}", quota_percent=percent)
        for rival in rivals
        for percent in percents
    ]
    return (*spread, judged)


def narrow(comparison: Comparison) -> Comparison:
    """Return the comparison of the last contestant with the best of the others on each trace.

    If all play with the same quota, or there are no others, it is the comparison itself.
    """
    if len({each.quota_percent for each in comparison.plan.contestants}) < 2:
        return comparison
    *rivals, judged = comparison.figures
    best = [
        min(rivals, key=lambda label: comparison.figures[label][place]["mean_wait"])
        for place in range(len(comparison.plan.seeds))
    ]
    runs = [comparison.runs[label][place] for place, label in enumerate(best)]
    figures = [comparison.figures[label][place] for place, label in enumerate(best)]
    return replace(
        comparison,
        runs={BEST: runs, judged: comparison.runs[judged]},
        figures={BEST: figures, judged: comparison.figures[judged]},
    )


def judge_beside_best(beside: Comparison) -> list[Goal]:
    """Return the goals of a dispatcher beside its best rivals: figures are shares of theirs."""
    rival, own = beside.summaries().values()
    changes = _list_changes(beside, "mean_wait")
    targets: list[Target] = [
        (f"{metric.title}, of the best rival", own[metric.name] / rival[metric.name], "<=", 0.7)
        for metric in METRICS
        if metric.name in FIGURES and rival.get(metric.name) and metric.name in own
    ]
    if changes:
        ratio, seed = max(changes)
        targets.append(
            (f"mean wait of the worst trace ({seed}), of the best rival", ratio, "<=", 1.05)
        )

    def ratio_of(name: str) -> float:
        return own[name] / rival[name] if rival[name] else 1.0

    targets += [
        ("GPUs in use, of the best rival", ratio_of("utilisation"), ">=", 1.0),
        ("slowest to fastest team, of the best rival", ratio_of("unfairness"), "<=", 1.0),
        ("remote copies per job", own["copies"], "<=", 1.05),
    ]
    return judge_targets(targets)


TRACE_HEADERS = ("SEED", "BEST RIVAL", "MEAN WAIT", "P99 WAIT", "FROM 16 GPUS")


def list_traces(beside: Comparison) -> list[list[str]]:
    """Return a row for each trace, the worst first: figures, with their change from the rival's.

    The last column is the p99 wait of gangs of at least `metrics.LARGE` GPUs.
    """
    rivals, owns = beside.figures.values()
    (names, _), seeds = beside.runs.values(), beside.plan.seeds
    ratios = {seed: ratio for ratio, seed in _list_changes(beside, "mean_wait")}
    rows = zip(seeds, names, rivals, owns, strict=True)
    return [
        [
            str(seed),
            run.label,
            *(_tell(metric, rival, own) for metric in METRICS if metric.name in FIGURES),
        ]
        for seed, run, rival, own in sorted(rows, key=lambda row: -ratios.get(row[0], 0.0))
    ]


def _tell(metric: Metric, rival: Summary, own: Summary) -> str:
    now = own.get(metric.name)
    if now is None:
        return "-"
    return f"{format_value(metric, now)} {format_change(rival.get(metric.name), now)}".strip()


def _list_changes(beside: Comparison, name: str) -> list[tuple[float, int]]:
    """Return how many times as large a figure is as the best rival's, with the seed."""
    rivals, owns = beside.figures.values()
    return [
        (own[name] / rival[name], seed)
        for rival, own, seed in zip(rivals, owns, beside.plan.seeds, strict=True)
        if rival[name]
    ]
