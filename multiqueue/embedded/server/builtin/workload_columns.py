"""The columns of Jobs, Deployments and the like."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.embedded.server.ages import between
from multiqueue.embedded.server.builtin.columns import (
    AGE,
    NONE,
    SELECTOR,
    age_at,
    at,
    column,
    containers_of,
    count_at,
    images_of,
    is_true,
    labels_text,
    template_columns,
)

Json = Mapping[str, Any]


def job_status(job: Json, _now: datetime) -> str:
    """What ``kubectl get jobs`` shows under STATUS."""
    for finished in ("Complete", "Failed"):
        if is_true(job, finished):
            return finished
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job, name):
            return name
    return "Running"


def _completions(job: Json, _now: datetime) -> str:
    spec, done = job.get("spec", {}), job.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(job: Json, now: datetime) -> str:
    status = job.get("status", {})
    return between(status.get("startTime"), status.get("completionTime"), now)


def _number(*path: str) -> Any:
    return at(*path, default=0)


def _ready_of(wanted: str) -> Any:
    def cell(obj: Json, _now: datetime) -> str:
        return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj['spec'].get(wanted, 0)}"

    return cell


def _last_schedule(cron: Json, now: datetime) -> str:
    shown = age_at("status", "lastScheduleTime")(cron, now)
    return NONE if "lastScheduleTime" not in cron.get("status", {}) else str(shown)


_TEMPLATE = template_columns("spec", "template")

JOB_COLUMNS = (
    column("Status", job_status),
    column("Completions", _completions),
    column("Duration", _duration),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)
CRON_JOB_COLUMNS = (
    column("Schedule", at("spec", "schedule")),
    column("Timezone", at("spec", "timeZone", default=NONE)),
    column("Suspend", lambda cron, _now: str(bool(cron["spec"].get("suspend")))),
    column("Active", count_at("status", "active"), kind="integer"),
    column("Last Schedule", _last_schedule),
    AGE,
    *template_columns("spec", "jobTemplate", "spec", "template"),
)
DEPLOYMENT_COLUMNS = (
    column("Ready", _ready_of("replicas")),
    column("Up-to-date", _number("status", "updatedReplicas"), kind="integer"),
    column("Available", _number("status", "availableReplicas"), kind="integer"),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)
REPLICA_SET_COLUMNS = (
    column("Desired", _number("spec", "replicas"), kind="integer"),
    column("Current", _number("status", "replicas"), kind="integer"),
    column("Ready", _number("status", "readyReplicas"), kind="integer"),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)
STATEFUL_SET_COLUMNS = (column("Ready", _ready_of("replicas")), AGE, *_TEMPLATE)
POD_TEMPLATE_COLUMNS = (
    column("Containers", containers_of("template", "spec")),
    column("Images", images_of("template", "spec")),
    column(
        "Pod Labels", lambda obj, _now: labels_text(obj["template"]["metadata"].get("labels", {}))
    ),
)
