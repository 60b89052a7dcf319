"""What seeds have found, each as small as it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.plan import Act
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan
from tests.fleet.weather import Fault

SHORT = replace(LONG, seconds=5.0)


def breaches(*acts, **plan):
    return [str(breach) for breach in run_plan(make_plan(*acts, **plan)).breaches]


@pytest.mark.parametrize("milliseconds", range(0, 30, 2))
def test_no_write_that_gets_lost_leaves_a_workload_waiting(milliseconds):
    """A nomination that was not written was remembered as if it had been."""
    lost = ((Fault.LOST_REQUEST, 1.0),)
    storm = Act(1.0 + milliseconds / 1000, "storm", ("hub", 2.0, lost))
    assert not breaches(storm, workers={"a": 8}, jobs=(SHORT,))


def test_a_copy_that_its_worker_evicts_and_admits_again_does_not_run_without_quota_here():
    """The manager's API server is slow to take the eviction; the worker is not."""
    slow = Act(9.0, "storm", ("hub", 60.0, ((Fault.LATE, 0.5),)))
    assert not breaches(slow, Act(10.0, "evict_there", ("a", "job1")), workers={"a": 8})


def test_an_outage_that_ends_before_the_grace_does_costs_nothing():
    """The pause between two attempts to connect outlasted the grace."""
    outage = Act(10.0, "outage", ("a", 75.0, "refuses"))
    assert not breaches(outage, workers={"a": 8}, lost_timeout=110.0)
