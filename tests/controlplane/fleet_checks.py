"""What a fleet must show after its jobs ran: on the manager, on the workers, in the audit logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.controlplane.audit import created, requests
from tests.controlplane.fleet import MANAGER_USER
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until


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


def assert_ran_once(
    workers: Mapping[str, RealControlPlane], namespace: str, pods: Mapping[str, int]
) -> None:
    """Over all workers each job was created once in all time, and so was each of its pods."""
    jobs = [job for plane in workers.values() for job in created(plane, "jobs", namespace)]
    assert Counter(job["metadata"]["name"] for job in jobs) == dict.fromkeys(pods, 1)
    owners = [
        pod["metadata"]["ownerReferences"][0]["name"]
        for plane in workers.values()
        for pod in created(plane, "pods", namespace)
    ]
    assert Counter(owners) == pods


def assert_left_nothing(workers: Mapping[str, RealControlPlane], namespace: str) -> None:
    """Whatever was made for it on the workers goes."""
    for name, plane in workers.items():
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
