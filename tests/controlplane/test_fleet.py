"""Jobs that are submitted once and run on workers, on real control planes all through.

One worker runs this program, the other upstream Kueue; what was created there and who was refused
what is taken from the audit logs of their API servers, so nothing that happened can be missed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from tests.controlplane.audit import created, refused
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import OURS, UPSTREAM, Fleet, make_job, register, running_fleet
from tests.controlplane.fleet_checks import (
    assert_complete,
    assert_left_nothing,
    assert_quota_is_free,
    assert_ran_once,
    read,
    wait_until_active,
    workload_writes,
)
from tests.controlplane.installed import CONFIG, leader, troubles
from tests.controlplane.nodes import as_list, run_for
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue

pytestmark = pytest.mark.timeout(300)
MANIFESTS = Path(__file__).parent / "manifests"
WRITES_PER_WORKLOAD = 5
"""For the whole life of one that never waits (docs/architecture.md, "Writing")."""
PATIENT = {"leaderElect": True, "leaseDuration": "120s", "renewDeadline": "90s"}
"""So that a slow start of the API server does not cost it the lead: nothing here restarts it."""
ANOTHER_ORIGIN = "multiKueue: {origin: upstream}"
"""Of what another manager puts on a worker: each cleans up its own only."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A manager's control plane and two workers; each test has a namespace of its own."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    with running_fleet(tmp_path_factory.mktemp("fleet")) as started:
        with leader(started.manager, started.folder / "first"):
            apply_samples(started.manager)
            wait_until_active(started.manager)
        yield started
        for plane, user in started.callers():
            assert refused(plane, user) == []


def test_a_burst_runs_once_each_on_both_workers(fleet: Fleet, tmp_path: Path) -> None:
    pods = {f"burst-{i:02}": 1 + i % 2 for i in range(12)}
    with leader(fleet.manager, tmp_path / "program"):
        wait_until_active(fleet.manager)
        fleet.submit([make_job(name, queue="training", pods=n) for name, n in pods.items()])
        assert_complete(fleet.manager, "training", pods)
        assert_left_nothing(fleet.workers, "training")
        assert_quota_is_free(fleet.manager, "training")
    assert_ran_once(fleet.workers, "training", pods)
    for worker in (OURS, UPSTREAM):
        assert created(fleet.workers[worker], "jobs", "training") != []
    assert created(fleet.manager, "pods", "training") == []
    assert troubles(tmp_path / "program") == []


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_queues_of_both_versions_send_to_upstream_kueue(
    fleet: Fleet, tmp_path: Path, version: str
) -> None:
    team = f"team-{version}"
    fleet.workers[UPSTREAM].kubectl("create", "-f", "-", stdin=team_queue(team, UPSTREAM))
    with leader(fleet.manager, tmp_path / "program"):
        fleet.manager.kubectl("apply", "-f", str(MANIFESTS / f"fleet-{version}.yaml"))
        wait_until_active(fleet.manager)
        fleet.submit([make_job("train", queue=team, pods=2)])
        assert_complete(fleet.manager, team, {"train": 2})
        assert_left_nothing(fleet.workers, team)
    assert_ran_once(fleet.workers, team, {"train": 2})
    assert created(fleet.workers[OURS], "jobs", team) == []
    assert list(workload_writes(fleet.manager, team).values()) == [WRITES_PER_WORKLOAD]
    assert troubles(tmp_path / "program") == []


def test_a_killed_manager_goes_on_where_it_was(fleet: Fleet, tmp_path: Path) -> None:
    pods = {f"kill-{i:02}": 1 for i in range(12)}
    workers = fleet.workers.values()
    with leader(fleet.manager, tmp_path / "killed") as process:
        wait_until_active(fleet.manager)
        fleet.submit([make_job(name, queue="research") for name in pods])
        until(
            lambda: sum(len(created(plane, "jobs", "research")) for plane in workers) > 2,
            "jobs on the workers",
        )
        process.kill()
        process.wait()
    jobs = read(fleet.manager, "jobs", "research").values()
    assert any("completionTime" not in job.get("status", {}) for job in jobs)
    with leader(fleet.manager, tmp_path / "program"):
        assert_complete(fleet.manager, "research", pods)
        assert_left_nothing(fleet.workers, "research")
        assert_quota_is_free(fleet.manager, "research")
    assert_ran_once(fleet.workers, "research", pods)
    assert troubles(tmp_path / "program") == []


def test_an_outage_of_a_worker_evicts_nothing(fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.workers[UPSTREAM]
    with leader(fleet.manager, tmp_path / "program"):
        wait_until_active(fleet.manager)
        fleet.submit([on_h100(make_job("outage", queue="inference", runs_for="1h", pods=2))])
        ready = "--for=jsonpath={.status.ready}=2", "--timeout=60s"
        fleet.manager.kubectl("wait", "job/outage", "--namespace=inference", *ready)
        with worker.without_apiserver():
            lost = "--for=condition=Active=false", "--timeout=60s"
            fleet.manager.kubectl("wait", f"multikueuecluster/{UPSTREAM}", *lost)
        wait_until_active(fleet.manager)
        end_pods(worker, "inference")
        assert_complete(fleet.manager, "inference", {"outage": 2})
        assert_left_nothing(fleet.workers, "inference")
    assert_ran_once(fleet.workers, "inference", {"outage": 2})
    told = troubles(tmp_path / "program")
    assert [line for line in told if f'"worker":"{UPSTREAM}"' not in line] == []


def test_an_outage_of_the_managers_server_loses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """The jobs end while nobody can be told."""
    pods = {"unseen-a": 2, "unseen-b": 2}
    jobs = [make_job("unseen-a", queue="unseen", runs_for="1h", pods=2)]
    jobs.append(on_h100(make_job("unseen-b", queue="unseen", runs_for="1h", pods=2)))
    give_team(fleet, "unseen")
    with leader(fleet.manager, tmp_path / "program", leaderElection=PATIENT):
        wait_until_active(fleet.manager)
        fleet.submit(jobs)
        ready = "--for=jsonpath={.status.ready}=2", "--timeout=60s"
        fleet.manager.kubectl("wait", *(f"job/{name}" for name in pods), "-n=unseen", *ready)
        with fleet.manager.without_apiserver():
            for worker in fleet.workers.values():
                end_pods(worker, "unseen")
        assert_complete(fleet.manager, "unseen", pods)
        assert_left_nothing(fleet.workers, "unseen")
    assert_ran_once(fleet.workers, "unseen", pods)


def test_the_commands_tell_where_a_job_stands(fleet: Fleet, tmp_path: Path) -> None:
    with leader(fleet.manager, tmp_path / "program"):
        wait_until_active(fleet.manager)
        jobs = [
            on_h100(make_job("runs", queue="inference", runs_for="1h")),
            make_job("waits", queue="inference", pods=13),
        ]
        fleet.submit(jobs)
        running = "--for=jsonpath={.status.ready}=1", "--timeout=60s"
        fleet.manager.kubectl("wait", "job/runs", "--namespace=inference", *running)
        where = "--namespace=inference"
        queue = json.loads(run_command(fleet.manager, "queue", where, "inference", "--output=json"))
        runs, waits = (run_command(fleet.manager, "why", where, job) for job in ("runs", "waits"))
        clusters = run_command(fleet.manager, "clusters")
        fleet.manager.kubectl("delete", "jobs", "--all", "--namespace=inference")
        assert_left_nothing(fleet.workers, "inference")
    rows = [(row["job"], row["state"], row["position"], row["worker"]) for row in queue]
    assert rows == [("Job/runs", "Admitted", None, UPSTREAM), ("Job/waits", "Queued", 1, None)]
    assert f"Admitted on {UPSTREAM}" in runs
    assert "current podset request (13) > maximum capacity (8)" in waits
    assert re.search(rf"{OURS} +Connected +8 a100 +0 +8", clusters)
    assert re.search(rf"{UPSTREAM} +Connected +4 h100 +1 +3", clusters)
    assert troubles(tmp_path / "program") == []


def test_a_worker_of_ours_serves_upstream_kueue(fleet: Fleet, tmp_path: Path) -> None:
    """Upstream is the manager, and comes with the same rights that ours has on a worker."""
    ours = {OURS: fleet.workers[OURS]}
    ours[OURS].kubectl("create", "-f", "-", stdin=team_queue("visitors", OURS))
    with RealControlPlane(tmp_path / "manager") as upstream:
        install_upstream(upstream)
        register(upstream, OURS, ours[OURS])
        with running_kueue(upstream, tmp_path / "program", more=ANOTHER_ORIGIN):
            apply_samples(upstream)
            upstream.kubectl("create", "-f", "-", stdin=team_queue("visitors", "training"))
            upstream.kubectl("wait", "--for=condition=Active", "clusterqueue/training")
            job = make_job("train", queue="visitors", pods=2)
            job["spec"] |= {"suspend": True, "managedBy": MULTIKUEUE_CONTROLLER}
            upstream.kubectl("create", "-f", "-", stdin=json.dumps(job))
            assert_complete(upstream, "visitors", {"train": 2})
            assert_left_nothing(ours, "visitors")
    assert_ran_once(ours, "visitors", {"train": 2})


def apply_samples(manager: RealControlPlane) -> None:
    """Teams, queues and workers as config/samples has them, without its job."""
    for manifest in sorted((CONFIG / "samples").glob("[1-5]*.yaml")):
        manager.kubectl("apply", "-f", str(manifest))


def give_team(fleet: Fleet, team: str) -> None:
    """A namespace with a queue of this name, on the manager and on its workers."""
    fleet.manager.kubectl("create", "-f", "-", stdin=team_queue(team, "inference"))
    for name, worker in fleet.workers.items():
        worker.kubectl("create", "-f", "-", stdin=team_queue(team, name))


def team_queue(team: str, cluster_queue: str) -> str:
    """A namespace and a LocalQueue of this name, into a ClusterQueue of the samples."""
    labels = {"kueue.x-k8s.io/team": cluster_queue}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": team, "labels": labels},
    }
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": team, "namespace": team},
        "spec": {"clusterQueue": cluster_queue},
    }
    return json.dumps(as_list([namespace, queue]))


def on_h100(job: dict[str, Any]) -> dict[str, Any]:
    """The same job, for the one worker that has such nodes."""
    job["spec"]["template"]["spec"]["nodeSelector"] = {"cloud.provider.com/accelerator": "h100"}
    return job


def end_pods(worker: RealControlPlane, namespace: str) -> None:
    """Have all pods of a namespace succeed now."""
    at_once = (f"{name}={value}" for name, value in run_for("0s").items())
    where = f"--namespace={namespace}"
    worker.kubectl("annotate", "pods", "--all", where, "--overwrite", *at_once)


def run_command(plane: RealControlPlane, *arguments: str) -> str:
    """What a command of ours prints, for an administrator."""
    command = [sys.executable, "-m", "multiqueue", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout
