"""Jobs that are submitted once and run on workers, on real control planes all through.

One worker runs this program, the other upstream Kueue; what was created there and who was refused
what is taken from the audit logs of their API servers, so nothing that happened can be missed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.audit import created, refused, requests
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import (
    MANAGER_USER,
    OURS,
    UPSTREAM,
    Fleet,
    make_job,
    running_fleet,
)
from tests.controlplane.installed import CONFIG, leader, troubles
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until

pytestmark = pytest.mark.timeout(300)
MANIFESTS = Path(__file__).parent / "manifests"
WRITES_PER_WORKLOAD = 6
"""Five for its whole life (docs/architecture.md, "Writing"), and one to say why it waits."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A manager's control plane and two workers; each test has a namespace of its own."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    with running_fleet(tmp_path_factory.mktemp("fleet")) as started:
        with leader(started.manager, started.folder / "first"):
            for manifest in sorted((CONFIG / "samples").glob("[1-5]*.yaml")):
                started.manager.kubectl("apply", "-f", str(manifest))
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
        assert_left_nothing(fleet, "training")
        assert_quota_is_free(fleet.manager, "training")
    assert_ran_once(fleet, "training", pods)
    for worker in (OURS, UPSTREAM):
        assert created(fleet.workers[worker], "jobs", "training") != []
    assert created(fleet.manager, "pods", "training") == []
    assert max(workload_writes(fleet.manager, "training").values()) <= WRITES_PER_WORKLOAD
    assert troubles(tmp_path / "program") == []


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_queues_of_both_versions_send_to_upstream_kueue(
    fleet: Fleet, tmp_path: Path, version: str
) -> None:
    team = f"team-{version}"
    fleet.workers[UPSTREAM].kubectl("create", "-f", "-", stdin=worker_queue(team, UPSTREAM))
    with leader(fleet.manager, tmp_path / "program"):
        fleet.manager.kubectl("apply", "-f", str(MANIFESTS / f"fleet-{version}.yaml"))
        wait_until_active(fleet.manager)
        fleet.submit([make_job("train", queue=team, pods=2)])
        assert_complete(fleet.manager, team, {"train": 2})
        assert_left_nothing(fleet, team)
    assert_ran_once(fleet, team, {"train": 2})
    assert created(fleet.workers[OURS], "jobs", team) == []
    assert troubles(tmp_path / "program") == []


# --------------------------------------------------------------------- what is seen
def wait_until_active(manager: RealControlPlane) -> None:
    """Every worker is connected, every check and every queue is ready."""
    active = "--for=condition=Active", "--all", "--timeout=60s"
    manager.kubectl("wait", *active, "multikueueclusters,admissionchecks,clusterqueues")


def assert_complete(
    manager: RealControlPlane, namespace: str, pods: Mapping[str, int], *, seconds: int = 120
) -> None:
    """Each job ended well, says when and with how many pods, and so does its Workload."""
    where = f"--namespace={namespace}"
    timeout = f"--timeout={seconds}s"
    names = [f"job/{name}" for name in pods]
    manager.kubectl("wait", "--for=condition=Complete", *names, where, timeout)
    manager.kubectl("wait", "--for=condition=Finished", "workloads", "--all", where, timeout)
    for name, count in pods.items():
        status = read(manager, "jobs", namespace)[name]["status"]
        assert status["succeeded"] == count
        assert status["startTime"] <= status["completionTime"]
    for workload in read(manager, "workloads", namespace).values():
        reasons = {each["type"]: each["reason"] for each in workload["status"]["conditions"]}
        assert reasons["Finished"] == "Succeeded"
        assert "Evicted" not in reasons


def assert_ran_once(fleet: Fleet, namespace: str, pods: Mapping[str, int]) -> None:
    """Over both workers each job was created once in all time, and so was each of its pods."""
    workers = fleet.workers.values()
    jobs = [job for plane in workers for job in created(plane, "jobs", namespace)]
    assert Counter(job["metadata"]["name"] for job in jobs) == dict.fromkeys(pods, 1)
    owners = [
        pod["metadata"]["ownerReferences"][0]["name"]
        for plane in workers
        for pod in created(plane, "pods", namespace)
    ]
    assert Counter(owners) == pods


def assert_left_nothing(fleet: Fleet, namespace: str) -> None:
    """Whatever was made for it on the workers goes."""
    for name, plane in fleet.workers.items():
        until(
            lambda at=plane: not read(at, "jobs,workloads,pods", namespace),
            f"empty namespace {namespace} on {name}",
        )


def assert_quota_is_free(manager: RealControlPlane, cluster_queue: str) -> None:
    def is_free() -> bool:
        found = json.loads(manager.kubectl("get", "clusterqueue", cluster_queue, "-o=json"))
        totals = {
            resource["total"]
            for flavor in found["status"]["flavorsReservation"]
            for resource in flavor["resources"]
        }
        return totals == {"0"}

    until(is_free, f"free quota in {cluster_queue}")


def read(plane: RealControlPlane, kinds: str, namespace: str) -> dict[str, dict[str, Any]]:
    """Objects by name."""
    text = plane.kubectl("get", kinds, f"--namespace={namespace}", "-o=json")
    return {obj["metadata"]["name"]: obj for obj in json.loads(text)["items"]}


def workload_writes(plane: RealControlPlane, namespace: str) -> Counter[str]:
    """How often the manager wrote each Workload, by name."""
    return Counter(
        event["objectRef"]["name"]
        for event in requests(plane)
        if event["user"]["username"] == MANAGER_USER
        and event["verb"] in {"create", "patch", "update"}
        and event["objectRef"]["resource"] == "workloads"
        and event["objectRef"].get("namespace") == namespace
    )


def worker_queue(team: str, cluster_queue: str) -> str:
    """The namespace and the LocalQueue of a team on a worker."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": team, "namespace": team},
        "spec": {"clusterQueue": cluster_queue},
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, queue]})
