"""What checkers ask about objects. Pure, but for looking at the world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from tests.fleet.history import Change
from tests.fleet.kinds import has_ended, is_suspended, plural_of
from tests.fleet.objects import Json
from tests.fleet.played_kueue import gpus_of
from tests.fleet.weather import LATE
from tests.fleet.world import HUB, FleetWorld, workload_key

ORIGIN = names.DEFAULT_ORIGIN


def is_ours(obj: Json) -> bool:
    """Whether an object on a worker carries the managers' origin."""
    return bool((obj["metadata"].get("labels") or {}).get(names.MULTIKUEUE_ORIGIN) == ORIGIN)


def is_stamped(obj: Json) -> bool:
    """Whether an object carries the managers' stamp, though maybe not their origin any more."""
    return names.MANAGER in (obj["metadata"].get("annotations") or {})


def is_manager(actor: str) -> bool:
    """Whether a manager does something that it means to."""
    return actor.startswith("manager-") and not actor.endswith(LATE)


def is_released(job: Json) -> bool:
    """Whether a job may run."""
    return not is_suspended(job) and not has_ended(job)


def has(obj: Json | None, condition: str) -> bool:
    """Whether a condition is True."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def check_of(workload: Json | None) -> Json | None:
    """Return the state of the MultiKueue check."""
    checks: list[Json] = ((workload or {}).get("status") or {}).get("admissionChecks") or []
    return checks[0] if checks else None


def new_retry(change: Change) -> str:
    """Return why the check goes to Retry with this change; empty where it does not."""
    if change.cluster != HUB or change.plural != "workloads":
        return ""
    before, after = check_of(change.old), check_of(change.new)
    if after is None or after["state"] != "Retry" or (before and before["state"] == "Retry"):
        return ""
    return str(after.get("message", ""))


def nominated_of(workload: Json | None) -> tuple[str, ...]:
    """Return the clusters that a Workload is offered to."""
    return tuple(((workload or {}).get("status") or {}).get("nominatedClusterNames") or ())


def waits(workload: Json) -> bool:
    """Whether a Workload holds quota and waits for a cluster."""
    check = check_of(workload)
    return (
        has(workload, "QuotaReserved")
        and not has(workload, "Evicted")
        and not has(workload, "Finished")
        and not workload["status"].get("clusterName")
        and not workload["metadata"].get("deletionTimestamp")
        and check is not None
        and check["state"] == "Pending"
    )


def pods_of(world: FleetWorld, key: str) -> Iterator[str]:
    """Yield the clusters where pods of a Workload run, and their Job is still there to tell so.

    Whoever deletes a Job in the background leaves pods that nobody can know of from afar.
    """
    for name, controller in world.job_controllers.items():
        for uid, pods in controller.running.items():
            if not is_ours(pods.job) or workload_key("jobs", pods.job) != key:
                continue
            found = world.workers[name].find(plural_of(pods.job["kind"]), pods.key)
            if found is not None and found["metadata"]["uid"] == uid:
                yield name


def latch_of(world: FleetWorld, key: str) -> str:
    """Return the cluster that runs a Workload, as the manager's API says."""
    workload = world.hub.find("workloads", key) or {}
    return str((workload.get("status") or {}).get("clusterName") or "")


def find_job(world: FleetWorld, cluster: str, key: str) -> Json | None:
    """Return the job of a Workload on a worker."""
    for job in world.list_jobs(cluster):
        if is_ours(job) and workload_key("jobs", job) == key:
            return job
    return None


def gpus_on(world: FleetWorld, workload: Json, cluster: str) -> int:
    """Return how many GPUs a Workload of the managers' needs on a worker."""
    gpus = gpus_of(decode(Workload, workload))
    annotations = workload["metadata"].get("annotations") or {}
    halves = names.ALTERNATIVES in annotations and cluster in world.plan.fast
    return gpus // 2 if halves else gpus


def describe(workload: Json | None) -> str:
    """Say where a Workload stands."""
    if workload is None:
        return "it has no Workload"
    status = workload.get("status") or {}
    words: list[Any] = [
        f"{c['type']}={c['status']} ({c.get('reason')}: {c.get('message')})"
        for c in status.get("conditions") or ()
    ]
    words += [
        f"check {c['state']}: {c.get('message')}" for c in status.get("admissionChecks") or ()
    ]
    words.append(f"on {status.get('clusterName')}, nominated {status.get('nominatedClusterNames')}")
    return "; ".join(words)
