"""The columns of Pods: readiness, and a status that says what is going on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.embedded.server.ages import age
from multiqueue.embedded.server.builtin.columns import AGE, NONE, at, column, condition, is_true

Json = Mapping[str, Any]


def _statuses(pod: Json) -> list[Json]:
    statuses: list[Json] = pod.get("status", {}).get("containerStatuses", [])
    return statuses


def _is_running_ready(status: Json) -> bool:
    return bool(status.get("ready")) and "running" in status.get("state", {})


def _ready(pod: Json, _now: datetime) -> str:
    ready = sum(map(_is_running_ready, _statuses(pod)))
    return f"{ready}/{len(pod.get('spec', {}).get('containers', ()))}"


def pod_status(pod: Json, _now: datetime) -> str:
    """What ``kubectl get pods`` shows under STATUS."""
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = _container_reason(pod, reason)
    if "deletionTimestamp" not in pod["metadata"]:
        return str(reason)
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return str(reason) if status.get("phase") in {"Succeeded", "Failed"} else "Terminating"


def _ended_reason(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return (
        f"Signal:{ended['signal']}"
        if ended.get("signal")
        else f"ExitCode:{ended.get('exitCode', 0)}"
    )


def _container_reason(pod: Json, reason: str) -> str:
    """The first container's word counts most; one that still runs outvotes completed ones."""
    running = False
    for status in reversed(_statuses(pod)):
        state = status.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ended_reason(state["terminated"])
        elif _is_running_ready(status):
            running = True
    if reason == "Completed" and running:
        return "Running" if is_true(pod, "Ready") else "NotReady"
    return reason


def _restarts(pod: Json, now: datetime) -> str:
    count = sum(status.get("restartCount", 0) for status in _statuses(pod))
    ended = [
        status["lastState"]["terminated"].get("finishedAt")
        for status in _statuses(pod)
        if "terminated" in status.get("lastState", {})
    ]
    last = max(filter(None, ended), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


POD_COLUMNS = (
    column("Ready", _ready),
    column("Status", pod_status),
    column("Restarts", _restarts),
    AGE,
    column("IP", at("status", "podIP", default=NONE), wide=True),
    column("Node", at("spec", "nodeName", default=NONE), wide=True),
    column("Nominated Node", at("status", "nominatedNodeName", default=NONE), wide=True),
)
