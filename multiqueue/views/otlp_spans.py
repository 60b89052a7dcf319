"""The life of a Workload as spans of OpenTelemetry, in the JSON form of OTLP. Pure.

The trace is the Workload: its id is the uid. The ids of spans are hashes of the uid, the phase and
the time at which it began. So whoever makes a span again, after a restart or in another process,
makes the same one. Times are those of conditions. Parity: S-129 to S-131.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from multiqueue import __version__
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import find, has_quota, is_evicted
from multiqueue.views.phase import ENDED, PhaseState
from multiqueue.views.spans import build_spans
from multiqueue.views.usage import Hold, UsageOutcome
from multiqueue.views.workloads import name_job, view_workload

MAX_VALUE = 128
"""Characters of the value of an attribute."""
SCOPE = "multiqueue"
ROOT = "Workload"
"""The name of the span of a whole Workload."""
INTERNAL, ERROR = 1, 2
"""The kind of all spans, and the status of those that failed."""
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")

Json = dict[str, Any]


def find_trace_id(uid: str) -> str:
    """Return the trace of a Workload: its uid without dashes, or a hash of what is no UUID."""
    digits = uid.replace("-", "").lower()
    return digits if re.fullmatch("[0-9a-f]{32}", digits) else sha256(uid.encode()).hexdigest()[:32]


def is_sampled(uid: str, share: float) -> bool:
    """Whether a Workload is in this share of all; every process says the same."""
    return int(sha256(uid.encode()).hexdigest()[:8], 16) < share * 2**32


def build_wait_span(old: Workload, new: Workload) -> Iterator[Json]:
    """Yield the span of a wait that ended with quota between two states, unless it is the first.

    The first one is made with those of the hold, because only then is known how the hold ends.
    """
    if has_quota(old.status) or not has_quota(new.status) or not has_run(old):
        return
    waited, reserved = (find(each.status, WorkloadCondition.QUOTA_RESERVED) for each in (old, new))
    if waited is not None and reserved is not None:
        begin, end = waited.transitioned_at, reserved.transitioned_at
        yield _build(new, str(PhaseState.QUEUED), begin, end)


def build_hold_spans(workload: Workload, hold: Hold) -> Iterator[Json]:
    """Yield a span for each phase of a hold that ended, and for the wait before the first hold.

    Args:
        workload: The Workload while it held quota, or when it has finished.
        hold: The hold.
    """
    ended = hold.ended or hold.begun
    steps = [each.transition for each in build_spans(workload, ())]
    phases = [(step.phase, step.at) for step in steps if step.phase not in ENDED]
    evicted = find(workload.status, WorkloadCondition.EVICTED)
    if evicted is not None and is_evicted(workload.status):
        phases.append((str(PhaseState.EVICTED), evicted.transitioned_at))
    ends = [*(at for _, at in phases[1:]), ended]
    outcome = {"multiqueue.outcome": hold.outcome, "multiqueue.cause": hold.cause}
    for place, ((phase, begin), end) in enumerate(zip(phases, ends, strict=True), start=1):
        if phase == PhaseState.QUEUED and has_run(workload):
            continue  # `build_wait_span` has made it
        is_last = place == len(phases)
        failed = is_last and hold.outcome is UsageOutcome.FAILED
        told = {"multiqueue.worker": hold.worker, **(outcome if is_last else {})}
        yield _build(workload, phase, begin, end, told, failed=failed)


def build_root_span(workload: Workload, ended: datetime, trace_parent: str = "") -> Json:
    """Return the span of a whole Workload, in which all others are.

    Args:
        workload: The Workload in its last state.
        ended: When it finished or was deleted.
        trace_parent: The value of the header traceparent of whoever submitted the job (W3C Trace
            Context), to which the span is linked. It is ignored if it is malformed.
    """
    row = view_workload(workload)
    told = {"multiqueue.priority": row.priority, "multiqueue.gpus": row.gpus}
    failed = row.phase.state is PhaseState.FAILED
    span = _build(workload, ROOT, workload.metadata.created_at, ended, told, failed=failed)
    found = _TRACE_PARENT.fullmatch(trace_parent)
    links = [{"traceId": found[1], "spanId": found[2]}] if found else []
    return {**span, "parentSpanId": "", "links": links}


def build_request(spans: Iterable[Mapping[str, Any]]) -> Json:
    """Return the body of a request with spans."""
    scope = {"scope": {"name": SCOPE, "version": __version__}, "spans": list(spans)}
    resource = {"service.name": SCOPE, "service.version": __version__}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _list_attributes(resource)}, "scopeSpans": [scope]}
        ]
    }


def has_run(workload: Workload) -> bool:
    """Whether a Workload held quota before its present wait or hold."""
    status = workload.status
    evictions = status.scheduling_stats.evictions if status.scheduling_stats else ()
    is_stopping = has_quota(status) and is_evicted(status)
    counted = sum(each.count for each in evictions) - is_stopping
    return counted > 0 or status.accumulated_past_execution_time_seconds is not None


def _build(
    workload: Workload,
    name: str,
    begin: datetime,
    end: datetime,
    told: Mapping[str, Any] | None = None,
    *,
    failed: bool = False,
) -> Json:
    metadata, admission = workload.metadata, workload.status.admission
    attributes = {
        "k8s.namespace.name": metadata.namespace,
        "multiqueue.workload": metadata.name,
        "multiqueue.job": name_job(workload),
        "multiqueue.local_queue": workload.spec.queue_name,
        "multiqueue.cluster_queue": admission.cluster_queue if admission else "",
        **(told or {}),
    }
    return {
        "traceId": find_trace_id(metadata.uid),
        "spanId": _hash(metadata.uid, name, begin),
        "parentSpanId": _hash(metadata.uid, ROOT, metadata.created_at),
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": _nanoseconds(begin),
        "endTimeUnixNano": _nanoseconds(max(begin, end)),
        "attributes": _list_attributes(attributes),
        "status": {"code": ERROR} if failed else {},
    }


def _hash(uid: str, name: str, begin: datetime) -> str:
    return sha256(f"{uid}/{name}/{format_time(begin)}".encode()).hexdigest()[:16]


def _nanoseconds(moment: datetime) -> str:
    return f"{round(moment.timestamp())}000000000"


def _list_attributes(values: Mapping[str, Any]) -> list[Json]:
    """Return attributes in the form of OTLP, in which a 64-bit integer is text."""
    return [
        {"key": key, "value": {"intValue": str(value)}}
        if isinstance(value, int)
        else {"key": key, "value": {"stringValue": value[:MAX_VALUE]}}
        for key, value in values.items()
        if value not in ("", None)
    ]
