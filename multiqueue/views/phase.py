"""The state of a Workload here and on its worker, in the words that users read. Pure.

This is the only place that turns conditions, checks and the job's status into a `Phase`. The
commands and the demo, like everything else that shows a Workload, use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from multiqueue.api import workload_state
from multiqueue.api.conditions import (
    PREEMPTION_NOTICE,
    CheckState,
    Reason,
    WorkloadCondition,
    find_condition,
)
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time

_NAMED_CLUSTER = re.compile(r'\bcluster "([^"]+)"', re.IGNORECASE)
"""How the rules name the cluster that a Workload leaves; an eviction's message keeps it."""

PLAIN_WORDS: Mapping[str, str] = {
    "Bypassed scheduling evaluation because an equivalent workload recently failed: ": "",
    "Workload no longer fits after processing another workload": (
        "another Workload took the room in the same cycle"
    ),
    "Workload has overlapping preemption targets with another workload": (
        "another Workload preempts the same Workloads first"
    ),
}
"""What upstream's words in conditions, which tools read, mean to people."""


_REJECTED = f"{workload_state.DEACTIVATED_DUE_TO}{Reason.ADMISSION_CHECK}"
"""The reason of an eviction because of a Rejected check."""


class PhaseState(StrEnum):
    """The stages of a Workload."""

    QUEUED = "Queued"
    CHECKING = "Checking"
    DISPATCHED = "Dispatched"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    MOVING = "Moving"
    EVICTED = "Evicted"
    DEACTIVATED = "Deactivated"
    REJECTED = "Rejected"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REPLACED = "Replaced"


ENDED = frozenset({PhaseState.SUCCEEDED, PhaseState.FAILED, PhaseState.REPLACED})
AT_WORK = frozenset({PhaseState.ADMITTED, PhaseState.STARTING, PhaseState.RUNNING})

_WORDS = {
    PhaseState.QUEUED: "waiting for quota",
    PhaseState.CHECKING: "waiting for checks",
    PhaseState.MOVING: "moving",
    PhaseState.EVICTED: "evicted, its pods are being stopped",
    PhaseState.DEACTIVATED: "suspended",
    PhaseState.REJECTED: "rejected",
    PhaseState.SUCCEEDED: "finished",
    PhaseState.REPLACED: "replaced by a larger slice",
}


_ENDS: Mapping[str, PhaseState] = {
    Reason.SUCCEEDED: PhaseState.SUCCEEDED,
    Reason.WORKLOAD_SLICE_REPLACED: PhaseState.REPLACED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The stage of a Workload, with details.

    Attributes:
        state: The stage, for programs.
        why: What prevents the next stage, or the notice that it will be stopped; empty if there
            is nothing to say.
        worker: The cluster that runs it, or ran it to its end; empty on this cluster.
        offered_to: The clusters that may take it.
        left: The cluster that it left without having another one yet; empty for none.
        since: When it reached this stage, if known.
    """

    state: PhaseState
    why: str = ""
    worker: str = ""
    offered_to: tuple[str, ...] = ()
    left: str = ""
    since: datetime | None = None

    @property
    def words(self) -> str:
        """The phase in a few words: ``dispatched to a, b``, ``running on a``."""
        if self.state is PhaseState.DISPATCHED:
            told = f"dispatched to {', '.join(self.offered_to) or self.worker}"
        else:
            told = _WORDS.get(self.state, self.state.lower())
            told += f" on {self.worker}" if self.worker and self.state in AT_WORK | ENDED else ""
        if not self.left:
            return told
        link = " " if self.state is PhaseState.MOVING else ", moving "
        return f"{told}{link}from {self.left}"


def find_phase(workload: Workload, job: Mapping[str, Any] | None = None) -> Phase:
    """Return the phase of a Workload.

    Args:
        workload: The Workload on the manager, or on the only cluster.
        job: The Workload's job there, with the status that came back from the worker. Without the
            job and without the condition PodsReady, nothing is known about pods.
    """
    status = workload.status
    finished = workload_state.find(status, WorkloadCondition.FINISHED)
    if finished is not None and finished.status == "True":
        state = _ENDS.get(finished.reason, PhaseState.FAILED)
        since = parse_time(finished.last_transition_time)
        worker = status.cluster_name or ""
        return Phase(state=state, why=finished.message, worker=worker, since=since)
    rejected = [c for c in status.admission_checks if c.state == CheckState.REJECTED]
    if rejected:
        why = "; ".join(f"{check.name}: {check.message}" for check in rejected)
        return Phase(state=PhaseState.REJECTED, why=why)
    evicted = workload_state.find(status, WorkloadCondition.EVICTED)
    if not workload_state.is_active(workload.spec):
        was_rejected = evicted is not None and evicted.reason == _REJECTED
        why = evicted.message if evicted is not None else "spec.active is false"
        return Phase(state=PhaseState.REJECTED if was_rejected else PhaseState.DEACTIVATED, why=why)
    if evicted is not None and evicted.status == "True" and workload_state.has_quota(status):
        left = _find_left(workload)
        state = PhaseState.MOVING if left else PhaseState.EVICTED
        since = parse_time(evicted.last_transition_time)
        return Phase(state=state, why=evicted.message, left=left, since=since)
    if workload_state.is_admitted(status):
        phase = _judge_admitted(workload, job)
        notice = find_condition(status.conditions, PREEMPTION_NOTICE)
        if notice is None or notice.status != "True":
            return phase
        return replace(phase, why=notice.message)
    if workload_state.has_quota(status):
        return _judge_checks(workload)
    return _judge_waiting(workload)


def _judge_waiting(workload: Workload) -> Phase:
    reserved = workload_state.find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    left = _find_left(workload)
    if reserved is None:
        since = parse_time(workload.metadata.creation_timestamp)
        return Phase(state=PhaseState.QUEUED, why="not looked at yet", left=left, since=since)
    message = reserved.message
    for words, plain in PLAIN_WORDS.items():
        message = message.replace(words, plain)
    why = f"{reserved.reason}: {message}" if message else reserved.reason
    since = parse_time(reserved.last_transition_time)
    return Phase(state=PhaseState.QUEUED, why=why, left=left, since=since)


def _judge_checks(workload: Workload) -> Phase:
    status = workload.status
    reserved = workload_state.find(status, WorkloadCondition.QUOTA_RESERVED)
    waiting = [check for check in status.admission_checks if check.state != CheckState.READY]
    why = "; ".join(f"{check.name}: {check.message or check.state.lower()}" for check in waiting)
    is_dispatched = bool(status.nominated_cluster_names or status.cluster_name)
    return Phase(
        state=PhaseState.DISPATCHED if is_dispatched else PhaseState.CHECKING,
        why=why,
        worker=status.cluster_name or "",
        offered_to=status.nominated_cluster_names,
        left=_find_left(workload),
        since=parse_time(reserved.last_transition_time) if reserved else None,
    )


def _judge_admitted(workload: Workload, job: Mapping[str, Any] | None) -> Phase:
    status = workload.status
    ready = workload_state.find(status, WorkloadCondition.PODS_READY)
    admitted = workload_state.find(status, WorkloadCondition.ADMITTED)
    assert admitted is not None, "the caller has looked"
    worker, since = status.cluster_name or "", parse_time(admitted.last_transition_time)
    if ready is not None and ready.status == "True":
        at = parse_time(ready.last_transition_time)
        return Phase(state=PhaseState.RUNNING, worker=worker, since=at)
    if job is not None and (is_up := _is_up(job)) is not None:
        if is_up:
            return Phase(state=PhaseState.RUNNING, worker=worker, since=since)
        why = _describe_pods(job)
        return Phase(state=PhaseState.STARTING, why=why, worker=worker, since=since)
    if ready is None:
        return Phase(state=PhaseState.ADMITTED, worker=worker, since=since)
    return Phase(state=PhaseState.STARTING, why=ready.message, worker=worker, since=since)


def _is_up(job: Mapping[str, Any]) -> bool | None:
    """Whether all pods are ready or ended; None if the kind does not say."""
    pods = _count_pods(job)
    if pods is not None:
        return pods[0] >= pods[1]
    # Only here, because `multiqueue why` starts faster without the kinds.
    from multiqueue.jobs.reading import is_ready

    return is_ready(job)


def _describe_pods(job: Mapping[str, Any]) -> str:
    pods = _count_pods(job)
    return "not all pods are ready" if pods is None else f"{pods[0]} of {pods[1]} pods are ready"


def _count_pods(job: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many pods of a Job are ready or ended, and how many run at once."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    if job.get("kind", "Job") != "Job":
        return None
    wanted = spec.get("parallelism", 1)
    if spec.get("completions") is not None:
        wanted = min(wanted, spec["completions"])
    up = status.get("ready", 0) + status.get("succeeded", 0)
    return min(up, wanted), wanted


def _find_left(workload: Workload) -> str:
    """Return the worker that the last eviction names; empty if it had another cause."""
    evicted = workload_state.find(workload.status, WorkloadCondition.EVICTED)
    named = _NAMED_CLUSTER.search(evicted.message) if evicted is not None else None
    return named.group(1) if named else ""
