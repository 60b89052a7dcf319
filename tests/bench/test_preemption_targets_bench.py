"""What parts of a DisruptionPolicy are worth (S-1 and S-3 to S-8, S-13 of docs/simulation.md).

The jobs of ``hundred-gpus``, each target on the same seeds with and without the part. Targets that
are missed are printed first. The tests in ``tests/unit/simulation/test_preemption_targets.py`` hold
the ones that are reached on fewer and shorter seeds. `SEEDS` and `DAYS` make it longer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from multiqueue.api.disruptions import StopCause
from multiqueue.model.disruption_policy import (
    BudgetRule,
    ClaimRule,
    DisruptionRules,
    Preference,
    SaveHabits,
)
from multiqueue.model.workload import Workload
from multiqueue.simulation.scenarios.hundred_gpus import GENTLE, GPUS, PoolJob
from multiqueue.simulation.scenarios.pool import Declare, PoolRun
from tests.unit.simulation import test_preemption_targets as targets
from tests.unit.simulation.test_preemption_targets import (
    DAY,
    EMPTY,
    LIAR,
    CrashLoop,
    count_stops,
    lost,
    mean_wait,
    of_liar,
    play_teams,
    urgent_wait,
)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

SEEDS = range(1, int(os.environ.get("SEEDS", "5")) + 1)
DAYS = float(os.environ.get("DAYS", "10"))


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure beside its goal, which is the most that it may be."""

    target: str
    text: str
    value: float
    goal: float

    @property
    def is_reached(self) -> bool:
        return self.value <= self.goal


def play(policy: DisruptionRules, declare: Declare = targets.true) -> list[list[PoolRun]]:
    return [targets.play(seed, policy, declare=declare, days=DAYS) for seed in SEEDS]


def flat(plays: list[list[PoolRun]]) -> list[PoolRun]:
    return [run for runs in plays for run in runs]


def p99(runs: list[PoolRun]) -> float:
    return sorted(run.waited for run in runs)[int(0.99 * (len(runs) - 1))]


def find_figures() -> Iterator[Figure]:
    none = flat(play(EMPTY))
    cheapest = flat(play(replace(EMPTY, prefer=Preference.LEAST_LOST_WORK)))
    yield Figure("S-1", "lost work, who loses least is stopped", lost(cheapest) / lost(none), 0.6)
    yield Figure("S-1", "mean wait", mean_wait(cheapest) / mean_wait(none), 1.05)
    yield from find_budget_figures()
    yield from find_notice_figures()
    yield from find_patience_figures()
    yield from find_loop_figures()
    yield from find_gang_figures()
    for declare, what in ((targets.true, "sizes only"), (targets.expect_exactly, "told run times")):
        free = flat(play(EMPTY, declare))
        turns = flat(play(replace(EMPTY, waiting=ClaimRule(passing=100)), declare))
        yield Figure(
            "S-8", f"mean wait, turns alone, {what}", mean_wait(turns) / mean_wait(free), 0.85
        )
        yield Figure("S-8", f"p99 wait, turns alone, {what}", p99(turns) / p99(free), 0.85)
    yield from find_liar_figures()


def find_budget_figures() -> Iterator[Figure]:
    """A load of 0.95."""
    ample, three, one = (
        replace(
            EMPTY,
            budgets=(
                BudgetRule(
                    policy=EMPTY.name,
                    name="loss",
                    window=DAY,
                    max_lost_percent=percent,
                    causes=frozenset(StopCause),
                ),
            ),
        )
        for percent in (100, 3, 1)
    )
    waits, worst = {}, {}
    for name, policy in (("free", ample), ("3", three), ("1", one)):
        plays = [targets.play(seed, policy, rate=13.4, days=DAYS) for seed in SEEDS]
        waits[name] = urgent_wait(flat(plays))
        worst[name] = 100 * max(map(targets.worst_day, plays)) / (GPUS * DAY)
    for percent in ("3", "1"):
        yield Figure(
            "S-3", f"% lost in the worst day, {percent} allowed", worst[percent], float(percent)
        )
        text = f"wait of urgent jobs, {percent} % allowed ({waits['free']:.0f} s without a budget)"
        yield Figure("S-3", text, waits[percent] / waits["free"], 1.5)


def find_notice_figures() -> Iterator[Figure]:
    hasty = flat(play(EMPTY, targets.cooperate))
    alone = flat(play(replace(targets.NOTICE, prefer=EMPTY.prefer), targets.cooperate))
    noticed = flat(play(targets.NOTICE, targets.cooperate))
    yield Figure("S-4", "lost work, notice alone", lost(alone) / lost(hasty), 0.4)
    yield Figure(
        "S-4", "lost work, and who loses least is stopped", lost(noticed) / lost(hasty), 0.4
    )
    later = urgent_wait(noticed) - urgent_wait(hasty)
    yield Figure("S-4", "seconds that urgent jobs wait longer", later, 180)
    yield Figure("S-4", "longest notice in seconds", max(targets.list_notices(noticed)), 301)


def find_patience_figures() -> Iterator[Figure]:
    def loosely(job: PoolJob, workload: Workload) -> Workload:
        return replace(workload, run_limit=round(1.1 * job.seconds) + 600)

    for says, what in ((targets.exact, "exact ends"), (loosely, "a tenth and 10 minutes more")):
        hasty, patient = play(GENTLE, says), play(replace(GENTLE, patience=600), says)
        yield Figure("S-5", f"stops, {what}", count_stops(patient) / count_stops(hasty), 0.85)
        later = urgent_wait(flat(patient)) - urgent_wait(flat(hasty))
        yield Figure("S-5", f"seconds that urgent jobs wait longer, {what}", later, 60)
        ratio = mean_wait(flat(patient)) / mean_wait(flat(hasty))
        yield Figure("S-5", f"mean wait, {what}", ratio, 1.05)


def find_loop_figures() -> Iterator[Figure]:
    starts, losses = [], []
    for seed in SEEDS:
        free, gentle = CrashLoop(EMPTY), CrashLoop(GENTLE)
        losses.append([lost(loop.play_loop(seed)) for loop in (free, gentle)])
        starts.append(gentle.starts)
    yield Figure("S-6", "starts in 6 hours", max(starts), 9)
    freely, gently = map(sum, zip(*losses, strict=True))
    yield Figure("S-6", "lost work of the others", gently / freely, 0.1)


def find_gang_figures() -> Iterator[Figure]:
    none, gentle = (
        [targets.play_gangs(seed, rules) for seed in SEEDS] for rules in (EMPTY, GENTLE)
    )
    longest = [sum(map(targets.longest_gang, plays)) for plays in (none, gentle)]
    yield Figure("S-7", "longest wait of gangs of 32", longest[1] / longest[0], 0.6)
    yield Figure("S-7", "mean wait of all", mean_wait(flat(gentle)) / mean_wait(flat(none)), 1.5)


def find_liar_figures() -> Iterator[Figure]:
    def hide(_: PoolJob, workload: Workload) -> Workload:
        return replace(workload, saves=None)

    def hide_and_claim_restart(_: PoolJob, workload: Workload) -> Workload:
        return replace(workload, saves=SaveHabits(restart=900))

    for says, what, honestly, learns in (
        (hide, "hides its checkpoints", targets.true, False),
        (hide_and_claim_restart, "does, and claims 15 minutes to begin again", targets.true, False),
        (targets.save_each_second, "claims to save each second", targets.true, False),
        (targets.expect_a_tenth, "declares a tenth", targets.expect_exactly, True),
    ):
        honest, lying = (
            play_teams(each, others=honestly, learns=learns, seeds=SEEDS, days=DAYS)
            for each in (honestly, says)
        )
        gain = 100 * (1 - mean_wait(of_liar(lying)) / mean_wait(of_liar(honest)))
        yield Figure("S-13", f"% of its wait that a team gains that {what}", gain, 5)
        others = [[run for run in runs if run.job.team != LIAR] for runs in (honest, lying)]
        harm = 100 * (mean_wait(others[1]) / mean_wait(others[0]) - 1)
        yield Figure("S-13", "% that the others wait longer then", harm, 5)


def test_what_parts_of_a_policy_are_worth(capsys: pytest.CaptureFixture[str]) -> None:
    figures = sorted(find_figures(), key=lambda figure: figure.is_reached)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(SEEDS)} seeds of {DAYS:g} days\n")
        for each in figures:
            verdict = "reached" if each.is_reached else "missed"
            sys.stdout.write(
                f"{verdict:8} {each.target:5} {each.text}: {each.value:.3g} (goal {each.goal:g})\n"
            )
    assert sum(each.is_reached for each in figures) > len(figures) / 2
