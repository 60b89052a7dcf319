"""A gang that needs fewer pods on some hardware, on real control planes all through.

The worker that has such runs upstream Kueue, which knows nothing of alternatives: it gets a
Workload and a Job of that many pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from tests.controlplane.audit import refused
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import OURS, UPSTREAM, Fleet, running_mixed_fleet
from tests.controlplane.installed import CONFIG
from tests.controlplane.nodes import as_list, run_for
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.test_fleet import team_queue
from tests.e2e.checks import assert_complete, assert_left_nothing, wait_until_active
from tests.e2e.commands import run_command
from tests.e2e.objects import GPU, end_pods, make_job, submit

pytestmark = pytest.mark.timeout(300)
TEAM = "gangs"
WHERE = f"--namespace={TEAM}"
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Eight A100 here, four H100 there; the manager has quota of four GPUs, whichever."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    with running_mixed_fleet(tmp_path) as started:
        for worker, plane in started.workers.items():
            plane.kubectl("apply", "-f", str(CONFIG / "samples-worker" / worker))
            plane.kubectl("create", "-f", "-", stdin=team_queue(TEAM, worker))
        with started.running():
            started.manager.kubectl("apply", "-f", str(CONFIG / "samples" / "4-multikueue.yaml"))
            started.manager.kubectl(
                "create", "-f", "-", stdin=json.dumps(as_list(make_queue_and_flavor()))
            )
            started.manager.kubectl("create", "-f", "-", stdin=team_queue(TEAM, TEAM))
            wait_until_active(started.manager)
        yield started
        for plane, user in started.callers():
            assert refused(plane, user) == []


def make_queue_and_flavor() -> list[dict[str, Any]]:
    """A ClusterQueue whose flavor says nothing of hardware."""
    amounts = {"cpu": "64", "memory": "64Gi", GPU: "4"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    flavors = [{"name": "anything", "resources": resources}]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": flavors}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "gpu-workers"}]},
    }
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "anything"}}
    queue = {"kind": "ClusterQueue", "metadata": {"name": TEAM}, "spec": spec}
    return [{"apiVersion": names.V1BETA2, **obj} for obj in (flavor, queue)]


def make_gang() -> dict[str, Any]:
    """Four pods, or two with an H100 each; first only where there are none."""
    annotations = {
        names.ALTERNATIVES: "h100=2",
        names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true",
        names.CLUSTER_NAMES: OURS,
    }
    gang = make_job("train", queue=TEAM, pods=4, runs_for="1h", annotations=annotations)
    gang["spec"]["completionMode"] = "Indexed"
    return gang


def read(plane: RealControlPlane, *what: str) -> Any:
    return json.loads(plane.kubectl("get", *what, WHERE, "-o", "json"))


def sizes(plane: RealControlPlane) -> tuple[int, int, bool]:
    """Parallelism, completions, and whether it is suspended."""
    spec = read(plane, "job", "train")["spec"]
    return spec["parallelism"], spec["completions"], spec.get("suspend", False)


def workload(plane: RealControlPlane) -> dict[str, Any]:
    (found,) = read(plane, "workloads")["items"]
    return dict(found)


def until_runs_with(fleet: Fleet, worker: str, pods: int) -> None:
    """So many pods are ready there, none has ended, and the job on the manager says so."""
    ready = f"--for=jsonpath={{.status.ready}}={pods}", "--timeout=60s"
    fleet.manager.kubectl("wait", "job/train", WHERE, *ready)
    assert not read(fleet.manager, "job", "train")["status"].get("succeeded")
    assert sizes(fleet.manager) == sizes(fleet.workers[worker]) == (pods, pods, False)
    assert len(read(fleet.workers[worker], "pods")["items"]) == pods
    until_charged(fleet, pods)


def until_charged(fleet: Fleet, gpus: int) -> None:
    until(lambda: charged(fleet) == str(gpus), f"{gpus} GPUs charged")


def charged(fleet: Fleet) -> str:
    status = read(fleet.manager, "clusterqueue", TEAM)["status"]
    (flavor,) = status["flavorsUsage"]
    return str(next(r["total"] for r in flavor["resources"] if r["name"] == GPU))


def test_a_gang_runs_with_the_pods_of_its_hardware_wherever_it_goes(fleet: Fleet) -> None:
    with fleet.running() as program:
        submit(fleet.manager, make_gang())
        until_runs_with(fleet, OURS, 4)
        end_ranks(fleet.workers[OURS], 0, 1, 2)
        until_charged(fleet, 1)

        name = workload(fleet.manager)["metadata"]["name"]
        stop(fleet, name)
        go_on(fleet, name, UPSTREAM)
        until_runs_with(fleet, UPSTREAM, 2)
        told = run_command(fleet.manager, "why", WHERE, "train")
        assert "Pods:   2 of 4, because it got h100" in told
        there = workload(fleet.workers[UPSTREAM])
        assert there["spec"]["podSets"][0]["count"] == 2
        assert names.ALTERNATIVES not in there["metadata"]["annotations"]
        program.kill()
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        end_ranks(fleet.workers[UPSTREAM], 0)
        until_charged(fleet, 1)

        before = workload(fleet.manager)["metadata"]
        fleet.manager.kubectl("delete", "workload", before["name"], WHERE)
        until_runs_with(fleet, UPSTREAM, 2)
        after = workload(fleet.manager)
        assert after["metadata"]["uid"] != before["uid"]
        assert after["spec"]["podSets"][0]["count"] == 4

        end_pods(fleet.workers[UPSTREAM], TEAM)
        assert_complete(fleet.manager, TEAM, {"train": 2}, moved=True)
        assert sizes(fleet.manager) == (2, 2, False)
        assert_left_nothing(fleet.workers, TEAM)
        assert program.read_troubles() == []


def end_ranks(worker: RealControlPlane, *ranks: int) -> None:
    """Have the pods of these ranks succeed."""
    chosen = f"--selector={INDEX} in ({','.join(map(str, ranks))})", WHERE, "--overwrite"
    at_once = (f"{name}={value}" for name, value in run_for("0s").items())
    worker.kubectl("annotate", "pods", *chosen, *at_once)


def stop(fleet: Fleet, name: str) -> None:
    """Take it back: then it asks for all pods again, and holds no quota."""
    inactive = "--type=merge", '--patch={"spec":{"active":false}}'
    fleet.manager.kubectl("patch", "workload", name, WHERE, *inactive)
    until(lambda: sizes(fleet.manager) == (4, 4, True), "job with its own numbers")
    until_charged(fleet, 0)


def go_on(fleet: Fleet, name: str, worker: str) -> None:
    """Let it go, to another worker."""
    only = f"{names.CLUSTER_NAMES}={worker}"
    fleet.manager.kubectl("annotate", "job/train", WHERE, "--overwrite", only)
    active = "--type=merge", '--patch={"spec":{"active":true}}'
    fleet.manager.kubectl("patch", "workload", name, WHERE, *active)
