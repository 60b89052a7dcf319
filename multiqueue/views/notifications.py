"""What a notification about a job says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.notify_reasons import NotifyReason
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.views.phase import find_phase
from multiqueue.views.start import say_range, say_start
from multiqueue.views.workloads import view_workload

MAX_MESSAGE = 512
TEST = "test"
"""The reason of a test; no job can ask for it."""
VERBS: Mapping[str, str] = {
    TEST: "is a test",
    NotifyReason.ADMITTED: "is admitted",
    NotifyReason.STARTED: "runs",
    NotifyReason.EVICTED: "was stopped",
    NotifyReason.FINISHED: "has finished",
    NotifyReason.FAILED: "has failed",
    NotifyReason.LATE: "is later than foreseen",
}
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

Json = dict[str, Any]


def tell_change(workload: Workload, reason: NotifyReason, at: datetime, message: str) -> Json:
    """Return the JSON form of a notification: at most 4 KB, without labels or annotations.

    ``id`` is the same if it is sent twice. Parity: S-166.

    Args:
        workload: The Workload.
        reason: What happened to it.
        at: When.
        message: The message of the condition that says so.
    """
    row = view_workload(workload)
    time = format_time(at)
    return {
        "id": f"{workload.metadata.uid}/{reason}/{time}",
        "time": time,
        "reason": reason,
        "namespace": row.namespace,
        "workload": workload.metadata.name,
        "job": row.job,
        "localQueue": row.queue,
        "gpus": row.gpus,
        "worker": workload.status.cluster_name or "",
        "message": message[:MAX_MESSAGE],
        "omitted": 0,
    }


def tell_late(
    workload: Workload, foreseen: Mapping[str, Any], start: Mapping[str, Any] | None, now: datetime
) -> Json:
    """Return that a job is later than foreseen, with both ranges.

    Args:
        workload: The Workload.
        foreseen: What was foreseen first.
        start: What is foreseen now, or why that is not known; None: it does not wait for quota.
        now: The current time.
    """
    then = say_range(foreseen, now)
    later = say_start(start, now) if start is not None else find_phase(workload).words
    message = f"it was to start {then}; now: {later} (times are UTC)"
    ranges = {"foreseen": _keep_range(foreseen), "start": _keep_range(start or {})}
    return {**tell_change(workload, NotifyReason.LATE, now, message), **ranges}


def _keep_range(start: Mapping[str, Any]) -> Json:
    return {name: start.get(name) for name in ("at", "earliest", "latest")}


def tell_test(namespace: str, at: datetime) -> Json:
    """Return a notification about nothing, with all fields of others.

    Args:
        namespace: That of the manager.
        at: The time.
    """
    time = format_time(at)
    return {
        "id": f"{TEST}/{time}",
        "time": time,
        "reason": TEST,
        "namespace": namespace,
        "workload": TEST,
        "job": TEST,
        "localQueue": "",
        "gpus": 0,
        "worker": "",
        "message": "sent by multiqueue notify test",
        "omitted": 0,
    }


def say_change(told: Mapping[str, Any]) -> Json:
    """Return a notification in the form of Slack; markup in names and messages is escaped."""
    where = f" on {told['worker']}" if told["worker"] else ""
    message = f": {told['message']}" if told["message"] else ""
    text = f"{told['namespace']}: {told['job']} {VERBS[told['reason']]}{where}{message}"
    if told["omitted"]:
        text += f" ({told['omitted']} earlier notifications of this namespace were left out)"
    return {"text": text.translate(_MARKUP)}
