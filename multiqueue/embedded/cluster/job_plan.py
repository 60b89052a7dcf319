"""Decides what the Job controller does with one Job: pods to create and delete, and status.

Pure. Parity: the Job controller of Kubernetes 1.32: suspend and resume, parallelism, completions,
Indexed mode, backoffLimit, activeDeadlineSeconds, podReplacementPolicy, SuccessCriteriaMet before
Complete and FailureTarget before Failed, both final only when no pod is running. Deviates: there
are no pod finalizers and no uncountedTerminatedPods. Ended pods are remembered in `JobMemory` and,
over a restart, in the status itself. backoffLimitPerIndex, successPolicy and podFailurePolicy are
not simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.embedded.cluster.job_memory import (
    Counts,
    JobMemory,
    Pod,
    completion_index,
    count_pods,
    is_bound,
    is_indexed,
    is_pod_ready,
    replaces_only_failed,
)
from multiqueue.embedded.cluster.job_status import StatusDraft, finished_condition

DEFAULT_BACKOFF_LIMIT = 6
POD_BACKOFF_SECONDS = 10.0
POD_BACKOFF_MAX_SECONDS = 600.0
"""Delay before a failed pod is replaced: 10 s, doubled with each failure, at most 10 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The decision. ``create`` has one entry per pod: its completion index, or None."""

    create: tuple[int | None, ...] = ()
    delete: tuple[str, ...] = ()
    """Names of pods."""
    status: Mapping[str, Any] | None = None
    """The whole status to write; None: nothing changed."""
    requeue_after: float | None = None
    """In simulated seconds."""
    delete_job: bool = False
    events: tuple[tuple[str, str, str], ...] = ()
    """(type, reason, message)"""


def decide_job(
    job: Mapping[str, Any],
    pods: Sequence[Pod],
    memory: JobMemory,
    *,
    now: datetime,
    seconds: float,
    speed: float = 1.0,
) -> JobPlan:
    """Return what to do with a Job.

    Args:
        job: The Job.
        pods: Its pods that exist.
        memory: The memory of the Job, after `observe_pods`.
        now: Wall time, for timestamps.
        seconds: Simulated seconds of the controller's clock.
        speed: Simulated seconds in a second of wall time, for deadlines counted from timestamps.
    """
    spec = job["spec"]
    if spec.get("managedBy", names.KUBERNETES_JOB_CONTROLLER) != names.KUBERNETES_JOB_CONTROLLER:
        return JobPlan()
    counts = count_pods(job, pods, memory)
    if finished_condition(job) is not None:
        return _decide_finished(job, counts, now=now, speed=speed)
    if job["metadata"].get("deletionTimestamp"):
        return JobPlan()
    draft = StatusDraft(job, now=now)
    criteria = _criteria(job, counts, now=now, speed=speed)
    if criteria is not None:
        if not spec.get("suspend"):
            draft.resume()  # a Job that needs no pods ends when it starts
        return _decide_ending(draft, counts, criteria)
    if spec.get("suspend"):
        draft.set_condition(
            "Suspended", status=True, reason="JobSuspended", message="Job suspended"
        )
        delete = tuple(_name(pod) for pod in counts.active)
        memory.stopped.update(pod["metadata"]["uid"] for pod in counts.active)
        stopping = sum(1 for pod in counts.active if is_bound(pod))
        draft.set_counts(counts, active=0, ready=0, terminating=counts.terminating + stopping)
        return JobPlan(delete=delete, status=draft.changed(), events=tuple(draft.events))
    draft.resume()
    return _decide_running(draft, counts, memory, seconds=seconds, speed=speed)


def _decide_running(
    draft: StatusDraft, counts: Counts, memory: JobMemory, *, seconds: float, speed: float
) -> JobPlan:
    spec = draft.job["spec"]
    wait = _deadline_wait(draft, speed=speed)
    wanted = _wanted_active(spec, counts)
    missing = wanted - len(counts.active)
    if replaces_only_failed(draft.job):
        missing -= counts.terminating
    create: tuple[int | None, ...] = ()
    surplus: list[Pod] = []
    if missing > 0:
        delay = _backoff_wait(counts, memory, seconds)
        if delay > 0:
            wait = min(delay, wait) if wait is not None else delay
        else:
            create = _new_indexes(spec, counts, missing)
    elif len(counts.active) > wanted:
        surplus = sorted(counts.active, key=_stop_order)[: len(counts.active) - wanted]
        memory.stopped.update(pod["metadata"]["uid"] for pod in surplus)
    draft.set_counts(
        counts,
        active=len(counts.active) + len(create) - len(surplus),
        ready=counts.ready - sum(1 for pod in surplus if is_pod_ready(pod)),
        terminating=counts.terminating + sum(1 for pod in surplus if is_bound(pod)),
    )
    return JobPlan(
        create=create,
        delete=tuple(_name(pod) for pod in surplus),
        status=draft.changed(),
        requeue_after=wait,
        events=tuple(draft.events),
    )


def _decide_ending(draft: StatusDraft, counts: Counts, criteria: _Ending) -> JobPlan:
    """Decide for a Job with a known outcome, which becomes final when no pod is left."""
    interim = "SuccessCriteriaMet" if criteria.succeeded else "FailureTarget"
    draft.set_condition(interim, status=True, reason=criteria.reason, message=criteria.message)
    delete = tuple(_name(pod) for pod in counts.active)
    terminating = counts.terminating + sum(1 for pod in counts.active if is_bound(pod))
    if not counts.active and not counts.terminating:
        final = "Complete" if criteria.succeeded else "Failed"
        draft.set_condition(final, status=True, reason=criteria.reason, message=criteria.message)
        if criteria.succeeded:
            draft.status["completionTime"] = format_time(draft.now)
            draft.events.append(("Normal", "Completed", "Job completed"))
        else:
            draft.events.append(("Warning", criteria.reason, criteria.message))
    draft.set_counts(counts, active=0, ready=0, terminating=terminating)
    return JobPlan(delete=delete, status=draft.changed(), events=tuple(draft.events))


def _decide_finished(
    job: Mapping[str, Any], counts: Counts, *, now: datetime, speed: float
) -> JobPlan:
    draft = StatusDraft(job, now=now)
    delete = tuple(_name(pod) for pod in counts.active)
    draft.set_counts(counts, active=0, ready=0, terminating=counts.terminating + len(delete))
    draft.keep_results()
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or job["metadata"].get("deletionTimestamp"):
        return JobPlan(delete=delete, status=draft.changed())
    condition = finished_condition(job) or {}
    ended = parse_time(condition.get("lastTransitionTime")) or now
    left = float(ttl) - (now - ended).total_seconds() * speed
    if left > 0:
        return JobPlan(delete=delete, status=draft.changed(), requeue_after=left)
    return JobPlan(delete=delete, delete_job=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    succeeded: bool
    reason: str
    message: str


def _criteria(
    job: Mapping[str, Any], counts: Counts, *, now: datetime, speed: float
) -> _Ending | None:
    """Return how the Job must end, or None; a recorded criterion is kept."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if (
            condition["type"] in ("SuccessCriteriaMet", "FailureTarget")
            and condition["status"] == "True"
        ):
            return _Ending(
                succeeded=condition["type"] == "SuccessCriteriaMet",
                reason=condition.get("reason", ""),
                message=condition.get("message", ""),
            )
    spec = job["spec"]
    if _has_exceeded_backoff(spec, counts):
        return _Ending(
            succeeded=False,
            reason="BackoffLimitExceeded",
            message="Job has reached the specified backoff limit",
        )
    if _is_past_deadline(job, now=now, speed=speed):
        return _Ending(
            succeeded=False,
            reason="DeadlineExceeded",
            message="Job was active longer than specified deadline",
        )
    never_started = spec.get("suspend") and not (job.get("status") or {}).get("startTime")
    if _has_completed(spec, counts) and not never_started:
        return _Ending(
            succeeded=True,
            reason="CompletionsReached",
            message="Reached expected number of succeeded pods",
        )
    return None


def _is_past_deadline(job: Mapping[str, Any], *, now: datetime, speed: float) -> bool:
    spec = job["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    started = parse_time((job.get("status") or {}).get("startTime"))
    if deadline is None or started is None or spec.get("suspend"):
        return False
    return bool((now - started).total_seconds() * speed >= float(deadline))


def _has_completed(spec: Mapping[str, Any], counts: Counts) -> bool:
    completions = spec.get("completions")
    if completions is None:
        return counts.succeeded > 0 and not counts.active
    if is_indexed(spec):
        return len(counts.completed_indexes) >= int(completions)
    return counts.succeeded >= int(completions)


def _has_exceeded_backoff(spec: Mapping[str, Any], counts: Counts) -> bool:
    limit = spec.get("backoffLimit")
    limit = DEFAULT_BACKOFF_LIMIT if limit is None else int(limit)
    if counts.failed > limit:
        return True
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts: int = sum(
        status.get("restartCount", 0)
        for pod in counts.active
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _wanted_active(spec: Mapping[str, Any], counts: Counts) -> int:
    parallelism = int(spec["parallelism"] if spec.get("parallelism") is not None else 1)
    completions = spec.get("completions")
    if completions is None:
        return len(counts.active) if counts.succeeded else parallelism
    done = len(counts.completed_indexes) if is_indexed(spec) else counts.succeeded
    return max(0, min(parallelism, int(completions) - done))


def _new_indexes(spec: Mapping[str, Any], counts: Counts, missing: int) -> tuple[int | None, ...]:
    if not is_indexed(spec):
        return (None,) * missing
    taken = counts.completed_indexes | {
        index for pod in counts.active if (index := completion_index(pod)) is not None
    }
    free = (index for index in range(int(spec.get("completions") or 0)) if index not in taken)
    return tuple(index for index, _ in zip(free, range(missing), strict=False))


def _backoff_wait(counts: Counts, memory: JobMemory, seconds: float) -> float:
    if memory.failed_at is None or not counts.failed:
        return 0.0
    delay = min(POD_BACKOFF_MAX_SECONDS, POD_BACKOFF_SECONDS * 2.0 ** min(counts.failed - 1, 10))
    left = memory.failed_at + delay - seconds
    return left if left > 1e-3 else 0.0


def _deadline_wait(draft: StatusDraft, *, speed: float) -> float | None:
    deadline = draft.job["spec"].get("activeDeadlineSeconds")
    started = parse_time(draft.status.get("startTime"))
    if deadline is None or started is None:
        return None
    # The start is written in whole seconds, so the timer is set a little late.
    return max(0.0, float(deadline) - (draft.now - started).total_seconds() * speed) + 0.001


def _name(pod: Pod) -> str:
    name: str = pod["metadata"]["name"]
    return name


def _stop_order(pod: Pod) -> tuple[bool, bool, str, str]:
    """Pods to stop first: unbound, then not ready, then the newest."""
    created = pod["metadata"].get("creationTimestamp") or ""
    return (is_bound(pod), is_pod_ready(pod), _reversed(created), _reversed(_name(pod)))


def _reversed(text: str) -> str:
    return "".join(chr(0x10FFFF - ord(character)) for character in text)
