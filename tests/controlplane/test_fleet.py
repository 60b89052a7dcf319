"""Jobs that are submitted once and run on workers, on real control planes all through.

One worker runs this program, the other upstream Kueue; what was created there and who was refused
what is taken from the audit logs of their API servers, so nothing that happened can be missed.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from tests.controlplane import binaries
from tests.controlplane.audit import created, refused
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import OURS, UPSTREAM, Fleet, register, running_mixed_fleet
from tests.controlplane.installed import CONFIG, let_visibility_be_reached
from tests.controlplane.nodes import as_list
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.e2e.checks import (
    assert_complete,
    assert_left_nothing,
    assert_ran_once,
    created_jobs,
    find_worker,
    wait_until_active,
    workload_writes,
)
from tests.e2e.commands import run_command
from tests.e2e.moves import run_one
from tests.e2e.objects import end_pods, make_job, new_team, set_up, submit
from tests.e2e.steps import CORE, Step

pytestmark = pytest.mark.timeout(300)
MANIFESTS = Path(__file__).parent / "manifests"
HUNG_SECONDS = 2
"""For so long a worker that hangs may hold up the dispatch of other jobs."""
GIVE_UP_SECONDS = 5
"""So much later than `workerLostTimeout` its own job has moved."""
LOST_SECONDS = 20
"""Longer than others may wait, so that they do not just wait until the worker is given up."""
BUSY_SECONDS = 8
"""For kubectl, and for dispatching itself, on a busy machine."""
WRITES_PER_WORKLOAD = 5
"""For the whole life of one that never waits (docs/architecture.md, "Writing")."""
SERVED = (
    "v1beta2.visibility.kueue.x-k8s.io",
    "v1alpha1.remote.multiqueue.dev",
    "v1alpha1.fleet.multiqueue.dev",
)
"""APIServices that the commands ask."""
FEED = "/apis/fleet.multiqueue.dev/v1alpha1/feeds?watch=1&topics=totals,standings:inference"
ANOTHER_ORIGIN = "multiKueue: {origin: upstream}"
"""Of what another manager puts on a worker: each cleans up its own only."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A manager's control plane and two workers; each test has a namespace of its own."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    with running_mixed_fleet(tmp_path_factory.mktemp("fleet")) as started:
        for worker, plane in started.workers.items():
            plane.kubectl("apply", "-f", str(CONFIG / "samples-worker" / worker))
        with started.running():
            apply_samples(started.manager)
            set_up(started)
            wait_until_active(started.manager)
        yield started
        for plane, user in started.callers():
            assert refused(plane, user) == []


@pytest.mark.parametrize("step", CORE, ids=lambda step: step.__name__)
def test_step(fleet: Fleet, step: Step) -> None:
    step(fleet)


def test_a_worker_that_hangs_delays_nobody_and_loses_its_job(fleet: Fleet) -> None:
    """Its API server is stopped with SIGSTOP: connections stay, and nothing answers."""
    team = new_team(fleet, "hang")
    with fleet.running(multiKueue={"workerLostTimeout": f"{LOST_SECONDS}s"}):
        wait_until_active(fleet.manager)
        here, there = run_one(fleet, team)
        with fleet.workers[here].stopped_apiserver():
            stopped = datetime.now(UTC)
            other, _ = run_one(fleet, team, "other", pods=1)
            until(lambda: find_worker(fleet.manager, team, "train") == there, f"train on {there}")
        assert other == there
        wait_until_active(fleet.manager)
        assert_left_nothing({here: fleet.workers[here]}, team)
        end_pods(fleet.workers[there], team)
        assert_complete(fleet.manager, team, {"train": 2}, moved=True)
        assert_left_nothing(fleet.workers, team)
    copies = {
        job["metadata"]["name"]: datetime.fromisoformat(job["metadata"]["creationTimestamp"])
        for job in created(fleet.workers[there], "jobs", team)
    }
    waits = {name: (at - stopped).total_seconds() for name, at in copies.items()}
    assert waits["other"] < HUNG_SECONDS + BUSY_SECONDS, waits
    assert waits["train"] < LOST_SECONDS + GIVE_UP_SECONDS + BUSY_SECONDS, waits


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_queues_of_both_versions_send_to_upstream_kueue(fleet: Fleet, version: str) -> None:
    team = f"team-{version}"
    fleet.workers[UPSTREAM].kubectl("create", "-f", "-", stdin=team_queue(team, UPSTREAM))
    with fleet.running() as program:
        fleet.manager.kubectl("apply", "-f", str(MANIFESTS / f"fleet-{version}.yaml"))
        wait_until_active(fleet.manager)
        submit(fleet.manager, make_job("train", queue=team, pods=2))
        assert_complete(fleet.manager, team, {"train": 2})
        assert_left_nothing(fleet.workers, team)
    assert_ran_once(fleet.workers, team, {"train": 2})
    assert created(fleet.workers[OURS], "jobs", team) == []
    assert list(workload_writes(fleet.manager, team).values()) == [WRITES_PER_WORKLOAD]
    assert program.read_troubles() == []


def test_the_commands_tell_where_a_job_stands(fleet: Fleet) -> None:
    let_visibility_be_reached(fleet.manager)
    with fleet.running(featureGates={"VisibilityOnDemand": True}) as program:
        wait_until_active(fleet.manager)
        fleet.manager.kubectl("wait", "apiservices", *SERVED, "--for=condition=Available")
        jobs = [
            on_h100(make_job("runs", queue="inference", runs_for="1h")),
            make_job("waits", queue="inference", pods=13),
        ]
        submit(fleet.manager, *jobs)
        running = "--for=jsonpath={.status.ready}=1", "--timeout=60s"
        fleet.manager.kubectl("wait", "job/runs", "--namespace=inference", *running)
        where = "--namespace=inference"
        queue = json.loads(run_command(fleet.manager, "queue", where, "inference", "--output=json"))
        runs, waits = (run_command(fleet.manager, "why", where, job) for job in ("runs", "waits"))
        clusters = run_command(fleet.manager, "clusters")
        standings = fleet.manager.kubectl("get", "standings", "--all-namespaces", "-o", "wide")
        workers = fleet.manager.kubectl("get", "workers")
        with (
            streaming(fleet.manager, "standings", "--namespace=inference", "--watch") as watched,
            streaming(fleet.manager, "--raw", FEED) as fed,
        ):
            fed.read_until('"event":"snapshot"')
            watched.read_until("job-waits")
            fleet.manager.kubectl("delete", "jobs", "--all", "--namespace=inference")
            watched.read_until("Deleted")
            fed.read_until('"event":"change"')
        assert_left_nothing(fleet.workers, "inference")
    assert re.search(r"^NAMESPACE +NAME +JOB +PHASE +WORKER .* +WHY$", standings, re.MULTILINE)
    assert re.search(rf"inference +\S+ +Job/runs +Running +{UPSTREAM} +1 ", standings)
    assert re.search(r"inference +\S+ +Job/waits +Queued +1 ", standings)
    assert re.search(rf"{OURS} +true +InUse +12 +0 +12 +0 +0 +1", workers)
    assert re.search(rf"{UPSTREAM} +true +InUse +8 +1 +7 +1 +0 +1", workers)
    rows = [(row["job"], row["state"], row["position"], row["worker"]) for row in queue]
    assert rows == [("Job/runs", "Running", None, UPSTREAM), ("Job/waits", "Queued", 1, None)]
    assert f"running on {UPSTREAM}" in runs
    assert f"{OURS} has at most 8, {UPSTREAM} at most 4" in waits
    assert "position 1 of 1" in waits
    assert "Note:" not in waits
    assert re.search(rf"{OURS} +Connected +In use +8 a100, 4 fleet +0, 0 +8, 4", clusters)
    assert re.search(rf"{UPSTREAM} +Connected +In use +4 fleet, 4 h100 +0, 1 +4, 3", clusters)
    assert program.read_troubles() == []


def test_a_job_that_is_deleted_on_upstream_kueue_runs_again(fleet: Fleet) -> None:
    """M-87: that Kueue finishes the copy (OwnerNotFound) as soon as its job is being deleted."""
    there, where = fleet.workers[UPSTREAM], "--namespace=inference"
    running = "--for=jsonpath={.status.ready}=1", "--timeout=60s"
    with fleet.running():
        wait_until_active(fleet.manager)
        job = make_job("deleted", queue="inference", runs_for="1h")
        submit(fleet.manager, on_h100(job))
        fleet.manager.kubectl("wait", "job/deleted", where, *running)
        there.kubectl("delete", "job/deleted", where, "--cascade=foreground")
        there.kubectl("wait", "--for=create", "job/deleted", where, "--timeout=60s")
        fleet.manager.kubectl("wait", "job/deleted", where, *running)
        fleet.manager.kubectl("delete", "job/deleted", where)
        assert_left_nothing(fleet.workers, "inference")
    assert len([name for name, _ in created_jobs(there, "inference") if name == "deleted"]) == 2


class Stream:
    """What a command prints while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read_until(self, text: str) -> None:
        assert self._process.stdout is not None
        seen = []
        for line in self._process.stdout:
            seen.append(line)
            if text in line:
                return
        pytest.fail(f"{text!r} was never printed, but: {''.join(seen)}")


@contextlib.contextmanager
def streaming(plane: RealControlPlane, *arguments: str) -> Iterator[Stream]:
    """Run ``kubectl get`` until the block ends."""
    kubectl = [str(binaries.get("kubectl")), "--kubeconfig", str(plane.kubeconfig), "get"]
    with subprocess.Popen([*kubectl, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Stream(process)
        finally:
            process.terminate()


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
