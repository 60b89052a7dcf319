"""Validation of a Job's status: a controller may not write a state that contradicts itself."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid, required

Json = Mapping[str, Any]

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


def validate_job_status(new: Json, old: Json) -> list[FieldCause]:
    """What is wrong with the status; only what the update introduces counts."""
    status, before = new.get("status", {}), old.get("status", {})
    causes = [
        invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
        for field in _COUNTS
        if status.get(field, 0) < 0
    ]
    existing = _contradictions(before, old.get("spec", {}))
    return causes + [
        cause for cause in _contradictions(status, new["spec"]) if cause not in existing
    ]


def _contradictions(status: Json, spec: Json) -> list[FieldCause]:
    complete, failed = has_condition(status, "Complete"), has_condition(status, "Failed")
    conditions = status.get("conditions", [])
    where = "status.conditions"
    causes = []
    if complete and failed:
        text = "cannot set Complete=True and Failed=true conditions"
        causes.append(invalid(where, conditions, text))
    if complete and has_condition(status, "FailureTarget"):
        text = "cannot set Complete=True and FailureTarget=true conditions"
        causes.append(invalid(where, conditions, text))
    if complete and not has_condition(status, "SuccessCriteriaMet"):
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        causes.append(invalid(where, conditions, text))
    if failed and not has_condition(status, "FailureTarget"):
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        causes.append(invalid(where, conditions, text))
    return (
        causes
        + _times(status, complete=complete, finished=complete or failed)
        + _pods(status, spec)
    )


def _times(status: Json, *, complete: bool, finished: bool) -> list[FieldCause]:
    started, completed = status.get("startTime"), status.get("completionTime")
    causes = []
    if finished and not started:
        causes.append(required("status.startTime", "startTime is required for finished job"))
    if complete and not completed:
        causes.append(
            required("status.completionTime", "completionTime is required for Complete jobs")
        )
    if completed and not complete:
        text = "cannot set completionTime when there is no Complete=True condition"
        causes.append(invalid("status.completionTime", completed, text))
    if started and completed and completed < started:
        text = "completionTime cannot be set before startTime"
        causes.append(invalid("status.completionTime", completed, text))
    return causes


def _pods(status: Json, spec: Json) -> list[FieldCause]:
    finished = has_condition(status, "Complete") or has_condition(status, "Failed")
    active, ready = status.get("active", 0), status.get("ready", 0)
    causes = []
    if finished and active > 0:
        causes.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    if finished and status.get("terminating", 0) > 0:
        text = "terminating>0 is invalid for finished job"
        causes.append(invalid("status.terminating", status["terminating"], text))
    if ready > active:
        causes.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    succeeded, completions = status.get("succeeded", 0), spec.get("completions")
    if (
        spec.get("completionMode") == "Indexed"
        and completions is not None
        and succeeded > completions
    ):
        text = f"cannot set more succeeded pods than completions: {completions}"
        causes.append(invalid("status.succeeded", succeeded, text))
    return causes


def has_condition(status: Json, name: str) -> bool:
    """Whether a condition is True."""
    return any(
        condition.get("type") == name and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )
