"""Installed as an administrator would, on a real control plane, run as its own service account."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import ACCOUNT, NAMESPACE, install, manager
from tests.controlplane.plane import RealControlPlane
from tests.processes import wait_for_text

MANIFESTS = Path(__file__).parent / "manifests"
VERSIONS = ("v1beta1", "v1beta2")


@pytest.fixture
def installed(start_control_plane: StartControlPlane) -> RealControlPlane:
    """A control plane on which `kubectl apply -k config/default` was run."""
    plane = start_control_plane("plane")
    install(plane)
    return plane


@pytest.mark.timeout(300)
def test_manifests_of_both_versions_are_admitted(
    installed: RealControlPlane, tmp_path: Path
) -> None:
    with manager(installed, tmp_path / "manager") as process:
        wait_for_text(process, tmp_path / "manager" / "log", r'"event":"ready"')
        for version in VERSIONS:
            installed.kubectl("apply", "-f", str(MANIFESTS / f"{version}.yaml"))
        for version in VERSIONS:
            assert_admitted(installed, f"team-{version}")
            queue = f"clusterqueues.{version}.kueue.x-k8s.io/cluster-queue-{version}"
            installed.kubectl("wait", "--for=condition=Active", queue)
    log = (tmp_path / "manager" / "log").read_text()
    assert "orbidden" not in log
    assert '"level":"error"' not in log


@pytest.mark.timeout(120)
def test_the_manager_may_do_nothing_in_general(installed: RealControlPlane) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    for namespace in (NAMESPACE, "default"):
        listed = installed.kubectl(
            "auth", "can-i", "--list", f"--as={account}", f"--namespace={namespace}"
        )
        resources = [line for line in listed.splitlines()[1:] if not line.startswith(" ")]
        assert any(line.startswith("workloads.kueue.x-k8s.io ") for line in resources)
        assert [line for line in resources if re.search(r"\*", line)] == []
    secrets = f"--as={account}", "--namespace=default"
    refused = subprocess.CalledProcessError
    with pytest.raises(refused):
        installed.kubectl("auth", "can-i", "list", "secrets", *secrets)


@pytest.mark.timeout(300)
def test_another_replica_takes_over(installed: RealControlPlane, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with manager(installed, first) as leader:
        wait_for_text(leader, first / "log", r'"event":"ready"')
        with manager(installed, second) as standby:
            wait_for_text(standby, second / "log", r'"event":"another manager leads"')
            installed.kubectl("apply", "-f", str(MANIFESTS / "v1beta2.yaml"))
            assert_admitted(installed, "team-v1beta2")
            leader.send_signal(signal.SIGKILL)
            leader.wait()
            wait_for_text(standby, second / "log", r'"event":"webhook configuration updated"')
            installed.kubectl("apply", "-f", str(MANIFESTS / "v1beta1.yaml"))
            assert_admitted(installed, "team-v1beta1")


def assert_admitted(plane: RealControlPlane, namespace: str) -> None:
    """The one job of a namespace gets quota and runs."""
    where = f"--namespace={namespace}"
    plane.kubectl("wait", "--for=create", "workload", "--all", where, "--timeout=30s")
    plane.kubectl("wait", "--for=condition=Admitted", "workload", "--all", where, "--timeout=30s")
    plane.kubectl("wait", "--for=jsonpath={.status.active}=2", "job/train", where, "--timeout=30s")
