"""The figures by which runs are compared. Pure.

Waiting is all time between submission and end in which a job does not run, also after evictions.
An empty fleet favours the first jobs. So the jobs of the first fifth of the time are simulated but
not counted. Shares of the fleet are measured from then to the last submission: after it, too few
jobs are left to keep the fleet busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiqueue.simulation.records import JobRecord, RunRecord
from multiqueue.simulation.timeline import build_timeline

HOUR = 3600.0
LARGE = 16
"""Gangs from this number of GPUs on have a figure of their own."""
WARM_UP = 0.2
"""The share of the time between first and last submission that is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure.

    Attributes:
        name: Its name for programs.
        title: Its name for people.
        unit: ``s``, ``%``, ``h``, ``jobs`` or empty.
        better: ``lower`` or ``higher``; empty if neither is.
    """

    name: str
    title: str
    unit: str = ""
    better: str = "lower"


METRICS = (
    Metric(name="mean_wait", title="mean wait", unit="s"),
    Metric(name="p90_wait", title="p90 wait", unit="s"),
    Metric(name="p99_wait", title="p99 wait", unit="s"),
    Metric(name="large_p99_wait", title=f"p99 wait from {LARGE} GPUs", unit="s"),
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
    Metric(name="cost", title="cost of GPU-hours"),
    Metric(name="energy", title="energy, kWh"),
    Metric(name="guesses", title="start estimates", unit="jobs", better=""),
    Metric(name="calibration", title="starts inside the 80 % interval", unit="%", better=""),
)


def measure(run: RunRecord) -> dict[str, float]:
    """Return a run's figures by name, in the order of `METRICS`; undefined ones are omitted."""
    if not run.jobs:
        return {}
    begin, end = find_window(run)
    jobs = [record for record in run.jobs if record.job.submit >= begin]
    waits = sorted(record.waited for record in jobs)
    large = sorted(record.waited for record in jobs if record.job.gpus >= LARGE)
    completions = sorted(record.completion for record in jobs)
    teams = finish_ratios(jobs)
    found = {
        "mean_wait": mean(waits),
        "p90_wait": percentile(waits, 90),
        "p99_wait": percentile(waits, 99),
        **({"large_p99_wait": percentile(large, 99)} if large else {}),
        "mean_completion": mean(completions),
        "p99_completion": percentile(completions, 99),
        "makespan": max(record.finished for record in run.jobs) - run.jobs[0].job.submit,
        **_shares(run, begin, end),
        "preemptions": 100 * mean([len(record.stays) - 1 for record in jobs]),
        "lost_hours": sum(stay.lost for record in jobs for stay in record.stays) / HOUR,
        "copies": mean([record.copies for record in jobs]),
        "writes": mean([record.local_writes + record.remote_writes for record in jobs]),
        "worst_team": max(teams.values()),
        "unfairness": max(teams.values()) / min(teams.values()),
        **_expenses(run, jobs),
        **_calibration(jobs),
    }
    return {metric.name: found[metric.name] for metric in METRICS if metric.name in found}


def find_window(run: RunRecord) -> tuple[float, float]:
    """Return the beginning and the end of the time in which a run is judged."""
    first, last = run.jobs[0].job.submit, run.jobs[-1].job.submit
    return first + WARM_UP * (last - first), last


def _shares(run: RunRecord, begin: float, end: float) -> dict[str, float]:
    line = build_timeline(run)
    capacity = max(end - begin, 1e-9) * run.fleet.total
    busy = sum(steps.integrate(begin, end) for steps in line.clusters.values())
    return {
        "utilisation": 100 * busy / capacity,
        "idle_while_waiting": 100 * line.idle_while_waiting(run.fleet.total, begin, end) / capacity,
        "work_per_hour": _work_done(run, begin, end) / busy if busy else 0.0,
    }


def _work_done(run: RunRecord, begin: float, end: float) -> float:
    """Return the GPU-seconds of reference work that were done in a window and not lost."""
    done = 0.0
    for record in run.jobs:
        for stay in record.stays:
            assert stay.ended is not None
            kept = max(0.0, stay.ended - stay.lost / record.job.gpus_on(stay.flavor))
            seconds = min(kept, end) - max(stay.begun, begin)
            done += max(0.0, seconds) * record.job.gpus * record.job.speed_on(stay.flavor)
    return done


def _expenses(run: RunRecord, jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Return cost and energy, if the fleet declares prices and watts."""
    prices = {cluster.name: cluster.prices for cluster in run.fleet.clusters}
    cost = energy = 0.0
    for record in jobs:
        for stay in record.stays:
            hours = stay.seconds * record.job.gpus_on(stay.flavor) / HOUR
            cost += hours * prices[stay.cluster].get(stay.flavor, 0) / 1000
            energy += hours * run.fleet.watts.get(stay.flavor, 0.0) / 1000
    told = {"cost": cost, "energy": energy}
    return {name: value for name, value in told.items() if value}


def _calibration(jobs: Sequence[JobRecord]) -> dict[str, float]:
    guesses = [guess for record in jobs for guess in record.guesses]
    if not guesses:
        return {}
    right = sum(guess.is_inside for guess in guesses)
    return {"guesses": len(guesses), "calibration": 100 * right / len(guesses)}


def finish_ratios(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Return by team how many times longer its jobs took than alone on reference hardware."""
    taken: dict[str, float] = {}
    alone: dict[str, float] = {}
    for job in jobs:
        team = job.job.team
        taken[team] = taken.get(team, 0.0) + job.completion
        alone[team] = alone.get(team, 0.0) + job.job.duration
    return {team: taken[team] / alone[team] for team in sorted(taken)}


def mean(values: Sequence[float]) -> float:
    """Return the average; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values: the smallest that so many percent do not exceed."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[min(len(ordered), max(1, int(rank))) - 1]


Summary = dict[str, float]


def summarise(runs: Sequence[Summary]) -> Summary:
    """Return the mean of each figure over several seeds, for the seeds that have it."""
    names = [metric.name for metric in METRICS if any(metric.name in run for run in runs)]
    return {name: mean([run[name] for run in runs if name in run]) for name in names}
