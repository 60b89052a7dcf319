"""Steps: what becomes of jobs while everybody is up."""

from __future__ import annotations

from tests.controlplane.audit import created
from tests.controlplane.polling import until
from tests.e2e.checks import (
    assert_complete,
    assert_left_nothing,
    assert_quota_is_free,
    assert_ran_once,
    assert_untouched,
    created_jobs,
    find_worker,
    read,
    wait_until_active,
)
from tests.e2e.fleet_under_test import Cluster, FleetUnderTest
from tests.e2e.objects import (
    GPUS,
    QUEUE,
    end_pods,
    make_job,
    make_resident,
    new_team,
    submit,
    wait_until_resident,
)


def a_burst_runs_once_each_on_both_workers(fleet: FleetUnderTest) -> None:
    team = new_team(fleet, "burst")
    pods = {f"burst-{i:02}": 1 + i % 2 for i in range(12)}
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        submit(fleet.manager, *(make_job(name, queue=team, pods=n) for name, n in pods.items()))
        assert_complete(fleet.manager, team, pods)
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []
    assert_ran_once(fleet.workers, team, pods)
    for worker in fleet.workers.values():
        assert created(worker, "jobs", team) != []
    assert created(fleet.manager, "pods", team) == []


def jobs_spill_over_and_their_status_comes_back(fleet: FleetUnderTest) -> None:
    """One worker is full: the next job runs on the other, and one more waits for either."""
    team = new_team(fleet, "spill")
    pods = dict.fromkeys(("first", "second", "third"), GPUS)
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        places = []
        for name in ("first", "second"):
            submit(fleet.manager, make_job(name, queue=team, pods=GPUS, runs_for="1h"))
            places.append(
                until(lambda job=name: find_worker(fleet.manager, team, job), f"{name} running")
            )
        assert sorted(places) == sorted(fleet.workers)
        submit(fleet.manager, make_job("third", queue=team, pods=GPUS, runs_for="1h"))
        where = f"--namespace={team}"
        waiting = "--for=jsonpath={.status.conditions[?(@.type=='QuotaReserved')].status}=False"
        workload = until(lambda: _workload_of(fleet, team, "third"), "Workload of third")
        fleet.manager.kubectl("wait", waiting, f"workload/{workload}", where, "--timeout=30s")
        end_pods(fleet.workers[places[0]], team, "first")
        third = until(lambda: find_worker(fleet.manager, team, "third"), "third running")
        assert third == places[0]
        for worker in fleet.workers.values():
            end_pods(worker, team)
        assert_complete(fleet.manager, team, pods)
        assert_left_nothing(fleet.workers, team)
        assert program.read_troubles() == []
    assert_ran_once(fleet.workers, team, pods)


def a_deleted_job_is_gone_everywhere(fleet: FleetUnderTest) -> None:
    team = new_team(fleet, "delete")
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        submit(fleet.manager, make_job("runs", queue=team, pods=2, runs_for="1h"))
        until(lambda: find_worker(fleet.manager, team, "runs"), "runs running")
        fleet.manager.kubectl("delete", "job/runs", f"--namespace={team}", "--timeout=60s")
        assert_left_nothing(fleet.workers, team)
        assert_left_nothing({"manager": fleet.manager}, team)
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []
    assert_ran_once(fleet.workers, team, {"runs": 2})


def a_job_is_deleted_that_waits_for_a_worker(fleet: FleetUnderTest) -> None:
    """The workers are full of what their own users run; that is left alone."""
    team = new_team(fleet, "pending")
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        for worker in fleet.workers.values():
            submit(worker, make_resident(team))
            wait_until_resident(worker, team)
        submit(fleet.manager, make_job("waits", queue=team, pods=2))
        until(lambda: _waits_in_global_queue(fleet.manager, team), "place in the global queue")
        fleet.manager.kubectl("delete", "job/waits", f"--namespace={team}", "--timeout=60s")
        for worker in fleet.workers.values():
            until(lambda at=worker: len(read(at, "workloads", team)) == 1, "no copy")
            assert read(worker, "jobs", team)["resident"]["status"]["ready"] == GPUS
            assert_untouched(worker, "jobs", team, "resident")
            assert created_jobs(worker, team) == []
            worker.kubectl("delete", "job/resident", f"--namespace={team}")
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []
    assert_left_nothing(fleet.workers, team)


def _waits_in_global_queue(manager: Cluster, team: str) -> bool:
    """Whether the Workload waits on the manager for room on any worker."""
    states = [
        state
        for workload in read(manager, "workloads", team).values()
        for state in workload["status"].get("admissionChecks", ())
    ]
    return any("waits in the global queue for room" in state["message"] for state in states)


def a_job_of_the_same_name_is_left_alone(fleet: FleetUnderTest) -> None:
    """Whose name is taken on one worker runs on the other."""
    team = new_team(fleet, "foreign")
    taken, free = fleet.workers
    foreign = make_job("train", queue=team, runs_for="1h")
    del foreign["metadata"]["labels"]
    foreign["spec"]["suspend"] = True
    submit(fleet.workers[taken], foreign)
    with fleet.running():
        wait_until_active(fleet.manager)
        submit(fleet.manager, make_job("train", queue=team, pods=2))
        assert_complete(fleet.manager, team, {"train": 2})
        assert_left_nothing({free: fleet.workers[free]}, team)
        until(lambda: not read(fleet.workers[taken], "workloads", team), "no copy left")
    assert created_jobs(fleet.workers[taken], team) == []
    assert_untouched(fleet.workers[taken], "jobs", team, "train")
    left = read(fleet.workers[taken], "jobs", team)
    assert left["train"]["spec"]["suspend"]
    assert_ran_once({free: fleet.workers[free]}, team, {"train": 2})
    fleet.workers[taken].kubectl("delete", "job/train", f"--namespace={team}")


def _workload_of(fleet: FleetUnderTest, team: str, job: str) -> str:
    for name, workload in read(fleet.manager, "workloads", team).items():
        if workload["metadata"]["ownerReferences"][0]["name"] == job:
            return name
    return ""
