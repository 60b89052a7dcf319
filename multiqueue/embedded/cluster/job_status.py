"""The status of a Job as the Job controller writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.cluster.indexes import format_indexes
from multiqueue.embedded.cluster.job_memory import Counts, is_indexed


class StatusDraft:
    """The status to write, started from the one that is there."""

    def __init__(self, job: Mapping[str, Any], *, now: datetime) -> None:
        self.job = job
        self.now = now
        self.before: Mapping[str, Any] = job.get("status") or {}
        self.status: dict[str, Any] = dict(self.before)
        self.status["conditions"] = list(self.before.get("conditions") or ())
        self.events: list[tuple[str, str, str]] = []

    def set_condition(self, type_: str, *, status: bool, reason: str, message: str) -> bool:
        """Set a condition; returns whether that changed anything."""
        wire = "True" if status else "False"
        conditions: list[Mapping[str, Any]] = self.status["conditions"]
        for old in conditions:
            if old["type"] == type_ and old["status"] == wire and old.get("reason") == reason:
                return False
        moment = format_time(self.now)
        new = {
            "type": type_,
            "status": wire,
            "reason": reason,
            "message": message,
            "lastProbeTime": moment,
            "lastTransitionTime": moment,
        }
        others = [condition for condition in conditions if condition["type"] != type_]
        self.status["conditions"] = [*others, new]
        if type_ == "Suspended":
            self.events.append(("Normal", "Suspended" if status else "Resumed", message))
        return True

    def resume(self) -> None:
        """The Job is not suspended: mark a resumption, and start the clock of a fresh start."""
        was_suspended = any(c["type"] == "Suspended" for c in self.status["conditions"])
        if was_suspended and self.set_condition(
            "Suspended", status=False, reason="JobResumed", message="Job resumed"
        ):
            self.status["startTime"] = format_time(self.now)
        self.status.setdefault("startTime", format_time(self.now))

    def set_counts(self, counts: Counts, *, active: int, ready: int, terminating: int) -> None:
        """Set the counts of pods, as they are once the plan is carried out."""
        self.status.update(
            active=active,
            ready=ready,
            terminating=terminating,
            succeeded=counts.succeeded,
            failed=counts.failed,
        )
        if is_indexed(self.job["spec"]):
            self.status["completedIndexes"] = format_indexes(counts.completed_indexes)

    def keep_results(self) -> None:
        """A finished Job keeps its results, whatever happens to its pods afterwards."""
        for name in ("succeeded", "failed", "completedIndexes"):
            if name in self.before:
                self.status[name] = self.before[name]
            else:
                self.status.pop(name, None)

    def changed(self) -> Mapping[str, Any] | None:
        """The status, or None if it says what is there already; absent counts are zero."""
        return None if _canonical(self.status) == _canonical(self.before) else self.status


def _canonical(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if value not in (0, "", None, [], {})}


def finished_condition(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the condition that says the Job has ended, or None."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            found: Mapping[str, Any] = condition
            return found
    return None
