"""Where a Workload stands, in the words that every command uses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from multiqueue.api import workload_state
from multiqueue.api.conditions import CheckState, WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.model.build import build_workload, effective_priority


class State(StrEnum):
    """The stages of a Workload's way."""

    QUEUED = "Queued"
    DISPATCHING = "Dispatching"
    CHECKING = "Checking"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    EVICTED = "Evicted"
    DEACTIVATED = "Deactivated"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ENDED = frozenset({State.SUCCEEDED, State.FAILED})
AT_WORK = frozenset({State.ADMITTED, State.STARTING, State.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """One Workload in a row of a table.

    Attributes:
        job: ``Job/train``, or the Workload's own name where nothing owns it.
        why: Why it is not further; empty where there is nothing to say.
        worker: The cluster that runs it; empty on this cluster.
        since: When it came to this state.
    """

    key: str
    job: str
    queue: str
    cluster_queue: str
    priority: int
    requests: Mapping[str, int]
    state: State
    why: str
    worker: str
    nominated: tuple[str, ...]
    created: datetime | None
    since: datetime | None

    @property
    def namespace(self) -> str:
        """The first half of the key."""
        return self.key.partition("/")[0]

    @property
    def gpus(self) -> int:
        """Accelerators of all pods: requests such as ``nvidia.com/gpu``."""
        return sum(amount for name, amount in self.requests.items() if is_accelerator(name))

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
        return {
            "workload": self.key,
            "job": self.job,
            "queue": self.queue,
            "clusterQueue": self.cluster_queue or None,
            "priority": self.priority,
            "gpus": self.gpus,
            "state": str(self.state),
            "why": self.why or None,
            "worker": self.worker or None,
            "nominatedWorkers": list(self.nominated),
            "created": _format(self.created),
            "since": _format(self.since),
        }


def is_accelerator(resource: str) -> bool:
    """Whether a resource is an accelerator, by the habit of device plugins."""
    return "/" in resource and resource.rpartition("/")[2].startswith(("gpu", "tpu", "neuron"))


def view_workload(workload: Workload) -> WorkloadView:
    """Read the state of a Workload from its conditions."""
    status = workload.status
    state, why, since = _judge(workload)
    owner = next(
        (owner for owner in workload.metadata.owner_references if owner.controller), None
    ) or next(iter(workload.metadata.owner_references), None)
    return WorkloadView(
        key=workload.metadata.key,
        job=f"{owner.kind}/{owner.name}" if owner else workload.metadata.name,
        queue=workload.spec.queue_name,
        cluster_queue=status.admission.cluster_queue if status.admission else "",
        priority=effective_priority(workload),
        requests=_requests(workload),
        state=state,
        why=why,
        worker=status.cluster_name or "",
        nominated=status.nominated_cluster_names,
        created=parse_time(workload.metadata.creation_timestamp),
        since=since,
    )


def _judge(workload: Workload) -> tuple[State, str, datetime | None]:
    status = workload.status
    finished = workload_state.find(status, WorkloadCondition.FINISHED)
    if finished is not None and finished.status == "True":
        state = State.SUCCEEDED if finished.reason == "Succeeded" else State.FAILED
        return state, finished.message, parse_time(finished.last_transition_time)
    if not workload_state.is_active(workload.spec):
        evicted = workload_state.find(status, WorkloadCondition.EVICTED)
        why = evicted.message if evicted is not None else "spec.active is false"
        return State.DEACTIVATED, why, None
    evicted = workload_state.find(status, WorkloadCondition.EVICTED)
    if evicted is not None and evicted.status == "True" and workload_state.has_quota(status):
        return State.EVICTED, evicted.message, parse_time(evicted.last_transition_time)
    if workload_state.is_admitted(status):
        return _judge_admitted(workload)
    if workload_state.has_quota(status):
        return _judge_checks(workload)
    reserved = workload_state.find(status, WorkloadCondition.QUOTA_RESERVED)
    if reserved is None:
        return State.QUEUED, "not looked at yet", parse_time(workload.metadata.creation_timestamp)
    why = f"{reserved.reason}: {reserved.message}" if reserved.message else reserved.reason
    return State.QUEUED, why, parse_time(reserved.last_transition_time)


def _judge_admitted(workload: Workload) -> tuple[State, str, datetime | None]:
    ready = workload_state.find(workload.status, WorkloadCondition.PODS_READY)
    admitted = workload_state.find(workload.status, WorkloadCondition.ADMITTED)
    assert admitted is not None, "the caller has looked"
    since = parse_time(admitted.last_transition_time)
    if ready is None:
        return State.ADMITTED, "", since
    if ready.status == "True":
        return State.RUNNING, "", parse_time(ready.last_transition_time)
    return State.STARTING, ready.message, since


def _judge_checks(workload: Workload) -> tuple[State, str, datetime | None]:
    status = workload.status
    reserved = workload_state.find(status, WorkloadCondition.QUOTA_RESERVED)
    since = parse_time(reserved.last_transition_time) if reserved else None
    waiting = [check for check in status.admission_checks if check.state != CheckState.READY]
    why = "; ".join(f"{check.name}: {check.message or check.state.lower()}" for check in waiting)
    is_dispatching = bool(status.nominated_cluster_names or status.cluster_name)
    return State.DISPATCHING if is_dispatching else State.CHECKING, why, since


def _requests(workload: Workload) -> dict[str, int]:
    totals: dict[str, int] = {}
    for pod_set in build_workload(workload).pod_sets:
        for resource in pod_set.requests:
            totals[resource] = totals.get(resource, 0) + pod_set.total(resource)
    return totals


def _format(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
