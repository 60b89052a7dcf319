"""Histories that random search finds rarely, told once each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from multiqueue.dispatch.decide.view import LocalJob
from tests.properties.multikueue_fleet import LOST_TIMEOUT, Fleet, make_fleet


def admit_on(fleet: Fleet, name: str) -> None:
    fleet.admit(fleet.workers[name])
    if fleet.workers[name].up:
        fleet.workers[name].deliver()


def run_on(fleet: Fleet, name: str) -> None:
    """Offer, admit, start, and bring the status back."""
    fleet.reserve()
    fleet.step()
    admit_on(fleet, name)
    fleet.step()
    fleet.work(fleet.workers[name])
    fleet.workers[name].deliver()
    fleet.step()


def test_a_job_made_by_a_killed_manager_keeps_others_from_starting():
    fleet = make_fleet(("a", "b"))
    fleet.step()
    admit_on(fleet, "a")
    fleet.step(writes=3)  # the two parts of the loser, then the job: killed before the latch
    assert fleet.workers["a"].job is not None
    fleet.restart()
    fleet.cut(fleet.workers["a"])
    fleet.step()
    admit_on(fleet, "b")
    fleet.step()
    assert fleet.workers["b"].job is None
    fleet.now += LOST_TIMEOUT
    fleet.step()
    assert fleet.workers["b"].job is not None


def test_a_manager_that_starts_while_a_nominated_worker_is_away_suspects_it():
    fleet = make_fleet(("a", "b"))
    fleet.step()
    admit_on(fleet, "a")
    fleet.step(writes=3)
    fleet.cut(fleet.workers["a"])
    fleet.restart()
    fleet.step()
    admit_on(fleet, "b")
    fleet.step()
    assert fleet.workers["b"].job is None


def test_an_eviction_does_not_make_a_restarted_manager_forget_the_old_job():
    fleet = make_fleet(("a", "b"), race=False)
    run_on(fleet, "a")
    fleet.evict()
    fleet.cut(fleet.workers["a"])
    fleet.restart()
    fleet.local = replace(fleet.local, job=LocalJob(active=False))  # what was last brought back
    fleet.core()
    fleet.reserve()
    fleet.step()
    admit_on(fleet, "b")
    fleet.step()
    assert fleet.workers["b"].job is None


def test_a_worker_that_goes_before_a_new_manager_looks_may_run_what_is_being_evicted():
    """It was connected for a moment, but nobody looked for this Workload there then."""
    fleet = make_fleet(("a", "b"), race=False)
    run_on(fleet, "a")
    fleet.evict()
    fleet.restart()
    fleet.cut(fleet.workers["a"])
    for _ in range(3):
        fleet.step()
    assert fleet.local.has_quota
    fleet.now += LOST_TIMEOUT
    for _ in range(3):
        fleet.step()
    assert not fleet.local.has_quota


def test_a_returning_worker_is_fenced_though_its_admission_is_older():
    """G-1."""
    fleet = make_fleet(("a", "b"), race=False)
    run_on(fleet, "a")
    fleet.cut(fleet.workers["a"])
    fleet.now += LOST_TIMEOUT + timedelta(seconds=1)
    for _ in range(4):
        fleet.step()
        fleet.core()
    run_on(fleet, "b")
    assert fleet.local.cluster_name == "b"
    fleet.heal(fleet.workers["a"])
    fleet.step()
    fleet.work(fleet.workers["a"])
    assert fleet.workers["a"].job is None
    assert fleet.local.cluster_name == "b"
    assert fleet.workers["b"].job is not None


def test_a_lost_worker_that_comes_back_in_time_goes_on():
    fleet = make_fleet(("a", "b"), race=False)
    run_on(fleet, "a")
    job = fleet.workers["a"].job
    fleet.cut(fleet.workers["a"])
    fleet.now += LOST_TIMEOUT - timedelta(seconds=1)
    fleet.step()
    fleet.core()
    fleet.heal(fleet.workers["a"])
    fleet.step()
    assert fleet.local.cluster_name == "a"
    assert fleet.workers["a"].job == job


@pytest.mark.parametrize("restarted", [False, True], ids=["stopped", "restarted"])
def test_quota_is_held_by_what_runs_however_long_the_manager_was_away(restarted):
    """The eviction was older than twice workerLostTimeout when the manager came to it."""
    fleet = make_fleet(("a", "b", "c"), race=False)
    run_on(fleet, "a")
    fleet.evict()
    fleet.now += timedelta(seconds=2000)
    if restarted:
        fleet.restart()
    for _ in range(3):
        fleet.step()
    worker = fleet.workers["a"]
    assert worker.workload.deactivating, "the worker was not asked to stop the job"
    assert (worker.job.deleting, fleet.local.has_quota) == (False, True)


@pytest.mark.parametrize("evicted", [False, True], ids=["deleted there", "evicted here"])
def test_a_copy_that_its_worker_finishes_because_its_job_is_gone_ends_nothing(evicted):
    fleet = make_fleet(("a",))
    run_on(fleet, "a")
    worker = fleet.workers["a"]
    if evicted:
        fleet.evict()
        fleet.step()
        fleet.work(worker)
        worker.deliver()
        assert not fleet.step(writes=2)  # the status, then the job: killed before the copy
    else:
        worker.job = None
    fleet.end_without_job(worker)
    fleet.restart()
    fleet.step()
    fleet.core()
    assert worker.workload is None
    assert not fleet.local.finished


def test_quota_is_held_by_a_job_that_its_worker_does_not_delete():
    fleet = make_fleet(("a", "b"), race=False)
    run_on(fleet, "a")
    fleet.evict()
    worker = fleet.workers["a"]
    for _ in range(10):
        # Its controllers do nothing: it is told to stop, then to delete the job, and keeps it.
        fleet.step()
        fleet.now += LOST_TIMEOUT
    assert worker.job.deleting
    assert fleet.local.has_quota
    fleet.work(worker)
    worker.deliver()
    for _ in range(3):
        fleet.step()
    assert not fleet.local.has_quota
