"""What a notification about a job says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.notify_reasons import NotifyReason
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
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
