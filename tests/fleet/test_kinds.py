"""The life of a job of every kind on workers, with what happens to it on the way.

A kind that is simulated and runs on workers is in `INTEGRATIONS`, and so in these tests.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.kinds import INTEGRATIONS, plural_of
from tests.fleet.plan import Act, JobPlan, Plan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import Report, run_plan

pytestmark = pytest.mark.fleet
MANY = {("workloads", True): 6, ("workloads", False): 3, ("jobs", True): 4, ("jobs", False): 2}
"""How often at least a manager is killed at its writes to objects of a kind."""
every_kind = pytest.mark.parametrize("kind", INTEGRATIONS)


def make_job(kind: str, name: str = "job1", **what: object) -> JobPlan:
    return replace(LONG, **{"name": name, "kind": kind, "seconds": 20.0, **what})


def run(*acts: Act, jobs: tuple[JobPlan, ...], hub_gpus: int = 1000) -> Report:
    """Live through a run on two workers with controllers of their own."""
    plan: Plan = make_plan(*acts, jobs=jobs)
    return run_plan(replace(plan, played=frozenset(), hub_gpus=hub_gpus), keep_log=True)


def breaches(report: Report) -> list[str]:
    return [str(breach) for breach in report.breaches]


@every_kind
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("of", ["workloads", "jobs"])
def test_a_manager_that_is_killed_at_each_write_loses_nothing(
    kind: str, of: str, after: bool
) -> None:
    """From the first write to the last, over an eviction in the middle."""
    plural = plural_of(kind) if of == "jobs" else of
    killing = Act(0.9, "kill_manager_at_each_write", (f"/{plural}", after, 0.3, 120.0))
    evicting = Act(15.0, "deactivate", ("job1", 15.0))
    report = run(killing, evicting, jobs=(make_job(kind, gpus=4),))
    assert breaches(report) == []
    assert report.counts["killed"] >= MANY[of, after]


@every_kind
def test_it_is_preempted_moved_off_a_worker_and_ends(kind: str) -> None:
    low, high = make_job(kind, gpus=8), make_job(kind, "job2", at=10.0, gpus=8, priority="high")
    failing = make_job(kind, "job3", at=80.0, gpus=3, fails=True)
    draining = Act(60.0, "drain", ("a", "force", 60.0, "job1"))
    raising = Act(85.0, "change_priority", ("job3", "high"))
    report = run(draining, raising, jobs=(low, high, failing), hub_gpus=8)
    assert breaches(report) == []
    assert any("job1" in line and "Evicted" in line for line in report.lines)


@every_kind
def test_it_leaves_nothing_at_whatever_stage_it_is_deleted(kind: str) -> None:
    stages = (0.002, 0.006, 0.012, 0.02, 0.5, 5.0)
    jobs = tuple(
        make_job(kind, f"job{number}", at=1.0 + 10 * number, gpus=2)
        for number, _ in enumerate(stages)
    )
    deleting = (
        Act(job.at + stage, "delete_job", (job.name,))
        for job, stage in zip(jobs, stages, strict=True)
    )
    assert breaches(run(*deleting, jobs=jobs)) == []
