"""What a fleet must show after its jobs ran: on the manager, on the workers, in the audit logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from tests.controlplane.audit import created, requests
from tests.controlplane.polling import until
from tests.e2e.fleet_under_test import MANAGER_USER, REMOTE_USER, Cluster

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def wait_until_active(manager: Cluster) -> None:
    """Every worker is connected, every check and every queue is ready."""
    active = "--for=condition=Active", "--all", "--timeout=60s"
    manager.kubectl("wait", *active, "multikueueclusters,admissionchecks,clusterqueues")


def assert_complete(
    manager: Cluster,
    namespace: str,
    pods: Mapping[str, int],
    *,
    seconds: int = 120,
    moved: bool = False,
) -> None:
    """Each job ended well, says when and with how many pods, and so does its Workload.

    None was ever evicted, unless they were to move.
    """
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
        assert moved or "Evicted" not in reasons


def assert_ran_once(
    workers: Mapping[str, Cluster], namespace: str, pods: Mapping[str, int]
) -> None:
    """Over all workers each job was created once in all time, and so was each of its pods."""
    jobs = [
        (job["metadata"]["name"], worker, job["metadata"]["creationTimestamp"])
        for worker, plane in workers.items()
        for job in created(plane, "jobs", namespace)
    ]
    assert Counter(name for name, _, _ in jobs) == dict.fromkeys(pods, 1), sorted(jobs)
    owners = [
        pod["metadata"]["ownerReferences"][0]["name"]
        for plane in workers.values()
        for pod in created(plane, "pods", namespace)
    ]
    assert Counter(owners) == pods


def assert_moved(workers: Mapping[str, Cluster], namespace: str, job: str, way: list[str]) -> None:
    """It was created once on each of these, and had left one before it was created on the next."""
    stays = {
        worker: (created_at, last_written_at(cluster, "jobs", namespace, job))
        for worker, cluster in workers.items()
        for name, created_at in created_jobs(cluster, namespace)
        if name == job
    }
    assert sorted(stays, key=lambda worker: stays[worker][0]) == way
    for here, there in pairwise(way):
        assert stays[here][1] < stays[there][0], f"{job} was on {there} before it had left {here}"


def created_jobs(cluster: Cluster, namespace: str) -> list[tuple[str, str]]:
    """Names of the jobs that a manager ever created on a worker, and when."""
    return [
        (event["responseObject"]["metadata"]["name"], event["requestReceivedTimestamp"])
        for event in requests(cluster)
        if event["verb"] == "create"
        and event["responseStatus"]["code"] == HTTPStatus.CREATED
        and event["user"]["username"] == REMOTE_USER
        and event["objectRef"]["resource"] == "jobs"
        and event["objectRef"].get("namespace") == namespace
    ]


def last_written_at(cluster: Cluster, resource: str, namespace: str, name: str) -> str:
    """When it was last written or deleted by anybody; its removal for one that is gone."""
    return max(
        event["requestReceivedTimestamp"]
        for event in requests(cluster)
        if event["verb"] in WRITES and _is_about(event, resource, namespace, name)
    )


def assert_untouched(cluster: Cluster, resource: str, namespace: str, name: str) -> None:
    """No manager of another cluster ever wrote to it."""
    writes = [
        f"{event['verb']} {event['requestURI']}: {event['responseStatus']['code']}"
        for event in requests(cluster)
        if event["verb"] in WRITES - {"create"}
        and event["user"]["username"] == REMOTE_USER
        and _is_about(event, resource, namespace, name)
    ]
    assert writes == []


def _is_about(event: dict[str, Any], resource: str, namespace: str, name: str) -> bool:
    about = event.get("objectRef") or {}
    return (about.get("resource"), about.get("namespace"), about.get("name")) == (
        resource,
        namespace,
        name,
    )


def assert_left_nothing(workers: Mapping[str, Cluster], namespace: str) -> None:
    """Whatever was made for it on the workers goes."""
    for name, cluster in workers.items():
        until(
            lambda at=cluster: not read(at, "jobs,workloads,pods", namespace),
            f"empty namespace {namespace} on {name}",
        )


def assert_quota_is_free(manager: Cluster, cluster_queue: str) -> None:
    def is_free() -> bool:
        found = json.loads(manager.kubectl("get", "clusterqueue", cluster_queue, "-o=json"))
        totals = {
            resource["total"]
            for flavor in found["status"]["flavorsReservation"]
            for resource in flavor["resources"]
        }
        return totals == {"0"}

    until(is_free, f"free quota in {cluster_queue}")


def read(cluster: Cluster, kinds: str, namespace: str) -> dict[str, dict[str, Any]]:
    """Objects by name."""
    text = cluster.kubectl("get", kinds, f"--namespace={namespace}", "-o=json")
    return {obj["metadata"]["name"]: obj for obj in json.loads(text)["items"]}


def workload_writes(cluster: Cluster, namespace: str) -> Counter[str]:
    """How often the manager wrote each Workload, by name."""
    return Counter(
        event["objectRef"]["name"]
        for event in requests(cluster)
        if event["user"]["username"] == MANAGER_USER
        and event["verb"] in {"create", "patch", "update"}
        and event["objectRef"]["resource"] == "workloads"
        and event["objectRef"].get("namespace") == namespace
    )


def find_worker(manager: Cluster, namespace: str, job: str) -> str:
    """Where a job runs now, with all its pods; "" while it does not."""
    for workload in read(manager, "workloads", namespace).values():
        owner = workload["metadata"]["ownerReferences"][0]["name"]
        status = read(manager, "jobs", namespace)[job].get("status", {})
        pods = workload["spec"]["podSets"][0]["count"]
        if owner == job and status.get("ready") == pods and status.get("active") == pods:
            return str(workload.get("status", {}).get("clusterName") or "")
    return ""
