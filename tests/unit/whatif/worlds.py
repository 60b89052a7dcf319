"""The demo's objects as a snapshot, with jobs of choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.runtime.demo.jobs import DemoJob, build_job
from multiqueue.runtime.demo.objects import WORKERS, manager_objects, worker_objects
from multiqueue.whatif.contents import KIND_BY_NAME, keep_configuration
from multiqueue.whatif.snapshot import Snapshot
from multiqueue.whatif.submission import submit_job
from tests.builders.engine import T0, seconds

ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Active",
    "lastTransitionTime": format_time(T0),
}


def make_snapshot(
    *waiting: DemoJob,
    holding: Sequence[DemoJob] = (),
    config: Configuration | None = None,
) -> Snapshot:
    """The demo's three clusters. ``holding`` are jobs that run on their accelerator."""
    snapshot = Snapshot(
        taken_at=T0 + seconds(3600),
        program="multiqueue test",
        configuration=keep_configuration(config or Configuration()),
    )
    for obj in manager_objects():
        with_status = {**obj, "status": {"conditions": [ACTIVE]}}
        if obj["kind"] in KIND_BY_NAME:
            snapshot.put(with_status)
    for worker in WORKERS:
        for obj in worker_objects(worker):
            if obj["kind"] in KIND_BY_NAME and KIND_BY_NAME[obj["kind"]].on_workers:
                snapshot.put(obj, worker.name)
    for number, job in enumerate(holding):
        _hold(add_job(snapshot, job, number), job)
    for number, job in enumerate(waiting, start=100):
        add_job(snapshot, job, number)
    return snapshot


def add_job(snapshot: Snapshot, job: DemoJob, number: int) -> dict[str, Any]:
    """Submit a job; a higher number is a later job."""
    key = submit_job(snapshot, build_job(job), job.team)
    obj = snapshot.of("Workload")[key]
    obj["metadata"] |= {
        "uid": f"uid-{number:03}",
        "creationTimestamp": format_time(T0 + seconds(number)),
    }
    return obj


def _hold(obj: dict[str, Any], job: DemoJob) -> None:
    """Write the status of a job that has run for half an hour."""
    resources = ("cpu", "memory", "nvidia.com/gpu")
    usage = {"cpu": 2 * job.pods, "memory": f"{8 * job.pods}Gi", "nvidia.com/gpu": job.gpus}
    since = format_time(T0 + seconds(1800))
    worker = next(each.name for each in WORKERS if each.flavor == job.accelerator)
    obj["status"] = {
        "admission": {
            "clusterQueue": job.team,
            "podSetAssignments": [
                {
                    "name": "main",
                    "count": job.pods,
                    "flavors": dict.fromkeys(resources, job.accelerator),
                    "resourceUsage": usage,
                }
            ],
        },
        "clusterName": worker,
        "conditions": [
            {"type": type_, "status": "True", "reason": type_, "lastTransitionTime": since}
            for type_ in ("QuotaReserved", "Admitted")
        ],
        "admissionChecks": [{"name": "gpu-workers", "state": "Ready", "lastTransitionTime": since}],
    }


def make_job(
    team: str, name: str, gpus: int, *, accelerator: str = "", priority: str = ""
) -> DemoJob:
    """A job of one pod."""
    return DemoJob(
        team=team,
        name=name,
        pods=1,
        gpus_each=gpus,
        run_seconds=1,
        accelerator=accelerator,
        priority=priority,
    )
