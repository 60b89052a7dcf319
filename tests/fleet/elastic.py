"""Runs in which all jobs are elastic, and grow and shrink while other things go wrong.

Several Workloads stand for such a job one after the other, and its remote job changes from one to
the next: promises that go by Workload are not looked at here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from tests.builders.workloads import NAMESPACE
from tests.fleet.acts import ACTS
from tests.fleet.checkers import Checker
from tests.fleet.checkers.checker import Report as Tell
from tests.fleet.checkers.fleet import NothingForeignTouched, OneLeads
from tests.fleet.checkers.rest import NoOrphans, NothingIsLost, RestIsQuiet
from tests.fleet.kinds import JOB
from tests.fleet.objects import Json
from tests.fleet.plan import BUSY, Act, JobPlan, Plan
from tests.fleet.plan_extras import make_seed_plan
from tests.fleet.run import Report, run_plan
from tests.fleet.world import FleetWorld

MOST_PODS = 8
"""What the first worker has room for."""


def run_elastic_seed(seed: int, *, keep_log: bool = False) -> Report:
    """Live through the run of a seed with elastic jobs instead of its own."""
    return run_plan(make_elastic_plan(seed), keep_log=keep_log, build=build_elastic_checkers)


def make_elastic_plan(seed: int) -> Plan:
    """Draw a run: that of the seed on real workers, where the manager's quota is no limit."""
    plan, chance = make_seed_plan(seed), Random(f"{seed} elastic")
    jobs = tuple(
        replace(job, kind=JOB, elastic=True, halves=False, gpus=chance.randint(1, 4))
        for job in plan.jobs
    )
    acts = [*plan.acts, *(act for job in jobs for act in _draw_acts(job, chance))]
    return replace(
        plan,
        jobs=jobs,
        acts=tuple(sorted(acts, key=lambda act: act.at)),
        hub_gpus=1000,
        played=frozenset(),
        gated=False,
        fast=frozenset(),
    )


def _draw_acts(job: JobPlan, chance: Random) -> list[Act]:
    def moment() -> float:
        return round(min(job.at + chance.uniform(0.0, 60.0), BUSY - 1.0), 1)

    acts = [
        Act(moment(), "scale", (job.name, chance.randint(1, MOST_PODS)))
        for _ in range(chance.randint(1, 4))
    ]
    return [*acts, Act(moment(), "forget_replaced", (job.name,))]


def build_elastic_checkers(world: FleetWorld, note: Callable[[str, str], None]) -> list[Checker]:
    """Return those that look at jobs, or at all that there is."""
    kinds = (OneClusterRuns, NothingForeignTouched, OneLeads, NothingIsLost, NoOrphans, RestIsQuiet)
    return [kind(world, partial(note, kind.__name__)) for kind in kinds]


class OneClusterRuns(Checker):
    """The pods of a job are on one cluster, as long as no worker with some is out of reach."""

    def __init__(self, world: FleetWorld, report: Tell) -> None:
        super().__init__(world, report)
        self._where: dict[str, set[str]] = defaultdict(set)
        world.pods_listeners.append(self._look)

    def _look(self, cluster: str, job: Json, begin: bool) -> None:
        name = job["metadata"]["name"]
        where = self._where[name]
        (where.add if begin else where.discard)(cluster)
        if len(where) > 1 and not any(map(self.world.truth.lost_for, where)):
            self.report(f"{name} runs on {', '.join(sorted(where))}")


# ---------------------------------------------------------------- acts


async def scale(world: FleetWorld, job: str, pods: int) -> None:
    """Ask for another number of pods."""
    key = f"{NAMESPACE}/{job}"
    if world.hub.find("jobs", key) is not None:
        world.hub.edit("jobs", key, {"spec": {"parallelism": pods}})


async def forget_replaced(world: FleetWorld, job: str) -> None:
    """Delete the slices of a job that others took over from, whoever still needs to know them."""
    for workload in list(world.hub.list_all("workloads")):
        metadata = workload["metadata"]
        owners = (owner["name"] for owner in metadata.get("ownerReferences") or ())
        if job in owners and _is_replaced(workload):
            key = f"{NAMESPACE}/{metadata['name']}"
            world.hub.edit("workloads", key, {"metadata": {"finalizers": None}})
            world.hub.mark_deleted("workloads", key)


def _is_replaced(workload: Json) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each["reason"] == "WorkloadSliceReplaced" for each in conditions)


ACTS.update(scale=scale, forget_replaced=forget_replaced)
