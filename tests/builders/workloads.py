"""Workloads for unit tests: the smallest valid one, and transforms that bring it into a state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.v1beta2 import (
    Admission,
    AdmissionCheckState,
    ObjectMeta,
    OwnerReference,
    PodSet,
    PodSetAssignment,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import evict, reserve_quota, sync_admitted

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "team-a"


def minutes(number: float) -> datetime:
    """That long after T0."""
    return T0 + timedelta(minutes=number)


def make_template(*, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never", **spec}}


def make_workload(
    name: str = "wl",
    *,
    queue: str = "lq",
    owner_uid: str = "",
    count: int = 1,
    template: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (names.RESOURCE_IN_USE,),
    deleted: bool = False,
    **spec: Any,
) -> Workload:
    owners = (
        (
            OwnerReference(
                api_version="batch/v1", kind="Job", name="job", uid=owner_uid, controller=True
            ),
        )
        if owner_uid
        else ()
    )
    pod_sets = (PodSet(count=count, template=template or make_template()),)
    return Workload(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            resource_version="1",
            generation=1,
            creation_timestamp=format_time(T0),
            deletion_timestamp=format_time(T0) if deleted else "",
            labels=labels or {},
            annotations=annotations or {},
            finalizers=finalizers,
            owner_references=owners,
        ),
        spec=WorkloadSpec(**{"pod_sets": pod_sets, "queue_name": queue, **spec}),
    )


def with_status(workload: Workload, status: WorkloadStatus) -> Workload:
    return msgspec.structs.replace(workload, status=status)


def reserved(workload: Workload, *, on: str = "cq", at: datetime = T0) -> Workload:
    assignments = tuple(
        PodSetAssignment(
            name=pod_set.name,
            flavors={"cpu": "default"},
            resource_usage={"cpu": str(pod_set.count)},
            count=pod_set.count,
        )
        for pod_set in workload.spec.pod_sets
    )
    admission = Admission(cluster_queue=on, pod_set_assignments=assignments)
    return with_status(workload, reserve_quota(workload.status, admission, now=at, generation=1))


def admitted(workload: Workload, *, on: str = "cq", at: datetime = T0) -> Workload:
    workload = reserved(workload, on=on, at=at)
    return with_status(workload, sync_admitted(workload.status, now=at, generation=1))


def evicted(
    workload: Workload, reason: str = Reason.PREEMPTED, *, at: datetime = T0, cause: str = ""
) -> Workload:
    return with_status(
        workload, evict(workload.status, reason, "go away", now=at, cause=cause, generation=1)
    )


def with_checks(workload: Workload, **states: CheckState) -> Workload:
    checks = tuple(
        AdmissionCheckState(name=name, state=str(state), last_transition_time=format_time(T0))
        for name, state in sorted(states.items())
    )
    return with_status(workload, msgspec.structs.replace(workload.status, admission_checks=checks))
