"""``multiqueue import`` on a real control plane, beside ours or upstream's manager."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.conftest import StartControlPlane, require
from tests.controlplane.installed import install, leader
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue

TEAM = "--namespace=team"
QUEUES = """
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {gpu: a100}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
spec: {nodeLabels: {gpu: a100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: a100, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: cq}
"""
KINDS = {"integrations": {"frameworks": ["batch/job", "pod"]}}
RunManager = Callable[
    [StartControlPlane, Path], contextlib.AbstractContextManager[RealControlPlane]
]
POD = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}


def create(plane: RealControlPlane, *objects: Mapping[str, Any]) -> None:
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objects))


def set_phase(plane: RealControlPlane, pod: str, phase: str) -> None:
    patch = json.dumps({"status": {"phase": phase}})
    plane.kubectl("patch", "pod", pod, TEAM, "--subresource=status", "--type=merge", "-p", patch)


def usage(plane: RealControlPlane) -> str:
    path = "jsonpath={.status.flavorsUsage[0].resources[0].total}"
    return plane.kubectl("get", "clusterqueue", "cq", "-o", path)


def uids(plane: RealControlPlane) -> set[str]:
    """The pods that are there and are not being deleted."""
    found = json.loads(plane.kubectl("get", "pods", TEAM, "-o", "json"))["items"]
    metadata = [pod["metadata"] for pod in found]
    return {each["uid"] for each in metadata if "deletionTimestamp" not in each}


def run_import(plane: RealControlPlane, *options: str) -> str:
    mapping = ("--queue-label", "src", "--queue-mapping", "a=lq", "-n", "team")
    command = [sys.executable, "-m", "multiqueue", "import", *mapping, *options]
    done = subprocess.run(
        [*command, "--kubeconfig", str(plane.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def ours(start: StartControlPlane, folder: Path) -> Iterator[RealControlPlane]:
    """A control plane with our manager and its webhooks."""
    plane = start("plane")
    install(plane)
    with leader(plane, folder / "manager", **KINDS):
        yield plane


@contextlib.contextmanager
def upstream(start: StartControlPlane, folder: Path) -> Iterator[RealControlPlane]:
    """A control plane with upstream's manager; its webhooks would refuse to label what runs."""
    require("kueue")
    plane = start("plane")
    install_upstream(plane)
    with running_kueue(plane, folder / "kueue", more=yaml.safe_dump(KINDS)):
        yield plane


@pytest.mark.timeout(300)
@pytest.mark.parametrize("running_manager", [ours, upstream])
def test_what_runs_is_imported_and_not_restarted(
    start_control_plane: StartControlPlane, tmp_path: Path, running_manager: RunManager
) -> None:
    with running_manager(start_control_plane, tmp_path) as plane:
        plane.kubectl("create", "-f", "-", stdin=QUEUES)
        plane.kubectl("wait", "--for=condition=Active", "clusterqueue/cq", "--timeout=30s")
        labelled = {"name": "solo", "namespace": "team", "labels": {"src": "a"}}
        solo = {"apiVersion": "v1", "kind": "Pod", "metadata": labelled}
        template = {
            "metadata": {"labels": {"src": "a"}},
            "spec": {**POD, "restartPolicy": "Never", "nodeName": "n1"},
        }
        spec = {"parallelism": 2, "completions": 2, "template": template}
        metadata = {"name": "train", "namespace": "team"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        create(plane, {**solo, "spec": {**POD, "nodeName": "n1"}}, job)
        plane.kubectl("wait", "--for=jsonpath={.status.active}=2", "job/train", TEAM)
        set_phase(plane, "solo", "Running")
        before = uids(plane)
        assert len(before) == 3

        assert "4 found, 2 can be imported, 0 failed" in run_import(plane)
        assert "2 imported, 0 failed" in run_import(plane, "--dry-run=false")
        until(lambda: usage(plane) == "3", "three CPUs in use")
        assert "0 imported, 0 failed" in run_import(plane, "--dry-run=false")
        # The reasons may differ: upstream's scheduler may write its own over those of the import.
        for type_ in ("QuotaReserved", "Admitted"):
            path = f"jsonpath={{.items[*].status.conditions[?(@.type=='{type_}')].status}}"
            assert plane.kubectl("get", "workloads", TEAM, "-o", path) == "True True"
        assert uids(plane) == before

        set_phase(plane, "solo", "Succeeded")
        until(lambda: usage(plane) == "2", "one CPU less")
        assert uids(plane) == before
