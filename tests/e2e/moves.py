"""Steps: jobs that have to leave a worker, or must stay although the configuration changes."""

from __future__ import annotations

import base64
import json
from typing import Any

import yaml

from tests.controlplane.polling import until
from tests.e2e.checks import (
    assert_complete,
    assert_left_nothing,
    assert_moved,
    assert_quota_is_free,
    assert_ran_once,
    find_worker,
    read,
    wait_until_active,
)
from tests.e2e.commands import run_command
from tests.e2e.fleet_under_test import SYSTEM, Cluster, FleetUnderTest
from tests.e2e.objects import (
    QUEUE,
    end_pods,
    make_job,
    make_resident,
    new_team,
    submit,
    wait_until_resident,
)

TOKEN = "multikueue-manager-token"
"""The Secret on a worker that its manager's token is from (config/worker-role)."""


def a_job_preempted_on_its_worker_runs_on_the_other(fleet: FleetUnderTest) -> None:
    team = new_team(fleet, "preempt")
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        here, there = run_one(fleet, team)
        submit(fleet.workers[here], make_resident(team))
        wait_until_resident(fleet.workers[here], team)
        _assert_it_moves(fleet, team, here, there)
        fleet.workers[here].kubectl("delete", "job/resident", f"--namespace={team}")
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []


def a_drained_worker_is_left(fleet: FleetUnderTest) -> None:
    """What runs there moves, and nothing new comes until the drain is ended."""
    team = new_team(fleet, "drain")
    with fleet.running() as program:
        wait_until_active(fleet.manager)
        here, there = run_one(fleet, team)
        run_command(fleet.manager, "clusters", "drain", here, "--timeout=60s")
        until(lambda: find_worker(fleet.manager, team, "train") == there, f"train on {there}")
        assert run_one(fleet, team, "next") == (there, here)
        run_command(fleet.manager, "clusters", "uncordon", here)
        end_pods(fleet.workers[there], team)
        assert_complete(fleet.manager, team, {"train": 2, "next": 2}, moved=True)
        assert_moved(fleet.workers, team, "train", [here, there])
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
        assert program.read_troubles() == []


def a_job_stays_whose_cluster_leaves_the_configuration(fleet: FleetUnderTest) -> None:
    """It runs to its end there; nothing new goes there."""
    team = new_team(fleet, "removed")
    with fleet.running():
        wait_until_active(fleet.manager)
        here, there = run_one(fleet, team)
        _configure(fleet, [there])
        try:
            submit(fleet.manager, make_job("next", queue=team, pods=2))
            fleet.manager.kubectl(
                "wait", "--for=condition=Complete", "job/next", f"-n={team}", "--timeout=60s"
            )
            assert find_worker(fleet.manager, team, "train") == here
            end_pods(fleet.workers[here], team)
            assert_complete(fleet.manager, team, {"train": 2, "next": 2})
        finally:
            _configure(fleet, list(fleet.workers))
        assert_left_nothing(fleet.workers, team)
        assert_quota_is_free(fleet.manager, QUEUE)
    assert_ran_once({here: fleet.workers[here]}, team, {"train": 2})
    assert_ran_once({there: fleet.workers[there]}, team, {"next": 2})


def a_new_kubeconfig_disturbs_nothing(fleet: FleetUnderTest) -> None:
    """The old token is withdrawn once the new one is known."""
    team = new_team(fleet, "rotate")
    with fleet.running():
        wait_until_active(fleet.manager)
        here, _ = run_one(fleet, team)
        worker = fleet.workers[here]
        text = fleet.manager.kubectl("get", f"secret/{here}-kubeconfig", f"-n={SYSTEM}", "-o=json")
        kubeconfig = yaml.safe_load(base64.b64decode(json.loads(text)["data"]["kubeconfig"]))
        old = kubeconfig["users"][0]["user"]["token"]
        kubeconfig["users"][0]["user"]["token"] = _make_token(worker, f"{TOKEN}-{team}")
        data = base64.b64encode(yaml.safe_dump(kubeconfig).encode()).decode()
        patch = json.dumps({"data": {"kubeconfig": data}})
        fleet.manager.kubectl("patch", f"secret/{here}-kubeconfig", f"-n={SYSTEM}", f"-p={patch}")
        for name, secret in read(worker, "secrets", SYSTEM).items():
            if base64.b64decode((secret.get("data") or {}).get("token", "")).decode() == old:
                worker.kubectl("delete", f"secret/{name}", f"-n={SYSTEM}")
        submit(fleet.manager, make_job("next", queue=team, pods=2))
        fleet.manager.kubectl(
            "wait", "--for=condition=Complete", "job/next", f"-n={team}", "--timeout=60s"
        )
        assert find_worker(fleet.manager, team, "train") == here
        end_pods(worker, team)
        assert_complete(fleet.manager, team, {"train": 2, "next": 2})
        assert_left_nothing(fleet.workers, team)
    assert_ran_once(fleet.workers, team, {"train": 2, "next": 2})


def run_one(
    fleet: FleetUnderTest, team: str, name: str = "train", *, pods: int = 2
) -> tuple[str, str]:
    """Submit a job that runs until it is told to end; returns where, and where it does not."""
    submit(fleet.manager, make_job(name, queue=team, pods=pods, runs_for="1h"))
    here = until(lambda: find_worker(fleet.manager, team, name), f"{name} running")
    (there,) = (worker for worker in fleet.workers if worker != here)
    return here, there


def _assert_it_moves(fleet: FleetUnderTest, team: str, here: str, there: str) -> None:
    until(lambda: find_worker(fleet.manager, team, "train") == there, f"train on {there}")
    end_pods(fleet.workers[there], team)
    assert_complete(fleet.manager, team, {"train": 2}, moved=True)
    assert_moved(fleet.workers, team, "train", [here, there])


def _configure(fleet: FleetUnderTest, clusters: list[str]) -> None:
    patch = json.dumps({"spec": {"clusters": clusters}})
    fleet.manager.kubectl("patch", f"multikueueconfig/{QUEUE}", "--type=merge", f"-p={patch}")


def _make_token(worker: Cluster, name: str) -> str:
    """Give the manager's account on a worker another token."""
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": SYSTEM,
            "annotations": {"kubernetes.io/service-account.name": "multikueue-manager"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    worker.kubectl("create", "-f", "-", stdin=json.dumps(secret))
    where = f"secret/{name}", f"-n={SYSTEM}"
    worker.kubectl("wait", "--for=jsonpath={.data.token}", *where, "--timeout=30s")
    found = worker.kubectl("get", *where, "-o=jsonpath={.data.token}")
    return base64.b64decode(found).decode()
