"""A slow API server gets admissions first: a real one, behind a proxy that makes writes slow."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from tests.audited_writes import AuditedWrites
from tests.bench.upstream.run import NO_LIMIT, OURS, Setting, running_manager
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, make_template
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.installed import CONFIG
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.slow_proxy import slow_proxy

COUNT = 40
"""Workloads; there is quota for half of them."""
MILLISECONDS = 20, 100, 500
CAN_WAIT = ("events", "clusterqueues/status", "localqueues/status")
BEFORE_IT_IS_KNOWN = 20
"""Writes that are sent before the first answers show that the server is slow."""


def make_workloads() -> str:
    pod_set = {"name": "main", "count": 1, "template": make_template()}
    items = [
        {
            "apiVersion": names.V1BETA2,
            "kind": "Workload",
            "metadata": {"name": f"wl-{number}", "namespace": NAMESPACE},
            "spec": {"queueName": "lq", "podSets": [pod_set]},
        }
        for number in range(COUNT)
    ]
    return as_list(*items)


def as_list(*items: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def count_admitted(plane: RealControlPlane) -> int:
    what = '{range .items[*]}{.status.conditions[?(@.type=="Admitted")].status}{"\\n"}{end}'
    command = ("get", "workloads", f"--namespace={NAMESPACE}", f"--output=jsonpath={what}")
    return plane.kubectl(*command).split().count("True")


def stop_queue(plane: RealControlPlane, policy: str) -> None:
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    plane.kubectl("patch", "clusterqueue", "cq", "--type=merge", f"--patch={patch}")


def admit_all(plane: RealControlPlane, audit: AuditedWrites, milliseconds: int) -> Counter[str]:
    """Return what was written until the last admission on a server that is so slow.

    All Workloads become ready at once, when their queue is resumed.
    """
    stop_queue(plane, "Hold")
    audit.seen.clear()
    plane.kubectl("create", "--filename=-", stdin=make_workloads())
    until(lambda: audit.seen["events"] >= COUNT, "that everybody is told to wait")
    audit.seen.clear()
    audit.seconds = milliseconds / 1000
    stop_queue(plane, "None")
    until(lambda: count_admitted(plane) == COUNT // 2, f"admissions with {milliseconds} ms")
    written = audit.at_admission
    audit.seconds = 0.0
    until(lambda: audit.seen["events"] >= COUNT, "that everybody is told afterwards")
    stop_queue(plane, "Hold")
    plane.kubectl("delete", "workloads", "--all", f"--namespace={NAMESPACE}", "--wait=true")
    return written


@pytest.mark.timeout(180)
def test_a_slow_server_gets_admissions_before_reasons(tmp_path: Path) -> None:
    require(*NEEDED)
    audit, setting = AuditedWrites(), Setting(OURS, "baseline", NO_LIMIT, 1.0)
    with RealControlPlane(tmp_path, controllers=False) as plane, slow_proxy(plane, audit) as path:
        plane.kubectl("apply", "--server-side", "-k", str(CONFIG / "crd"))
        plane.wait_until_served()
        plane.kubectl("create", "namespace", NAMESPACE)
        queue = make_cluster_queue(cpu=str(COUNT // 2))
        plane.kubectl(
            "create", "--filename=-", stdin=as_list(make_flavor(), queue, make_local_queue())
        )
        with running_manager(setting, path, tmp_path):
            admit_all(plane, audit, 0)  # a manager that has just started admits nobody at first
            got = {each: admit_all(plane, audit, each) for each in MILLISECONDS}
    for milliseconds, written in got.items():
        reasons = written["workloads/status"] - COUNT // 2
        can_wait = reasons + sum(written[kind] for kind in CAN_WAIT)
        assert can_wait <= 0.1 * COUNT // 2 + BEFORE_IT_IS_KNOWN, (milliseconds, written)
