"""A job that moves to a better flavor on real control planes, with us and with upstream Kueue."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api import names
from tests.builders.jobs import make_job
from tests.builders.queues import make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane.conftest import NEEDED, StartControlPlane, require
from tests.controlplane.installed import install, leader, troubles
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue

pytestmark = pytest.mark.timeout(240)
PAGE = Path(__file__).parents[2] / "docs" / "concurrent-admission.md"
GATES = {"VisibilityOnDemand": False, "ConcurrentAdmission": True}


def groups(**quotas: int) -> list[dict[str, Any]]:
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(quota)}]}
        for name, quota in quotas.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def make_objects() -> list[dict[str, Any]]:
    """The objects of the page, with no quota for the better flavor at first."""
    (manifests,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    *flavors, queue = yaml.safe_load_all(manifests)
    queue["spec"]["resourceGroups"] = groups(reserved=0, spot=16)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [
        namespace,
        *flavors,
        queue,
        make_local_queue(cluster_queue="anywhere"),
        make_job("train"),
    ]


def family(plane: RealControlPlane) -> dict[str, Any]:
    """What can be seen of the job: its flavor, the parent, and the variants by flavor."""
    listed = json.loads(plane.kubectl("get", "workloads,jobs", "-n", NAMESPACE, "-o", "json"))
    found: dict[str, Any] = {"variants": {}}
    for item in listed["items"]:
        metadata, status = item["metadata"], item.get("status") or {}
        conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        if item["kind"] == "Job":
            selector = item["spec"]["template"]["spec"].get("nodeSelector") or {}
            found["job"] = None if item["spec"]["suspend"] else selector.get("tier")
        elif names.WORKLOAD_ALLOWED_FLAVORS in (metadata.get("annotations") or {}):
            flavor = metadata["annotations"][names.WORKLOAD_ALLOWED_FLAVORS]
            gates = [gate["name"] for gate in item["spec"].get("preemptionGates") or ()]
            admitted = conditions.get("Admitted") == "True"
            found["variants"][flavor] = (admitted, item["spec"]["active"], gates)
        else:
            label = metadata["labels"].get(names.CONCURRENT_ADMISSION_PARENT)
            found["parent"] = (label, conditions.get("Admitted") == "True")
    return found


def runs_with(flavor: str, active: tuple[str, ...]) -> dict[str, Any]:
    gates = [names.VARIANT_GATE]
    variants = {each: (each == flavor, each in active, gates) for each in ("reserved", "spot")}
    return {"job": flavor, "parent": ("true", True), "variants": variants}


def move(plane: RealControlPlane) -> None:
    """The job starts on spot, and moves once there is reserved quota."""
    for obj in make_objects():
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    both = runs_with("spot", ("reserved", "spot"))
    until(lambda: family(plane) == both, "job on spot")
    patch = json.dumps({"spec": {"resourceGroups": groups(reserved=4, spot=16)}})
    plane.kubectl("patch", "clusterqueue", "anywhere", "--type=merge", f"--patch={patch}")
    alone = runs_with("reserved", ("reserved",))
    until(lambda: family(plane) == alone, "job on reserved")


def test_a_job_moves_on_a_real_control_plane(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install(plane)
    with leader(plane, tmp_path / "manager", featureGates=GATES):
        move(plane)
        plane.kubectl("delete", "job", "train", f"--namespace={NAMESPACE}")
        until(lambda: family(plane) == {"variants": {}}, "end of all Workloads")
    assert troubles(tmp_path / "manager") == []


def test_a_job_moves_with_upstream(start_control_plane: StartControlPlane, tmp_path: Path) -> None:
    require(*NEEDED, "kueue")
    plane = start_control_plane("plane")
    install_upstream(plane)
    with ExitStack() as stack:
        more = yaml.safe_dump({"featureGates": GATES})
        stack.enter_context(running_kueue(plane, tmp_path / "kueue", more=more))
        move(plane)
