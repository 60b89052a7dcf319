"""What a run is judged by. Pure.

Waiting is all time between submission and end in which a job does not run, after evictions too.
Shares of the fleet are taken between the first and the last submission: what comes after is a tail
in which nobody could keep the fleet busy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiqueue.simulation.records import JobRecord, RunRecord
from multiqueue.simulation.timeline import Timeline, build_timeline

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure.

    Attributes:
        name: For programs.
        title: For people.
        unit: ``s``, ``%``, ``h`` or empty.
        better: ``lower`` or ``higher``; empty: neither.
    """

    name: str
    title: str
    unit: str = ""
    better: str = "lower"


METRICS = (
    Metric(name="mean_wait", title="mean wait", unit="s"),
    Metric(name="p90_wait", title="p90 wait", unit="s"),
    Metric(name="p99_wait", title="p99 wait", unit="s"),
    Metric(name="mean_completion", title="mean completion time", unit="s"),
    Metric(name="p99_completion", title="p99 completion time", unit="s"),
    Metric(name="makespan", title="makespan", unit="s"),
    Metric(name="utilisation", title="GPUs in use", unit="%", better="higher"),
    Metric(name="idle_while_waiting", title="GPUs idle while jobs wait", unit="%"),
    Metric(name="work_per_hour", title="work per GPU-hour", better="higher"),
    Metric(name="preemptions", title="preemptions per 100 jobs"),
    Metric(name="lost_hours", title="GPU-hours lost", unit="h"),
    Metric(name="copies", title="remote copies per job"),
    Metric(name="writes", title="API writes per job"),
    Metric(name="worst_team", title="slowest team's finish ratio"),
    Metric(name="unfairness", title="slowest to fastest team"),
)


def measure(run: RunRecord) -> dict[str, float]:
    """Return the figures of a run, by name, in the order of `METRICS`."""
    jobs = run.jobs
    if not jobs:
        return {}
    line = build_timeline(run)
    waits = sorted(job.waited for job in jobs)
    completions = sorted(job.completion for job in jobs)
    teams = finish_ratios(jobs)
    busy = sum(stay.seconds * job.job.gpus for job in jobs for stay in job.stays)
    found = {
        "mean_wait": mean(waits),
        "p90_wait": percentile(waits, 90),
        "p99_wait": percentile(waits, 99),
        "mean_completion": mean(completions),
        "p99_completion": percentile(completions, 99),
        "makespan": max(job.finished for job in jobs) - jobs[0].job.submit,
        **_shares(run, line),
        "work_per_hour": sum(job.job.work for job in jobs) / busy,
        "preemptions": 100 * sum(len(job.stays) - 1 for job in jobs) / len(jobs),
        "lost_hours": sum(stay.lost for job in jobs for stay in job.stays) / HOUR,
        "copies": mean([job.copies for job in jobs]),
        "writes": mean([job.local_writes + job.remote_writes for job in jobs]),
        "worst_team": max(teams.values()),
        "unfairness": max(teams.values()) / min(teams.values()),
    }
    return {metric.name: found[metric.name] for metric in METRICS}


def _shares(run: RunRecord, line: Timeline) -> dict[str, float]:
    begin, end = run.jobs[0].job.submit, run.jobs[-1].job.submit
    span = max(end - begin, 1e-9)
    total = run.fleet.total
    busy = sum(line.integrate(name, begin, end) for name in line.clusters)
    return {
        "utilisation": 100 * busy / (span * total),
        "idle_while_waiting": 100 * line.idle_while_waiting(total, begin, end) / (span * total),
    }


def finish_ratios(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Return by team how many times longer its jobs took than alone on the reference hardware."""
    taken: dict[str, float] = {}
    alone: dict[str, float] = {}
    for job in jobs:
        team = job.job.team
        taken[team] = taken.get(team, 0.0) + job.completion
        alone[team] = alone.get(team, 0.0) + job.job.duration
    return {team: taken[team] / alone[team] for team in sorted(taken)}


def mean(values: Sequence[float]) -> float:
    """Return the average; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent are not above; of sorted values."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[min(len(ordered), max(1, int(rank))) - 1]


Summary = dict[str, float]
Choose = Callable[[Sequence[float]], float]


def summarise(runs: Sequence[Summary], choose: Choose = mean) -> Summary:
    """Put the figures of several seeds together."""
    return {name: choose([run[name] for run in runs]) for name in (runs[0] if runs else {})}
