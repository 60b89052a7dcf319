"""What the owners of the workers do in a run: the acts of `owners`.

Drawn from a chance of its own, as in `plan_extras`. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.fleet.owners import EDITS
from tests.fleet.plan import BUSY, Act, Plan

MEDDLED, MOST_ACTS = 0.25, 3
"""Share of the runs in which owners do something, and how often at most."""
RIGHTS = tuple(
    (method, plural)
    for method in ("GET", "POST", "PATCH", "DELETE")
    for plural in ("jobs", "workloads", "clusterqueues")
)


def draw_owners(plan: Plan, chance: Random) -> Plan:
    """Have owners do a few things, mostly about when a job is on its way."""
    if chance.random() >= MEDDLED:
        return plan
    acts = [*plan.acts]
    for _ in range(chance.randint(1, MOST_ACTS)):
        job = chance.choice(plan.jobs)
        at = job.at + chance.random() * chance.choice((0.5, 5.0, min(60.0, job.seconds)))
        name = chance.choice(sorted(DRAWS))
        arguments = DRAWS[name](plan, chance, chance.choice(list(plan.workers)), job.name)
        acts.append(Act(round(min(at, BUSY), 3), name, arguments))
    return replace(plan, acts=tuple(sorted(acts, key=lambda act: act.at)))


def _restore(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan, job
    seconds = round(chance.choice((2.0, 20.0, 100.0)) * chance.random(), 1)
    return worker, seconds, chance.random() < 0.5


def _forbid(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan, job
    rights = tuple(chance.sample(RIGHTS, chance.randint(1, 3)))
    return worker, rights, _seconds(chance)


def _hold(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan
    return worker, job, chance.choice(("job", "copy")), 2 * _seconds(chance)


def _edit(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan
    return worker, job, chance.choice(("job", "copy")), chance.choice(sorted(EDITS))


def _lose(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan, job
    return worker, _seconds(chance)


def _remake(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del plan, worker, job
    return chance.choice(("admissionchecks", "multikueueconfigs")), _seconds(chance)


def _swap(plan: Plan, chance: Random, worker: str, job: str) -> tuple[Any, ...]:
    del job
    return worker, chance.choice(list(plan.workers)), 2 * _seconds(chance)


def _seconds(chance: Random) -> float:
    return round(chance.uniform(2.0, 60.0), 1)


DRAWS = {
    "restore": _restore,
    "forbid": _forbid,
    "hold_deletion": _hold,
    "edit_there": _edit,
    "lose_namespace": _lose,
    "lose_kinds": _lose,
    "remake_check": _remake,
    "swap_secret": _swap,
}
