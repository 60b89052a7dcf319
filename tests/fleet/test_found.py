"""What seeds have found, each as small as it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.plan import Act
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan
from tests.fleet.weather import Down, Fault

pytestmark = pytest.mark.fleet
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
    outage = Act(10.0, "outage", ("a", 75.0, Down.REFUSES))
    assert not breaches(outage, workers={"a": 8}, lost_timeout=110.0)


def test_a_deletion_that_is_refused_is_asked_for_again():
    """Taken for one of another object of that name, it left a job behind."""
    refusing = Act(2.0, "storm", ("a", 20.0, ((Fault.CONFLICT, 1.0),)))
    assert not breaches(refusing, workers={"a": 8}, jobs=(SHORT,))


def test_a_worker_that_shows_no_jobs_to_a_new_manager_may_run_them():
    """The quota went, and the copy with it, as if there were none."""
    hidden = Act(10.0, "unserve_jobs", ("a", 30.0))
    killed = Act(11.0, "kill_manager", (0, 1.0))
    evicted = Act(15.0, "deactivate", ("job1", 40.0))
    assert not breaches(hidden, killed, evicted, workers={"a": 8})


def test_the_quota_is_held_though_the_status_here_never_told_that_pods_run():
    """Its worker is lost as they begin: the job looks as if nothing of it ran."""
    lost = Act(1.8, "outage", ("a", 40.0, Down.HANGS))
    evicted = Act(5.0, "deactivate", ("job1", 20.0))
    assert not breaches(lost, evicted, workers={"a": 8})


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize(("at", "seconds"), [(0.5, 20.0), (10.0, 80.0), (30.0, 300.0)])
def test_a_worker_that_is_restored_from_a_backup_is_seen_as_it_is(at, seconds, silent):
    """It took the version of our watches, which it was to reach much later, and told nothing."""
    restored = Act(at, "restore", ("a", seconds, silent))
    moved = Act(15.0, "drain", ("a", "force", 60.0, "job1"))
    assert not breaches(restored, moved, jobs=(replace(LONG, seconds=100.0),))


GONE = {
    "the manager is killed": Act(15.0, "kill_manager", (0, 1.0)),
    "the connection is lost": Act(9.5, "outage", ("a", 10.0, Down.REFUSES)),
}


@pytest.mark.parametrize("seconds", [30.0, 200.0])
@pytest.mark.parametrize("gone", GONE.values(), ids=list(GONE))
def test_a_kubeconfig_of_another_cluster_does_not_mean_that_the_jobs_of_the_first_are_gone(
    gone, seconds
):
    """They were started elsewhere at once, beside those that ran on."""
    unused = Act(0.2, "remake_cluster", ("b", seconds + 20.0))
    swapped = Act(10.0, "swap_secret", ("a", "b", seconds))
    assert not breaches(unused, swapped, gone, jobs=(replace(LONG, seconds=100.0),))


@pytest.mark.parametrize("seconds", [20.0, 100.0])
def test_the_kubeconfig_of_another_worker_costs_that_one_no_job(seconds):
    """The older name counted, and what it found on the worker of the younger one was deleted."""
    swapped = Act(10.0, "swap_secret", ("a", "b", seconds))
    job = replace(LONG, gpus=2, seconds=100.0)
    report = run_plan(make_plan(swapped, workers={"a": 1, "b": 8}, jobs=(job,)))
    assert not report.breaches
    assert report.counts["pods"] == 2, "begun once and ended once"


@pytest.mark.parametrize("number", range(6, 11))
def test_a_queue_that_is_held_takes_no_quota_of_what_a_worker_may_run_already(number):
    """The manager ended between the job there and the check here: not admitted, yet it ran."""
    killed = Act(0.99, "kill_manager_at_write", (0, number, True, 10.0, "a", 0.0, Down.HANGS))
    assert not breaches(killed, Act(5.0, "hold_hub", ("Hold", 30.0)), workers={"a": 8})


@pytest.mark.parametrize("number", range(4))
def test_a_new_manager_looks_for_an_evicted_job_also_where_no_config_leads_any_more(number):
    """The MultiKueueConfig was gone, so no worker was asked before the quota went."""
    gone = Act(10.0, "remake_check", ("multikueueconfigs", 60.0))
    evicted = Act(20.0, "hold_hub", ("HoldAndDrain", 30.0))
    killed = Act(19.9, "kill_manager_at_write", (0, number, True, 1.0, "b", 0.0, Down.REFUSES))
    assert not breaches(
        gone, killed, evicted, workers={"a": 8}, jobs=(replace(LONG, seconds=100.0),)
    )
