"""Pods of a job as a table: the columns of ``kubectl get pods``, and the cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from multiqueue.api.names import CLUSTER
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.ages import format_age

HEADERS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE", "CLUSTER", "NODE")
WIDE = ("IP", "CONTAINERS", "IMAGES")
Pod = Mapping[str, Any]


def pod_row(pod: Pod, now: datetime, *, wide: bool = False) -> list[str]:
    """Return the cells of one pod."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    containers: Sequence[Pod] = spec.get("containers") or ()
    statuses: Sequence[Pod] = status.get("containerStatuses") or ()
    ready = sum(bool(each.get("ready")) for each in statuses)
    row = [
        metadata["name"],
        f"{ready}/{len(containers)}",
        describe_pod(pod),
        str(sum(each.get("restartCount", 0) for each in statuses)),
        format_age(parse_time(metadata.get("creationTimestamp")), now),
        (metadata.get("annotations") or {}).get(CLUSTER, ""),
        spec.get("nodeName", ""),
    ]
    if wide:
        row += [
            status.get("podIP", ""),
            ",".join(each["name"] for each in containers),
            ",".join(each.get("image", "") for each in containers),
        ]
    return row


def describe_pod(pod: Pod) -> str:
    """Return a pod's state as kubectl does: its phase, or why a container waits or ended."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    if status.get("reason"):
        return str(status["reason"])
    return (
        _describe_start(pod.get("spec") or {}, status)
        or _describe_containers(status)
        or status.get("phase", "Unknown")
    )


def _describe_start(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if spec.get("schedulingGates") and not spec.get("nodeName"):
        return "SchedulingGated"
    wanted: Sequence[Pod] = spec.get("initContainers") or ()
    for done, each in enumerate(status.get("initContainerStatuses") or ()):
        state = each.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or 'ExitCode:' + str(ended.get('exitCode'))}"
        reason = (state.get("waiting") or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{done}/{len(wanted)}"
    return ""


def _describe_containers(status: Mapping[str, Any]) -> str:
    running, told = False, ""
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            told = waiting["reason"]
        elif ended is not None:
            told = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
        running = running or "running" in state
    return "Running" if running and told in {"", "Completed"} else told
