"""Devices on a real API server, which serves resource.k8s.io/v1, count as they do upstream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.jobs import make_job
from tests.builders.queues import make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane.conftest import NEEDED, StartControlPlane, require
from tests.controlplane.installed import install, leader
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.device_objects import (
    claiming,
    make_claim_template,
    make_device_class,
    make_device_queue,
    requesting,
)

pytestmark = pytest.mark.timeout(240)
PAGE = Path(__file__).parents[2] / "docs" / "devices.md"
CONFIGURATION, MANIFESTS = re.findall(
    r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
RESOURCES = yaml.safe_load(CONFIGURATION)["resources"]
SHARED = [{"name": "gpu", "resourceClaimName": "shared"}]


def objects() -> list[dict[str, Any]]:
    first_available = make_claim_template("first")
    request = first_available["spec"]["spec"]["devices"]["requests"][0]
    choice = {"name": "a", "deviceClassName": "gpu.example.com", "count": 1}
    request["firstAvailable"] = [choice]
    del request["exactly"]
    shared = make_job("shared")
    shared["spec"]["template"]["spec"]["resourceClaims"] = SHARED
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        make_flavor(),
        make_device_queue("gpu", 20, "y/gpu"),
        make_local_queue(),
        make_device_class(extended="x/gpu"),
        make_device_class("other", extended="y/gpu"),
        make_claim_template("two", count=2),
        make_claim_template("all", allocationMode="All", count=None),
        make_claim_template("unmapped", device_class="other"),
        first_available,
        claiming(make_job("two", parallelism=2, completions=2), "two"),
        claiming(make_job("all"), "all"),
        claiming(make_job("first"), "first"),
        claiming(make_job("unmapped"), "unmapped"),
        claiming(make_job("missing"), "missing"),
        shared,
        requesting(make_job("extended"), "x/gpu", 3),
        requesting(make_job("own-name"), "y/gpu", 5),
        requesting(claiming(make_job("both"), "two"), "x/gpu", 1),
    ]


def verdicts(plane: RealControlPlane, namespace: str = NAMESPACE) -> dict[str, Any]:
    """By job: the usage of its admission, or why it has none."""
    listed = json.loads(plane.kubectl("get", "workloads", "-n", namespace, "-o", "json"))
    return {
        item["metadata"]["ownerReferences"][0]["name"]: _verdict(item.get("status") or {})
        for item in listed["items"]
    }


def _verdict(status: Mapping[str, Any]) -> Any:
    if "admission" in status:
        return status["admission"]["podSetAssignments"][0]["resourceUsage"]
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    reserved = conditions.get("QuotaReserved")
    return reserved["reason"] if reserved else None


def decide(plane: RealControlPlane) -> dict[str, Any]:
    created = objects()
    for obj in created:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    jobs = sum(obj["kind"] == "Job" for obj in created)

    def all_decided() -> dict[str, Any] | None:
        found = verdicts(plane)
        return found if len(found) == jobs and all(found.values()) else None

    found = until(all_decided, "verdict on every job")
    assert found is not None
    return found


COUNTED = {
    "two": {"cpu": "2", "gpu": "4"},
    "extended": {"cpu": "1", "gpu": "3"},
    "own-name": {"cpu": "1", "y/gpu": "5"},
    "both": {"cpu": "1", "gpu": "3"},
}
REFUSED = ("all", "first", "unmapped", "missing", "shared")


def test_devices_count_on_a_real_control_plane(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install(plane)
    with leader(plane, tmp_path / "manager", resources=RESOURCES):
        assert decide(plane) == COUNTED | dict.fromkeys(REFUSED, "Misconfigured")
        plane.kubectl("create", "namespace", "training")
        plane.kubectl("apply", "-f", "-", stdin=MANIFESTS)
        want = {"claims-two": {"cpu": "3", "gpu": "6"}}
        until(lambda: verdicts(plane, "training") == want, "admission of the page's Job")


def test_upstream_counts_the_same(start_control_plane: StartControlPlane, tmp_path: Path) -> None:
    """Its release 0.19 has the coarser reason."""
    require(*NEEDED, "kueue")
    plane = start_control_plane("plane")
    install_upstream(plane)
    with ExitStack() as stack:
        more = yaml.safe_dump({"resources": RESOURCES})
        stack.enter_context(running_kueue(plane, tmp_path / "kueue", more=more))
        assert decide(plane) == COUNTED | dict.fromkeys(REFUSED, "Inadmissible")
