"""Decides the next step of a simulated kubelet for a pod, and the status to report. Pure.

Annotations on the pod (durations in simulated seconds):
``multiqueue.dev/sim-start-seconds``  from bound to running
``multiqueue.dev/sim-run-seconds``    from running to finished; ``forever`` never finishes
``multiqueue.dev/sim-exit-code``      exit code of every container
``multiqueue.dev/sim-stop-seconds``   from deletion to gone, at most the grace period
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from multiqueue.api.v1beta2.meta import format_time

START_SECONDS = "multiqueue.dev/sim-start-seconds"
RUN_SECONDS = "multiqueue.dev/sim-run-seconds"
EXIT_CODE = "multiqueue.dev/sim-exit-code"
STOP_SECONDS = "multiqueue.dev/sim-stop-seconds"

RESTART_BACKOFF_SECONDS = 10.0
RESTART_BACKOFF_MAX_SECONDS = 300.0
"""Delay of in-place restarts, as in Kubernetes: 10 s, doubled each time, at most 5 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPace:
    """Durations of pods without annotations, in simulated seconds."""

    start_seconds: float = 0.5
    run_seconds: float = 5.0
    stop_seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class PodRun:
    """A kubelet's memory of a pod, in simulated seconds of its own clock."""

    bound_at: float
    started_at: float | None = None
    stopping_at: float | None = None
    restarts: int = 0
    restart_at: float | None = None


class PodAction(Enum):
    """The next action on a pod."""

    NOTHING = "nothing"
    START = "start"
    RESTART = "restart"
    FINISH = "finish"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStep:
    """An action, or the simulated seconds until the next one (None: until the pod changes)."""

    action: PodAction = PodAction.NOTHING
    wait_seconds: float | None = None


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Whether all containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def decide_step(pod: Mapping[str, Any], run: PodRun, *, pace: PodPace, now: float) -> PodStep:
    """Return what the kubelet does at `now` (simulated seconds)."""
    if pod["metadata"].get("deletionTimestamp"):
        return _decide_removal(pod, run, pace=pace, now=now)
    if is_terminal(pod):
        return PodStep()
    if run.started_at is None:
        ready_at = run.bound_at + _seconds(pod, START_SECONDS, pace.start_seconds)
        return _due(PodAction.START, ready_at, now)
    if run.restart_at is not None:
        return _due(PodAction.RESTART, run.restart_at, now)
    ends_at = run.started_at + _run_seconds(pod, pace)
    if math.isinf(ends_at):
        return PodStep()
    return _due(PodAction.FINISH, ends_at, now)


def exit_code(pod: Mapping[str, Any]) -> int:
    """Return the exit code that the pod's containers end with."""
    try:
        return int(_annotation(pod, EXIT_CODE) or 0)
    except ValueError:
        return 1


def restarts_in_place(pod: Mapping[str, Any], code: int) -> bool:
    """Whether the kubelet restarts containers that ended with this code."""
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def restart_delay(restarts: int) -> float:
    """Return how long the kubelet waits before the next restart, in simulated seconds."""
    return float(
        min(RESTART_BACKOFF_MAX_SECONDS, RESTART_BACKOFF_SECONDS * 2.0 ** min(restarts, 10))
    )


def running_status(pod: Mapping[str, Any], *, now: datetime, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a pod whose containers run and are ready."""
    moment = format_time(now)
    states = [
        _container_status(
            container, restarts=restarts, is_ready=True, state={"running": {"startedAt": moment}}
        )
        for container in pod["spec"].get("containers") or ()
    ]
    ip = _pod_ip(pod)
    return {
        "phase": "Running",
        "startTime": (pod.get("status") or {}).get("startTime") or moment,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "hostIP": "10.0.0.1",
        "conditions": _conditions(pod, now=now, is_ready=True, reason=""),
        "containerStatuses": states,
        **_init_statuses(pod, now),
    }


def finished_status(
    pod: Mapping[str, Any], code: int, *, now: datetime, restarts: int = 0
) -> dict[str, Any]:
    """Return the status of a pod whose containers ended with `code` for good."""
    succeeded = code == 0
    state = {"terminated": _terminated(pod, code, now)}
    states = [
        _container_status(container, restarts=restarts, is_ready=False, state=state)
        for container in pod["spec"].get("containers") or ()
    ]
    reason = "PodCompleted" if succeeded else "PodFailed"
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": _conditions(pod, now=now, is_ready=False, reason=reason),
        "containerStatuses": states,
    }


def crashed_status(
    pod: Mapping[str, Any], code: int, *, now: datetime, restarts: int
) -> dict[str, Any]:
    """Return the status of a pod whose containers ended and will be restarted in place."""
    last = {"terminated": _terminated(pod, code, now)}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "restarting failed container"}}
    states = [
        {
            **_container_status(container, restarts=restarts, is_ready=False, state=waiting),
            "lastState": last,
        }
        for container in pod["spec"].get("containers") or ()
    ]
    return {
        "conditions": _conditions(pod, now=now, is_ready=False, reason="ContainersNotReady"),
        "containerStatuses": states,
    }


def _decide_removal(pod: Mapping[str, Any], run: PodRun, *, pace: PodPace, now: float) -> PodStep:
    if is_terminal(pod) or run.started_at is None or run.stopping_at is None:
        return PodStep(action=PodAction.REMOVE)
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    stop = _seconds(pod, STOP_SECONDS, pace.stop_seconds)
    return _due(
        PodAction.REMOVE, run.stopping_at + min(stop, 30.0 if grace is None else float(grace)), now
    )


def _due(action: PodAction, due: float, now: float) -> PodStep:
    # A timer may fire slightly early; a step that is due within the clock's resolution is taken.
    return PodStep(action=action) if due - now <= 1e-3 else PodStep(wait_seconds=due - now)


def _annotation(pod: Mapping[str, Any], name: str) -> str | None:
    value: str | None = (pod["metadata"].get("annotations") or {}).get(name)
    return value


def _seconds(pod: Mapping[str, Any], name: str, default: float) -> float:
    try:
        seconds = float(_annotation(pod, name) or default)
    except ValueError:
        return default
    return seconds if seconds >= 0 else default


def _run_seconds(pod: Mapping[str, Any], pace: PodPace) -> float:
    text = _annotation(pod, RUN_SECONDS)
    if text == "forever" or (
        text is None and pod["spec"].get("restartPolicy", "Always") == "Always"
    ):
        return math.inf
    return _seconds(pod, RUN_SECONDS, pace.run_seconds)


def _conditions(
    pod: Mapping[str, Any], *, now: datetime, is_ready: bool, reason: str
) -> list[dict[str, Any]]:
    """Return the conditions of the pod with ours set; other writers' conditions stay."""
    wanted: dict[str, tuple[str, str]] = {
        "PodScheduled": ("True", ""),
        "Initialized": ("True", ""),
        "ContainersReady": ("True" if is_ready else "False", reason),
        "Ready": ("True" if is_ready else "False", reason),
    }
    result = []
    for condition in (pod.get("status") or {}).get("conditions") or ():
        status_and_reason = wanted.pop(condition["type"], None)
        if status_and_reason is None or condition["status"] == status_and_reason[0]:
            result.append(condition)
        else:
            result.append(_condition(condition["type"], *status_and_reason, now=now))
    result.extend(_condition(type_, *pair, now=now) for type_, pair in wanted.items())
    return result


def _condition(type_: str, status: str, reason: str, *, now: datetime) -> dict[str, Any]:
    condition = {
        "type": type_,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
    }
    if reason:
        condition["reason"] = reason
    return condition


def _container_status(
    container: Mapping[str, Any], *, restarts: int, is_ready: bool, state: Mapping[str, Any]
) -> dict[str, Any]:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"multiqueue-sim://{image}",
        "containerID": f"multiqueue-sim://{container['name']}/{restarts}",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": restarts,
        "state": state,
    }


def _init_statuses(pod: Mapping[str, Any], now: datetime) -> dict[str, Sequence[Any]]:
    containers = pod["spec"].get("initContainers") or ()
    if not containers:
        return {}
    moment = format_time(now)
    ended = {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": moment,
            "finishedAt": moment,
        }
    }
    running = {"running": {"startedAt": moment}}
    return {
        "initContainerStatuses": [
            _container_status(
                container,
                restarts=0,
                is_ready=True,
                state=running if container.get("restartPolicy") == "Always" else ended,
            )
            for container in containers
        ]
    }


def _terminated(pod: Mapping[str, Any], code: int, now: datetime) -> dict[str, Any]:
    return {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": started_at(pod) or format_time(now),
        "finishedAt": format_time(now),
    }


def started_at(pod: Mapping[str, Any]) -> str | None:
    """Return when the containers last started, as it stands in the status, or None."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        state = status.get("state") or {}
        moment: str | None = (state.get("running") or {}).get("startedAt")
        if moment:
            return moment
    return None


def _pod_ip(pod: Mapping[str, Any]) -> str:
    number = zlib.crc32(str(pod["metadata"].get("uid")).encode())
    return f"10.{128 | number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"
