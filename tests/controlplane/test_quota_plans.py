"""A QuotaPlan on a real control plane: who agreed, who owns quotas, and what changes by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api.names import APPROVED_BY
from multiqueue.api.v1beta2.meta import format_time
from tests.builders.queues import make_cluster_queue, make_flavor
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import install, leader, troubles
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until

pytestmark = pytest.mark.timeout(120)
PLAN = {
    "apiVersion": "multiqueue.dev/v1alpha1",
    "kind": "QuotaPlan",
    "metadata": {"name": "plan"},
    "spec": {
        "cohort": "teams",
        "resources": [{"flavor": "default", "resource": "cpu"}],
        "history": {"least": "1h"},
    },
}
USED = {"vision": "14000:48000", "speech": "4000:48000"}


def make_queue(name: str, cpu: int) -> dict[str, Any]:
    back = {"reclaimWithinCohort": "Any"}  # else the linter warns of lending
    return make_cluster_queue(name, cpu=str(cpu), cohortName="teams", preemption=back)


def read(plane: RealControlPlane, *what: str) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(plane.kubectl("get", *what, "-o", "json"))
    return got


def measure(plane: RealControlPlane) -> None:
    """Make two queues of ten CPUs, and a plan that has measured 14 and 4."""
    for obj in (
        make_flavor(),
        *(make_queue(name, 10) for name in USED),
        PLAN,
    ):
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    now = datetime.now(UTC)
    since = format_time(now - timedelta(hours=4))
    demand = [
        {"clusterQueue": q, "flavor": "default", "resource": "cpu", "since": since, "histogram": h}
        for q, h in USED.items()
    ]
    status = {"status": {"sampledUntil": format_time(now), "demand": demand}}
    patch_plan(plane, status, "--subresource=status")


def patch_plan(plane: RealControlPlane, patch: dict[str, Any], *options: str) -> None:
    plane.kubectl("patch", "qplan", "plan", "--type=merge", f"-p={json.dumps(patch)}", *options)


def state(plane: RealControlPlane) -> str:
    return str(read(plane, "qplan", "plan").get("status", {}).get("state", ""))


def quotas(plane: RealControlPlane) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0][
            "nominalQuota"
        ]
        for each in read(plane, "clusterqueues")["items"]
    }


def run(plane: RealControlPlane, *arguments: str) -> str:
    command = sys.executable, "-m", "multiqueue", *arguments, "--kubeconfig", str(plane.kubeconfig)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_plan_is_agreed_to_applied_and_stopped_by_an_owner(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install(plane)
    measure(plane)
    with leader(plane, tmp_path / "manager"):
        until(lambda: state(plane) == "Proposed", "proposal")
        patch_plan(plane, {"metadata": {"annotations": {APPROVED_BY: "mallory"}}})
        assert APPROVED_BY not in read(plane, "qplan", "plan")["metadata"]["annotations"]
        assert "vision: 10 -> 11 cpu (default)" in run(plane, "quota", "approve", "plan")
        until(lambda: state(plane) == "Applied", "change")
        assert quotas(plane) == {"vision": "11", "speech": "9"}
        _, current = read(plane, "qplan", "plan")["status"]["states"]
        assert current["by"] == read_user(plane)
        owned = make_queue("speech", 9)
        options = "--server-side", "--force-conflicts", "--field-manager=kustomize-controller"
        plane.kubectl("apply", *options, "-f", "-", stdin=json.dumps(owned))
        run(plane, "quota", "rollback", "plan")
        until(lambda: state(plane) == "NotOurs", "refusal")
        assert quotas(plane) == {"vision": "11", "speech": "9"}
        header, row = plane.kubectl("get", "quotaplans").splitlines()
        assert header.split() == ["NAME", "COHORT", "MODE", "STATE", "PROPOSAL", "CHANGES", "AGE"]
        assert row.split()[:4] == ["plan", "teams", "Propose", "NotOurs"]
    assert troubles(tmp_path / "manager") == []


def test_a_plan_changes_quotas_by_itself_and_watches_who_shrank(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    """A proposal that has been there for two periods, as its status says."""
    plane = start_control_plane("plane")
    install(plane)
    measure(plane)
    patch_plan(plane, {"spec": {"mode": "Automatic", "every": "1h"}})
    with leader(plane, tmp_path / "manager"):
        until(lambda: state(plane) == "Proposed", "proposal")
        earlier = format_time(datetime.now(UTC) - timedelta(hours=2))
        since = {"status": {"proposal": {"since": earlier}}}
        patch_plan(plane, since, "--subresource=status")
        patch_plan(plane, {"spec": {"deadbandPercent": 6}})  # it is looked at
        until(lambda: state(plane) == "Applied", "change")
        assert quotas(plane) == {"vision": "11", "speech": "9"}
        status = read(plane, "qplan", "plan")["status"]
        assert status["states"][-1]["by"] == "mode Automatic"
        assert [each["clusterQueue"] for each in status["watch"]["queues"]] == ["speech"]
    assert troubles(tmp_path / "manager") == []


def read_user(plane: RealControlPlane) -> str:
    """Who kubectl is."""
    who = json.loads(plane.kubectl("auth", "whoami", "-o", "json"))
    return str(who["status"]["userInfo"]["username"])
