"""Histories that `test_multikueue_promises` found, each by name and with what went wrong in it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.properties.multikueue_fleet import LOST_TIMEOUT, Fleet, Worker, make_fleet


def run_on(fleet: Fleet, worker: Worker) -> None:
    """Have the worker win, and its job run."""
    fleet.step()
    fleet.admit(worker)
    worker.deliver()
    for _ in range(3):
        fleet.step()
    fleet.work(worker)
    worker.deliver()
    fleet.step()
    assert fleet.local.cluster_name == worker.name
    assert worker.job_runs


@pytest.mark.parametrize("restarted", [False, True])
def test_quota_is_held_by_what_runs_however_long_the_manager_was_away(restarted):
    """The eviction was older than twice workerLostTimeout at the manager's first reconcile."""
    fleet = make_fleet(("a", "b", "c"), race=False)
    worker = fleet.workers["a"]
    run_on(fleet, worker)
    fleet.evict()
    fleet.now += timedelta(seconds=2000)
    if restarted:
        fleet.restart()

    for _ in range(3):
        fleet.step()

    assert worker.workload.deactivating, "the worker was not asked to stop the job"
    assert (worker.job.deleting, fleet.local.has_quota) == (False, True)


def test_quota_is_held_by_a_job_that_its_worker_cannot_delete():
    fleet = make_fleet(race=False)
    worker = fleet.workers["a"]
    run_on(fleet, worker)
    fleet.evict()
    fleet.step()
    for _ in range(10):
        # Its controllers do nothing, so it is told to stop, then to delete the job, and keeps it.
        fleet.now += LOST_TIMEOUT
        fleet.step()
    assert worker.job.deleting
    assert fleet.local.has_quota

    fleet.work(worker)
    worker.deliver()
    for _ in range(3):
        fleet.step()
    assert not fleet.local.has_quota
