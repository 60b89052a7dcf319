"""Plans by hand, for tests of one situation."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fleet.plan import Act, JobPlan, Plan

LONG = JobPlan(name="job1", at=1.0, gpus=1, seconds=300.0, priority="low", fails=False)


def make_plan(
    *acts: Act,
    workers: Mapping[str, int] | None = None,
    jobs: tuple[JobPlan, ...] = (LONG,),
    lost_timeout: float = 60.0,
) -> Plan:
    """A run with one manager, right clocks, and workers that are played."""
    quotas = dict(workers or {"a": 8, "b": 8})
    return Plan(
        seed=1,
        workers=quotas,
        played=frozenset(quotas),
        hub_gpus=1000,
        lost_timeout=lost_timeout,
        gc_interval=20.0,
        dispatcher="all",
        managers=1,
        page_size=500,
        skews={},
        jobs=jobs,
        acts=acts,
    )
