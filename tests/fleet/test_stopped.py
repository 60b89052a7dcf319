"""Managers that are stopped with SIGSTOP right after one of their writes, and go on later."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from multiqueue.kube.leader_election import LeaderElector
from tests.fleet.plan import Act, Plan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan

SHORT = replace(LONG, seconds=30.0)
LONGER_THAN_THE_LEASE = 40.0


def make_stopped_plan(number: int, *, at: float = 0.9) -> Plan:
    """Two managers; each is stopped at one of its next writes, if it comes to so many."""
    acts = [
        Act(at, "pause_manager_at_write", (index, number, LONGER_THAN_THE_LEASE))
        for index in range(2)
    ]
    evicted = Act(at + 10.0, "deactivate", ("job1", 20.0))
    return replace(make_plan(*acts, evicted, jobs=(SHORT,)), managers=2)


NUMBERS = [
    number if number % 6 == 0 else pytest.param(number, marks=pytest.mark.fleet)
    for number in range(1, 31)
]


@pytest.mark.parametrize("number", NUMBERS)
def test_who_goes_on_after_its_lease_was_lost_runs_nothing_twice(number: int) -> None:
    report = run_plan(make_stopped_plan(number))
    assert not report.breaches
    assert report.counts["lost lease"]


@pytest.mark.parametrize("seconds", [40.0, 40.5, 41.0, 41.5])
def test_who_was_stopped_while_it_renewed_its_lease_does_not_lead_any_more(seconds: float) -> None:
    """It went on for the pause between two renewals, and deleted what the other one had started."""
    leader = 1
    stopped = Act(9.0, "pause_manager_at_write", (leader, 1, seconds, "/leases/"))
    report = run_plan(replace(make_plan(stopped, jobs=(LONG,)), managers=2))
    assert not report.breaches
    assert report.counts["lost lease"]


@pytest.mark.fleet
def test_a_manager_that_does_not_notice_that_its_lease_is_lost_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def keep(self: LeaderElector, renewed_at: float) -> None:
        del self, renewed_at
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(LeaderElector, "_keep", keep)
    report = run_plan(make_stopped_plan(6))
    assert "OneLeads" in {breach.checker for breach in report.breaches}
