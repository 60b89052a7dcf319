"""A manager's control plane that lost everything, and got its backup: docs/upgrades.md."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.audit import created
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import Fleet, running_own_fleet
from tests.controlplane.installed import CONFIG
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.e2e.checks import (
    assert_complete,
    assert_left_nothing,
    read,
    wait_until_active,
)
from tests.e2e.objects import end_pods, make_job, new_team, set_up, submit
from tests.integration.page_commands import PageBlock, PageShell, read_blocks

PAGE = CONFIG.parent / "docs" / "upgrades.md"
MARK = f"it needs etcd; tests/controlplane/{Path(__file__).name} runs it"
RUNS, WAITS = {"runs": 1, "ends": 2}, {"sent": 2, "waits": 4}
"""Jobs and their pods, at the time of the backup. One of the four GPUs is left."""
KNOWN = {"done": 1, **RUNS, **WAITS}
AFTER = (RUNS, {"runs": 1, "sent": 2})
"""What may run after the restore. The worker does not have ``ends`` any more, so it is put back
into its queue, behind ``sent``; but it may be admitted before ``sent`` is looked at again."""
EVER = KNOWN | {"ends": 4, "sent": 4, "later": 1}
"""The pods that were ever made: what was not in the backup is done again, or is not known."""


@pytest.mark.timeout(400)
def test_jobs_go_on_where_they_were_after_a_restore(tmp_path: Path) -> None:
    require(*NEEDED, "kube-scheduler", "kwok", "etcdctl", "etcdutl")
    save, restore, look = (b for b in read_blocks(PAGE.read_text()) if b.reason == MARK)
    with running_own_fleet(tmp_path / "fleet") as fleet:
        set_up(fleet)
        team = new_team(fleet, "restore")
        shell = PageShell(tmp_path, environment_of(fleet.manager))
        try:
            with fleet.running() as program:
                wait_until_active(fleet.manager)
                start_jobs(fleet, team)
                before = pods_of(fleet, team, "runs")
                run_block(shell, save)
                go_on_after_the_backup(fleet, team)
                program.kill()
            with fleet.manager.outage():
                shutil.rmtree(fleet.manager.folder / "etcd")
                run_block(shell, restore)
                (tmp_path / "restored").rename(fleet.manager.folder / "etcd")
            with fleet.running():
                wait_until_active(fleet.manager)
                run_block(shell, look)
                assert_as_promised(fleet, team, before)
        finally:
            shell.close()


def start_jobs(fleet: Fleet, team: str) -> None:
    """Have a job that has ended, two that run, and two that wait for what they have."""
    submit(fleet.manager, make_job("done", queue=team))
    assert_complete(fleet.manager, team, {"done": 1})
    jobs = [make_job(name, queue=team, pods=pods, runs_for="1h") for name, pods in RUNS.items()]
    submit(fleet.manager, *jobs)
    until(lambda: ready(fleet, team) == RUNS, "jobs that run")
    until(lambda: jobs_on_workers(fleet, team) == set(RUNS), "nothing left of the first job")
    for name, pods in WAITS.items():
        known = len(read(fleet.manager, "workloads", team))
        submit(fleet.manager, make_job(name, queue=team, pods=pods, runs_for="1h"))
        until(lambda: len(read(fleet.manager, "workloads", team)) > known, "its Workload")  # noqa: B023
        time.sleep(1)  # queues stand in the order of whole seconds


def go_on_after_the_backup(fleet: Fleet, team: str) -> None:
    """One job ends, another one is sent to the worker, and a third one is submitted."""
    end_jobs(fleet, team, "ends")
    submit(fleet.manager, make_job("later", queue=team, runs_for="1h"))
    wanted = {"runs": 1, "sent": 2, "later": 1}
    until(lambda: ready(fleet, team) == wanted, "jobs that run since the backup")
    until(lambda: jobs_on_workers(fleet, team) == set(wanted), "nothing left of the one that ended")


def assert_as_promised(fleet: Fleet, team: str, before: dict[str, str]) -> None:
    """None of those in the backup is lost; what ran all the time, or had ended, ran once."""

    def settled() -> bool:
        running = ready(fleet, team)
        return running in AFTER and jobs_on_workers(fleet, team) == set(running)

    until(settled, "jobs that run, and nothing left of what came later")
    went_on = "sent" in ready(fleet, team)
    assert set(read(fleet.manager, "jobs", team)) == set(KNOWN)
    assert pods_of(fleet, team, "runs") == before
    if not went_on:
        end_jobs(fleet, team, *RUNS)
        until(lambda: ready(fleet, team) == {"sent": 2}, "the first of those that waited")
        end_jobs(fleet, team, "sent")
        until(lambda: ready(fleet, team) == {"waits": 4}, "the second one")
    until(lambda: all_ended(fleet, team), "the end of all of them, one after the other")
    assert_complete(fleet.manager, team, KNOWN, moved=True)
    assert_left_nothing(fleet.workers, team)
    owners = [
        pod["metadata"]["ownerReferences"][0]["name"]
        for plane in fleet.workers.values()
        for pod in created(plane, "pods", team)
    ]
    made = Counter(owners)
    if went_on and made["sent"] == WAITS["sent"]:  # its turn came before its copy was removed
        made["sent"] = EVER["sent"]
    assert made == EVER


def all_ended(fleet: Fleet, team: str) -> bool:
    """End what runs now, and tell whether that was all."""
    if running := ready(fleet, team):
        end_jobs(fleet, team, *running)
    jobs = read(fleet.manager, "jobs", team).values()
    return all("completionTime" in job.get("status", {}) for job in jobs)


def end_jobs(fleet: Fleet, team: str, *names: str) -> None:
    for worker in fleet.workers.values():
        end_pods(worker, team, *names)


def ready(fleet: Fleet, team: str) -> dict[str, int]:
    """The ready pods of each job that runs, as the manager has them."""
    jobs = read(fleet.manager, "jobs", team)
    counts = {name: job.get("status", {}).get("ready", 0) for name, job in jobs.items()}
    return {name: count for name, count in counts.items() if count}


def pods_of(fleet: Fleet, team: str, job: str) -> dict[str, str]:
    """The uid of each pod of a job on the workers, by name."""
    return {
        name: pod["metadata"]["uid"]
        for worker in fleet.workers.values()
        for name, pod in read(worker, "pods", team).items()
        if pod["metadata"]["labels"]["job-name"] == job
    }


def jobs_on_workers(fleet: Fleet, team: str) -> set[str]:
    return {name for worker in fleet.workers.values() for name in read(worker, "jobs", team)}


def environment_of(plane: RealControlPlane) -> dict[str, str]:
    """A shell on a machine of the control plane."""
    programs = [binaries.get("etcdctl").parent, binaries.get("kubectl").parent]
    path = [str(Path(sys.executable).parent), *map(str, programs), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "KUBECONFIG": str(plane.kubeconfig),
        "ETCDCTL_ENDPOINTS": plane.etcd_url,
    }


def run_block(shell: PageShell, block: PageBlock) -> None:
    for command in block.commands:
        problem = shell.run(command)
        assert not problem, f"{PAGE.name}:{block.line}: {command.text}\n{problem}"
