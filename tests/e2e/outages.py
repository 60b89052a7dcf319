"""Steps: somebody is killed, and comes back."""

from __future__ import annotations

from tests.controlplane.audit import created
from tests.controlplane.polling import until
from tests.e2e.checks import (
    assert_complete,
    assert_left_nothing,
    assert_quota_is_free,
    assert_ran_once,
    find_worker,
    read,
    wait_until_active,
)
from tests.e2e.fleet_under_test import FleetUnderTest
from tests.e2e.moves import run_one
from tests.e2e.objects import QUEUE, end_pods, make_job, new_team, submit

PATIENT = {"leaderElect": True, "leaseDuration": "120s", "renewDeadline": "90s"}
"""So that a slow start of the API server does not cost it the lead: nothing here restarts it."""
LOST_SECONDS = 5


def a_killed_manager_goes_on_where_it_was(fleet: FleetUnderTest) -> None:
    """Amid a burst; the jobs on the workers end while there is no manager."""
    team = new_team(fleet, "kill")
    pods = {f"kill-{i:02}": 1 for i in range(12)}
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        submit(fleet.manager, *(make_job(name, queue=team) for name in pods))
        until(
            lambda: sum(len(created(each, "jobs", team)) for each in fleet.workers.values()) > 2,
            "jobs on the workers",
        )
        program.kill()
    jobs = read(fleet.manager, "jobs", team).values()
    assert any("completionTime" not in job.get("status", {}) for job in jobs)
    with fleet.running() as program:
        assert_complete(fleet.manager, team, pods)
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []
    assert_ran_once(fleet.workers, team, pods)


def a_worker_that_comes_back_in_time_keeps_its_job(fleet: FleetUnderTest) -> None:
    team = new_team(fleet, "outage")
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        here, _ = run_one(fleet, team)
        with fleet.workers[here].outage():
            lost = "--for=condition=Active=false", "--timeout=60s"
            fleet.manager.kubectl("wait", f"multikueuecluster/{here}", *lost)
        wait_until_active(fleet.manager)
        end_pods(fleet.workers[here], team)
        assert_complete(fleet.manager, team, {"train": 2})
        assert_left_nothing(fleet.workers, team)
        others = [line for line in program.read_troubles() if f'"worker":"{here}"' not in line]
        assert others == []
    assert_ran_once(fleet.workers, team, {"train": 2})


def a_worker_that_comes_back_too_late_is_fenced(fleet: FleetUnderTest) -> None:
    """The job runs elsewhere by then: what comes back is deleted, and nothing of it counts."""
    team = new_team(fleet, "fenced")
    with fleet.running(multiKueue={"workerLostTimeout": f"{LOST_SECONDS}s"}):
        wait_until_active(fleet.manager)
        here, there = run_one(fleet, team)
        with fleet.workers[here].outage():
            until(lambda: find_worker(fleet.manager, team, "train") == there, f"train on {there}")
        wait_until_active(fleet.manager)
        assert_left_nothing({here: fleet.workers[here]}, team)
        assert find_worker(fleet.manager, team, "train") == there
        end_pods(fleet.workers[there], team)
        assert_complete(fleet.manager, team, {"train": 2}, moved=True)
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
    for worker in fleet.workers.values():
        assert_ran_once({"": worker}, team, {"train": 2})


def an_outage_of_the_managers_server_loses_nothing(fleet: FleetUnderTest) -> None:
    """The jobs end while nobody can be told."""
    team = new_team(fleet, "unseen")
    pods = {"unseen-a": 4, "unseen-b": 4}
    with fleet.running(leaderElection=PATIENT):
        wait_until_active(fleet.manager)
        places = [run_one(fleet, team, name, pods=count)[0] for name, count in pods.items()]
        assert sorted(places) == sorted(fleet.workers)
        with fleet.manager.outage():
            for worker in fleet.workers.values():
                end_pods(worker, team)
        assert_complete(fleet.manager, team, pods)
        assert_left_nothing(fleet.workers, team)
    assert_ran_once(fleet.workers, team, pods)
