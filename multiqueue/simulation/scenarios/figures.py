"""What comes of ``hundred-gpus``: the figures of a run, of all seeds, and the goals beside them."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from multiqueue.simulation.goals import Goal, Target, judge_targets
from multiqueue.simulation.scenarios.hundred_gpus import (
    DAY,
    DAYS,
    GPUS,
    HOUR,
    MAIN,
    WARM_UP_DAYS,
    System,
    Variation,
    lay_out,
    make_jobs,
)
from multiqueue.simulation.scenarios.job_run import JobRun
from multiqueue.simulation.scenarios.no_queue import UnqueuedPool
from multiqueue.simulation.scenarios.pool import GpuPool

RATES = (8.0, 12.0)
LARGE = 8
"""Gangs from so many GPUs on are shown apart."""
GOAL_WAIT = 7.5 * 60
"""Seconds; the goal for the mean wait."""
COMPARED = (System.STATIC_HALVES, System.GENTLE)
"""Of which systems the largest rate is looked for that reaches the goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeWaits:
    """The waits of all jobs with so many GPUs, in seconds.

    Attributes:
        part: What they add to the mean wait of all jobs.
    """

    gpus: int
    mean: float
    longest: float
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """One run. Waits are in seconds, shares from 0 to 1.

    Attributes:
        large_p99: The 99th percentile of the waits of gangs of 8 GPUs and more.
        large_longest: The longest of these waits.
        completed: Jobs that ended in an hour.
        used: The share of the GPUs that jobs held.
        useful: The same without work that was lost, time to begin again, and GPUs of jobs that
            could not work because others were missing.
        overhead: Lost work and time to begin again, as a share of what jobs held.
        lost_hours: The same in GPU-hours.
        wait_again: The part of ``wait`` that came after stops.
        stops: How often jobs were stopped.
        claims: Jobs for which room was kept.
        gave_up: Jobs that ended without having begun; their waits count as they are.
        sizes: The waits by GPUs of the gang, the smallest first.
    """

    system: System
    rate: float
    seed: int
    wait: float
    p99: float
    interactive_wait: float
    large_p99: float
    large_longest: float
    completed: float
    used: float
    useful: float
    overhead: float
    lost_hours: float
    wait_again: float
    stops: int
    claims: int
    gave_up: int
    sizes: tuple[SizeWaits, ...]


def play_seed(
    system: System,
    rate: float,
    seed: int,
    days: float = DAYS,
    variation: Variation = Variation.NONE,
) -> RunFigures:
    """Play one seed with one system, and return its figures."""
    jobs = make_jobs(seed, rate, days=days, variation=variation)
    pool = UnqueuedPool(seed) if system is System.NO_QUEUE else GpuPool(lay_out(system))
    runs = pool.play(jobs)
    return measure_run(system, rate, seed, runs, begin=days * WARM_UP_DAYS / DAYS * DAY)


def measure_run(
    system: System, rate: float, seed: int, runs: Sequence[JobRun], *, begin: float
) -> RunFigures:
    """Measure from `begin` to the last submission; all jobs have ended."""
    end = runs[-1].job.submitted
    counted = [run for run in runs if run.job.submitted >= begin]
    waits = sorted(run.waited for run in counted)
    large = sorted(run.waited for run in counted if run.job.gpus >= LARGE)

    def count(times: Iterable[tuple[float, float]]) -> float:
        return sum(max(0.0, min(until, end) - max(since, begin)) for since, until in times)

    held = sum(run.job.gpus * count(run.stays) for run in runs)
    idle = sum(count(run.parts) for run in runs)
    lost = sum(run.job.gpus * run.lost for run in counted)
    span = end - begin
    return RunFigures(
        system=system,
        rate=rate,
        seed=seed,
        wait=statistics.fmean(waits),
        p99=find_percentile(waits, 0.99),
        interactive_wait=statistics.fmean(run.waited for run in counted if run.job.is_interactive),
        large_p99=find_percentile(large, 0.99),
        large_longest=large[-1],
        completed=sum(begin <= (run.finished or 0.0) <= end for run in runs) / span * HOUR,
        used=(held + idle) / span / GPUS,
        useful=(held - lost) / span / GPUS,
        overhead=lost / (held + idle),
        lost_hours=lost / HOUR,
        wait_again=statistics.fmean(run.waited - run.waited_first for run in counted),
        stops=sum(run.stops for run in counted),
        claims=sum(run.was_promised for run in counted),
        gave_up=sum(run.gave_up is not None for run in counted),
        sizes=tuple(_sum_up(gpus, counted) for gpus in sorted({r.job.gpus for r in counted})),
    )


def _sum_up(gpus: int, runs: Sequence[JobRun]) -> SizeWaits:
    waits = [run.waited for run in runs if run.job.gpus == gpus]
    return SizeWaits(
        gpus=gpus,
        mean=statistics.fmean(waits),
        longest=max(waits),
        part=sum(waits) / len(runs),
    )


def find_percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """All runs of the scenario.

    Attributes:
        largest: With how many jobs in an hour the mean wait of a system still reaches the goal;
            empty if it was not looked for.
    """

    runs: Sequence[RunFigures]
    largest: Mapping[System, float] = field(default_factory=dict)
    variation: Variation = Variation.NONE


def play_all(
    seeds: Sequence[int],
    *,
    variation: Variation = Variation.NONE,
    days: float = DAYS,
    processes: int | None = None,
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
) -> ScenarioOutcome:
    """Play all seeds with all systems at both rates, or with the `MAIN` ones under a variation.

    Args:
        seeds: The seeds.
        variation: What is otherwise than stated.
        days: How long jobs are submitted.
        processes: Runs side by side; one for each core if None.
        on_done: Gets how many runs have ended, and of how many.
    """
    systems = tuple(System) if variation is Variation.NONE else MAIN
    todo = [(each, rate, seed, days) for seed in seeds for rate in RATES for each in systems]
    found = []
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        for run in [pool.submit(play_seed, *each, variation) for each in todo]:
            found.append(run.result())
            on_done(len(found), len(todo))
        largest = {}
        if variation is Variation.NONE:
            play = partial(pool.map, play_seed)
            largest = {each: find_largest_rate(each, seeds[:5], play, days) for each in COMPARED}
    return ScenarioOutcome(runs=found, largest=largest, variation=variation)


def find_largest_rate(
    system: System,
    seeds: Sequence[int],
    play: Callable[..., Iterable[RunFigures]],
    days: float = DAYS,
) -> float:
    """Return the most jobs in an hour, in quarters, with which the mean wait reaches the goal.

    A higher rate is taken to have a longer wait. Rates from 4 to 16 are looked at.

    Args:
        system: The system.
        seeds: The seeds; their mean counts.
        play: `play_seed` of each of several systems, rates, seeds and days.
        days: How long jobs are submitted.
    """
    low, high = 4 * 4, 16 * 4
    while low + 1 < high:
        middle = (low + high) // 2
        runs = play([system] * len(seeds), [middle / 4] * len(seeds), seeds, [days] * len(seeds))
        low, high = (middle, high) if average(runs, "wait") <= GOAL_WAIT else (low, middle)
    return low / 4


def average(runs: Iterable[RunFigures], name: str) -> float:
    """Return the mean of a figure over seeds."""
    return statistics.fmean(getattr(run, name) for run in runs)


def group(runs: Iterable[RunFigures]) -> dict[tuple[float, System], list[RunFigures]]:
    """Return the runs of each rate and system, in the order of the seeds."""
    found: dict[tuple[float, System], list[RunFigures]] = {}
    for run in runs:
        found.setdefault((run.rate, run.system), []).append(run)
    return found


def judge(outcome: ScenarioOutcome) -> list[Goal]:
    """Compare the policy with its goals and with the other systems, at the higher rate."""
    groups = group(outcome.runs).items()
    of = {system: each for (rate, system), each in groups if rate == RATES[-1]}
    gentle, cohort, first = of[System.GENTLE], of[System.COHORT], of[System.FIRST_COME]
    minutes = {name: average(gentle, name) / 60 for name in ("wait", "interactive_wait")}
    worst = max(gentle, key=lambda run: run.wait)

    def ratio(name: str, other: Sequence[RunFigures]) -> float:
        return average(gentle, name) / max(average(other, name), 1e-9)

    rows: list[Target] = [
        ("mean wait, minutes", minutes["wait"], "<=", GOAL_WAIT / 60),
        (f"mean wait of the worst seed ({worst.seed}), minutes", worst.wait / 60, "<=", 12.5),
        ("completed in an hour", average(gentle, "completed"), ">=", 11.9),
        ("GPUs in use", average(gentle, "used"), ">=", 0.845),
        ("GPUs in useful work", average(gentle, "useful"), ">=", 0.84),
        ("overhead of stops", average(gentle, "overhead"), "<=", 0.03),
        ("wait of interactive jobs, minutes", minutes["interactive_wait"], "<=", 1.0),
        ("mean wait, of that without a policy", ratio("wait", cohort), "<=", 0.85),
        ("p99 of waits, of that without a policy", ratio("p99", cohort), "<=", 1.0),
        ("p99 of large gangs, of that without", ratio("large_p99", cohort), "<=", 1.1),
        ("longest wait of large gangs, of that without", ratio("large_longest", cohort), "<=", 1.0),
        ("mean wait, of first come first served", ratio("wait", first), "<=", 0.6),
    ]
    if outcome.largest:
        static, most = (outcome.largest[system] for system in COMPARED)
        words = f"most jobs in an hour with a wait of {GOAL_WAIT / 60:g} minutes ({most:g})"
        rows.append((f"{words}, of {static:g} with {COMPARED[0]}", most / static, ">=", 1.5))
    return judge_targets(rows)


def to_document(outcome: ScenarioOutcome) -> Mapping[str, Any]:
    """Return all figures in their documented form."""
    return {
        "scenario": "hundred-gpus",
        "variation": outcome.variation,
        "runs": [asdict(run) for run in outcome.runs],
        "largestRates": {system.value: rate for system, rate in outcome.largest.items()},
        "goals": [asdict(goal) for goal in judge(outcome)],
    }
