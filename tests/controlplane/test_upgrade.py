"""Two replicas are upgraded from the release before, and downgraded again, while jobs come."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.conftest import StartControlPlane, require
from tests.controlplane.installed import ROOT, install
from tests.controlplane.nodes import add_nodes, as_list, make_node
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.releases import (
    REPLICAS,
    export_previous_release,
    read_program_version,
    rolling_replicas,
)
from tests.controlplane.steady_client import NAMESPACE, QUEUE, SteadyClient, steady_client
from tests.controlplane.test_install import MANIFESTS, VERSIONS, assert_admitted
from tests.controlplane.test_migrate import (
    assert_next_in_line,
    assert_webhooks_answer,
    kueue,
    observe,
    run,
    submit_jobs,
)
from tests.controlplane.test_old_storage import old_storage

PAGE = ROOT / "docs" / "upgrades.md"
RUNNING, WAITING = 6, 12
SLOTS = 4
"""So many short jobs run at the same time."""
KINDS = ("clusterqueues", "localqueues", "resourceflavors", "workloads", "workloadpriorityclasses")


@pytest.mark.timeout(300)
def test_an_upgrade_and_a_downgrade_lose_nothing(
    start_control_plane: StartControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    require("kwok", "kube-scheduler")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", HOST)
    before = export_previous_release(tmp_path / "before")
    assert read_program_version(before) != read_program_version(ROOT)
    plane = start_control_plane("plane", extra_arguments=["--enable-aggregator-routing=true"])
    old_storage(plane, tmp_path)
    install(plane, before)
    add_nodes(plane, [make_node("node", "a100", gpus=1)])
    with rolling_replicas(plane, tmp_path) as replicas:
        replicas.roll(before)
        for version in VERSIONS:
            plane.kubectl("apply", "-f", str(MANIFESTS / f"{version}.yaml"))
            assert_admitted(plane, f"team-{version}")
        submit_jobs(plane, RUNNING, WAITING)
        plane.kubectl("create", "-f", "-", stdin=json.dumps(as_list(flow_objects())))
        kept, gangs = observe(plane), pods_of_gangs(plane)

        backup, apply = read_upgrade_commands()
        run(plane, tmp_path, backup)
        assert {"old", QUEUE} <= names_in(tmp_path / "before.yaml")
        ends_of = before
        with steady_client(plane) as client:
            wait_for_more(client)
            for source, ends in ((ROOT, "running-0"), (before, "running-1")):
                run(plane, source, apply)
                plane.wait_until_served()
                replicas.roll(source)
                wait_for_more(client)
                assert observe(plane) == kept
                begins = f"waiting-{WAITING - 1 - int(ends[-1])}"
                assert_next_in_line(plane, ends, begins)
                kept = observe(plane)
                assert client.cut <= (REPLICAS if lacks_drain(ends_of) else 0)
                record_property(f"cut while {ends} ended", client.cut)
                client.cut = 0
                ends_of = source
                assert len(kept["pods"]) == RUNNING
                assert pods_of_gangs(plane) == gangs
        assert client.refused == []
        assert client.cut == 0
        assert_webhooks_answer(plane)
        assert_short_jobs_in_order(plane, client)
    assert_read_in_both_versions(plane)


def read_upgrade_commands() -> list[str]:
    """What docs/upgrades.md says before the Deployment's rollout, which `roll` does here."""
    (block,) = re.findall(r"## Upgrade\n[^#]*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    *commands, rollout = block.splitlines()
    assert "rollout status" in rollout
    return list(commands)


def lacks_drain(source: Path) -> bool:
    """Whether a version closes idle connections at once when it ends, as 0.1.0 does."""
    return "DRAIN_SECONDS" not in (source / "multiqueue" / "serving" / "server.py").read_text()


def names_in(file: Path) -> set[str]:
    return {each["metadata"]["name"] for each in yaml.safe_load(file.read_text())["items"]}


def flow_objects() -> list[dict[str, Any]]:
    """A queue of its own for short jobs."""
    flavors = [{"name": "nodes", "resources": [{"name": "cpu", "nominalQuota": SLOTS}]}]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        kueue(
            "ClusterQueue",
            QUEUE,
            spec={
                "namespaceSelector": {},
                "queueingStrategy": "StrictFIFO",
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            },
        ),
        kueue("LocalQueue", QUEUE, namespace=NAMESPACE, spec={"clusterQueue": QUEUE}),
    ]


def wait_for_more(client: SteadyClient) -> None:
    """Some jobs that are made from now on run to their end."""
    wanted = len(client.created) + 1
    until(lambda: client.refused or len(client.created) > wanted, "jobs that are made")
    ended = len(ended_jobs(client.plane))
    until(lambda: client.refused or len(ended_jobs(client.plane)) > ended, "jobs that end")
    assert client.refused == []


def ended_jobs(plane: RealControlPlane) -> list[dict[str, Any]]:
    return [job for job in list_flow(plane, "jobs") if job["status"].get("completionTime")]


def pods_of_gangs(plane: RealControlPlane) -> dict[str, str]:
    uids = "--output=jsonpath={.items[*].metadata.uid}"
    spaces = [f"team-{version}" for version in VERSIONS]
    return {each: plane.kubectl("get", "pods", f"--namespace={each}", uids) for each in spaces}


def list_flow(plane: RealControlPlane, kind: str) -> list[dict[str, Any]]:
    found = plane.kubectl("get", kind, f"--namespace={NAMESPACE}", "--output=json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def assert_short_jobs_in_order(plane: RealControlPlane, client: SteadyClient) -> None:
    """None is lost, none ran twice or was evicted, and none overtook another."""
    jobs = list_flow(plane, "jobs")
    assert {job["metadata"]["uid"] for job in jobs} == set(client.created)
    pods = [pod["metadata"]["labels"]["job-name"] for pod in list_flow(plane, "pods")]
    assert len(pods) == len(set(pods))
    until(lambda: len(list_flow(plane, "workloads")) == len(jobs), "a Workload of each job")
    reserved, waiting = [], []
    for workload in list_flow(plane, "workloads"):
        conditions = {
            each["type"]: each for each in workload.get("status", {}).get("conditions", ())
        }
        assert "Evicted" not in conditions
        created = workload["metadata"]["creationTimestamp"]
        quota = conditions.get("QuotaReserved", {"status": "False"})
        if quota["status"] == "True":
            reserved.append((quota["lastTransitionTime"], created))
        else:
            waiting.append(created)
    assert len(reserved) > SLOTS
    in_order = [created for _, created in sorted(reserved)]
    assert in_order == sorted(in_order)
    assert max(in_order) <= min(waiting, default=max(in_order))


def assert_read_in_both_versions(plane: RealControlPlane) -> None:
    for kind in KINDS:
        first, second = (names(plane, f"{kind}.{each}.kueue.x-k8s.io") for each in VERSIONS)
        assert first == second != []


def names(plane: RealControlPlane, kind: str) -> list[str]:
    found = plane.kubectl("get", kind, "--all-namespaces", "--output=json")
    return sorted(each["metadata"]["name"] for each in json.loads(found)["items"])
