"""What a plan gets beside its own draws: other dispatchers, gates, drains, slow stops, hardware.

Drawn from a chance of its own, so that a seed keeps what it had before. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fleet.kinds import JOB, OTHERS
from tests.fleet.plan import BUSY, Act, JobPlan, Plan, build_plan
from tests.fleet.plan_owners import draw_owners
from tests.fleet.trainers import Habit
from tests.fleet.weather import Down

INCREMENTAL, EXTERNAL, GATED = 0.18, 0.12, 0.08
"""Shares of the runs."""
MOST_GATED = 3
"""Workers of a run in which preemption is orchestrated: none of them is played."""
DRAINS = ("true", "rate=60/min,at-once=1", "rate=120/min,at-once=2", "force,rate=120/min", "force")
MIXED = 0.2
"""Share of the runs in which some workers have other hardware, and jobs need half of that."""
SLOW = 0.15
"""Share of the jobs whose pods take their time to stop."""
PAUSED, MOST_PAUSES = 0.1, 5
"""Share of the runs in which managers are stopped for a while, and how often at most."""
SAVING, SAVING_JOBS = 0.15, 0.8
"""Share of the runs in which jobs may save their work before they are stopped, and of the jobs."""
MOST_SAVING = 4
"""GPUs of the manager in such a run: little, so that jobs have to leave for others."""
MOVING = 0.1
"""Share of the runs in which jobs move to other workers so that gangs start."""
KINDS = 0.7
"""Share of the runs in which jobs are of another kind than Job, and of the jobs in such a run."""


def make_seed_plan(seed: int) -> Plan:
    """Draw the run of a seed, with all that."""
    plan = build_plan(seed)
    chance = Random(f"{plan.seed} extras")
    order = tuple(chance.sample(list(plan.workers), len(plan.workers)))
    plan = replace(plan, order=order, jobs=tuple(_slow_down(chance, job) for job in plan.jobs))
    plan = _choose_dispatcher(plan, chance)
    acts = sorted((*plan.acts, *_draw_acts(plan, chance)), key=lambda act: act.at)
    acts = _wait_for_pods(acts, Random(f"{plan.seed} deletions"))
    plan = _mix(replace(plan, acts=tuple(acts)), Random(f"{plan.seed} hardware"))
    plan = _draw_kinds(plan, Random(f"{plan.seed} kinds"))
    plan = _draw_notices(plan, Random(f"{plan.seed} notices"))
    plan = _draw_migrations(plan, Random(f"{plan.seed} migrations"))
    plan = _draw_pauses(plan, Random(f"{plan.seed} pauses"))
    return draw_owners(plan, Random(f"{plan.seed} owners"))


def _draw_pauses(plan: Plan, chance: Random) -> Plan:
    """Have managers that are stopped with SIGSTOP, for less or more than their Lease lasts."""
    if chance.random() >= PAUSED:
        return plan
    acts = [*plan.acts]
    for job in plan.jobs[:MOST_PAUSES]:
        at = _moment(chance, plan) if chance.random() < 0.3 else job.at
        number, seconds = chance.randint(1, 12), chance.choice((3.0, 17.0, 40.0))
        arguments = (chance.randrange(plan.managers), number, seconds)
        acts.append(Act(at, "pause_manager_at_write", arguments))
    return replace(plan, acts=tuple(sorted(acts, key=lambda act: act.at)))


def _draw_notices(plan: Plan, chance: Random) -> Plan:
    """Have jobs that are told to save their work before others take their quota on the manager."""
    if plan.gated or chance.random() >= SAVING:
        return plan
    half = len(plan.jobs) // 2
    jobs = tuple(
        replace(
            job,
            saves=chance.choice(list(Habit)) if chance.random() < SAVING_JOBS else "",
            gpus=min(max(job.gpus, 2), MOST_SAVING),
            seconds=max(job.seconds, 150.0) if number < half else job.seconds,
            priority="low" if number < half else "high",
        )
        for number, job in enumerate(plan.jobs)
    )
    acts = [*plan.acts]
    if chance.random() < 0.5:
        at = round(chance.uniform(10.0, BUSY), 1)
        acts.append(Act(at, "protect", (round(chance.uniform(2.0, 60.0), 1),)))
    acts.sort(key=lambda act: act.at)
    return replace(plan, saving=True, hub_gpus=MOST_SAVING, jobs=jobs, acts=tuple(acts))


def _draw_migrations(plan: Plan, chance: Random) -> Plan:
    """Have two jobs on each worker, some of which end soon, and then gangs that need all of one.

    What is left of the small ones fits on fewer workers, if somebody moves.
    """
    many = len(plan.workers)
    if plan.gated or plan.saving or not 1 < many < 4 or chance.random() >= MOVING:
        return plan
    last = plan.jobs[-1]
    missing = range(2 * many + 1 - len(plan.jobs))
    jobs = [*plan.jobs, *(replace(last, name=f"more{number}") for number in missing)]
    sizes = [*(5,) * many, *(3,) * many]
    drawn = []
    for number, job in enumerate(jobs):
        is_small = number < len(sizes)
        drawn.append(
            replace(
                job,
                at=1.0 + number if is_small else round(chance.uniform(15.0, 60.0), 1),
                saves=chance.choice(list(Habit)) if chance.random() < SAVING_JOBS else "",
                gpus=sizes[number] if is_small else 8,
                seconds=chance.choice((40.0, 600.0)) if is_small else 60.0,
                priority="low",
                halves=False,
            )
        )
    drawn.sort(key=lambda job: job.at)
    workers = dict.fromkeys(plan.workers, 8)
    changed = replace(plan, workers=workers, fast=frozenset(), jobs=tuple(drawn), hub_gpus=1000)
    return replace(changed, saving=True, dispatcher="score", step=0, round_seconds=0.0)


def _draw_kinds(plan: Plan, chance: Random) -> Plan:
    """Have jobs of one more kind; the gangs with alternatives are Jobs."""
    kind = chance.choice(sorted(OTHERS)) if chance.random() < KINDS else JOB
    kinds = (kind if chance.random() < KINDS else JOB for _ in plan.jobs)
    jobs = (
        job if job.halves else replace(job, kind=kind)
        for job, kind in zip(plan.jobs, kinds, strict=True)
    )
    return replace(plan, jobs=tuple(jobs))


def _wait_for_pods(acts: list[Act], chance: Random) -> list[Act]:
    """Have half of the jobs that are deleted on workers stay there until their pods are gone."""
    return [
        replace(act, arguments=(*act.arguments, chance.random() < 0.5))
        if act.name == "delete_remote_job"
        else act
        for act in acts
    ]


def _mix(plan: Plan, chance: Random) -> Plan:
    """Have some workers with other hardware, on which gangs need half of their pods."""
    if chance.random() >= MIXED:
        return plan
    fast = frozenset(name for name in plan.workers if chance.random() < 0.5)
    jobs = tuple(replace(job, halves=job.gpus > 1) for job in plan.jobs)
    return replace(plan, fast=fast, jobs=jobs)


def _slow_down(chance: Random, job: JobPlan) -> JobPlan:
    return replace(job, stop=chance.choice((10.0, 40.0))) if chance.random() < SLOW else job


def _choose_dispatcher(plan: Plan, chance: Random) -> Plan:
    draw, step, seconds = chance.random(), chance.randint(1, 2), chance.choice((10.0, 40.0))
    if draw < INCREMENTAL:
        return replace(plan, dispatcher="incremental", step=step, round_seconds=seconds)
    if draw < INCREMENTAL + EXTERNAL:
        return replace(plan, dispatcher="external")
    if draw < INCREMENTAL + EXTERNAL + GATED and len(plan.workers) <= MOST_GATED:
        return _make_rivals(replace(plan, dispatcher="all", gated=True))
    return plan


def _make_rivals(plan: Plan) -> Plan:
    """Have workers that one job fills, and jobs that matter more than those before them."""
    half = len(plan.jobs) // 2
    low = (replace(j, gpus=8, priority="low", seconds=max(j.seconds, 150.0)) for j in plan.jobs)
    high = (replace(job, gpus=8, priority="high") for job in plan.jobs)
    jobs = (*list(low)[:half], *list(high)[half:])
    workers = dict.fromkeys(plan.workers, 8)
    return replace(plan, jobs=jobs, workers=workers, played=frozenset(), hub_gpus=1000)


def _draw_acts(plan: Plan, chance: Random) -> list[Act]:
    acts = []
    for job in plan.jobs:
        if chance.random() < 0.4 / len(plan.jobs):
            acts += _draw_drain(plan, chance, job)
    if chance.random() < 0.15:
        at, policy = _moment(chance, plan), chance.choice(("Hold", "HoldAndDrain"))
        acts.append(Act(at, "hold_hub", (policy, round(chance.uniform(2.0, 60.0), 1))))
    return acts


def _draw_drain(plan: Plan, chance: Random, job: JobPlan) -> list[Act]:
    """A worker is drained while jobs run; often something else goes wrong in the middle of it."""
    worker = chance.choice(list(plan.workers))
    at = round(min(job.at + chance.uniform(0.0, min(30.0, job.seconds)), BUSY), 1)
    order, seconds = chance.choice(DRAINS), round(chance.uniform(10.0, 120.0), 1)
    acts = [Act(at, "drain", (worker, order, seconds, job.name))]
    then = round(at + chance.choice((0.01, 0.1, 2.0, 10.0)) * chance.random(), 3)
    draw = chance.random()
    if draw < 0.25:
        cut = round(plan.lost_timeout * chance.choice((0.3, 1.3)), 1)
        number, after, down = chance.randint(1, 6), chance.random() < 0.5, chance.choice(list(Down))
        arguments = (0, number, after, 1.0, worker, cut, down)
        acts.append(Act(then, "kill_manager_at_write", arguments))
    elif draw < 0.5:
        down = chance.choice(list(Down))
        acts.append(Act(then, "outage", (worker, round(plan.lost_timeout * 0.5, 1), down)))
    return acts


def _moment(chance: Random, plan: Plan) -> float:
    job = chance.choice(plan.jobs)
    return round(min(job.at + chance.random() * chance.choice((0.5, 30.0)), BUSY), 3)
