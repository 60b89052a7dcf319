"""The rows of ``list``, with kueuectl's titles in its order. Pure.

Parity: `cmd/kueuectl/app/list` @v0.19.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.conditions import ACTIVE, WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import has_quota, is_admitted, is_finished
from multiqueue.views.ages import format_age
from multiqueue.views.workloads import view_workload

Json = Mapping[str, Any]

CLUSTER_QUEUE_HEADERS = (
    "NAME",
    "COHORT",
    "PENDING WORKLOADS",
    "ADMITTED WORKLOADS",
    "ACTIVE",
    "AGE",
)
LOCAL_QUEUE_HEADERS = ("NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE")
RESOURCE_FLAVOR_HEADERS = ("NAME", "NODE LABELS", "AGE")
WORKLOAD_HEADERS = (
    "NAME",
    "JOB TYPE",
    "JOB NAME",
    "LOCALQUEUE",
    "CLUSTERQUEUE",
    "STATUS",
    "POSITION IN QUEUE",
    "EXEC TIME",
    "AGE",
)
WIDE_WORKLOAD_HEADERS = ("PHASE", "WORKER")
_LONGEST_TYPE = 20


def cluster_queue_row(queue: Json, now: datetime) -> list[Any]:
    """Return the cells of a ClusterQueue."""
    status = queue.get("status") or {}
    return [
        queue["metadata"]["name"],
        queue["spec"].get("cohortName", ""),
        status.get("pendingWorkloads", 0),
        status.get("admittedWorkloads", 0),
        str(is_active(queue)).lower(),
        _age(queue, now),
    ]


def is_active(queue: Json) -> bool:
    """Whether a ClusterQueue can admit."""
    conditions = (queue.get("status") or {}).get("conditions") or ()
    return any(c["type"] == ACTIVE and c["status"] == "True" for c in conditions)


def local_queue_row(queue: Json, now: datetime) -> list[Any]:
    """Return the cells of a LocalQueue."""
    status = queue.get("status") or {}
    return [
        queue["metadata"]["name"],
        queue["spec"].get("clusterQueue", ""),
        status.get("pendingWorkloads", 0),
        status.get("admittedWorkloads", 0),
        _age(queue, now),
    ]


def resource_flavor_row(flavor: Json, now: datetime) -> list[Any]:
    """Return the cells of a ResourceFlavor."""
    labels = (flavor.get("spec") or {}).get("nodeLabels") or {}
    told = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [flavor["metadata"]["name"], told, _age(flavor, now)]


def workload_row(
    workload: Workload, cluster_queue: str, position: int | None, now: datetime
) -> list[Any]:
    """Return the cells of a Workload; its position counts from 1 here, and from 0 as shown."""
    owners = workload.metadata.owner_references
    types = {_type_of(owner.api_version, owner.kind) for owner in owners}
    return [
        workload.metadata.name,
        ", ".join(sorted(types)),
        ", ".join(sorted({owner.name for owner in owners})),
        workload.spec.queue_name,
        cluster_queue,
        find_status(workload).upper(),
        "" if position is None else position - 1,
        _exec_time(workload, now),
        format_age(parse_time(workload.metadata.creation_timestamp), now),
    ]


def wide_cells(workload: Workload) -> list[Any]:
    """Return the cells that only ``-o wide`` shows."""
    view = view_workload(workload)
    return [view.phase.words, view.worker]


def find_status(workload: Workload) -> str:
    """Return upstream's status of a Workload: finished, admitted, quotareserved or pending."""
    status = workload.status
    if is_finished(status):
        return "finished"
    if is_admitted(status):
        return "admitted"
    return "quotareserved" if has_quota(status) else "pending"


def has_status(workload: Workload, wanted: Collection[str]) -> bool:
    """Whether a Workload has one of the wanted statuses; none wants all."""
    return not wanted or "all" in wanted or find_status(workload) in wanted


def _type_of(api_version: str, kind: str) -> str:
    group = api_version.rpartition("/")[0]
    found = f"{kind.lower()}.{group}" if group else kind.lower()
    return found if len(found) <= _LONGEST_TYPE else f"{found[:_LONGEST_TYPE]}..."


def _exec_time(workload: Workload, now: datetime) -> str:
    conditions = workload.status.conditions
    admitted = find_condition(conditions, WorkloadCondition.ADMITTED)
    if admitted is None or admitted.status != "True":
        return ""
    finished = find_condition(conditions, WorkloadCondition.FINISHED)
    ended = finished is not None and finished.status == "True"
    end = parse_time(finished.last_transition_time) if finished is not None and ended else None
    return format_age(parse_time(admitted.last_transition_time), end or now)


def _age(obj: Json, now: datetime) -> str:
    return format_age(parse_time(obj["metadata"].get("creationTimestamp")), now)
