"""A Workload in the form that every command shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.model.build_workload import build_workload, effective_priority
from multiqueue.model.resources import is_accelerator
from multiqueue.model.workload import PodSet
from multiqueue.views.phase import Phase, PhaseState, find_phase


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    """One Workload in a row of a table.

    Attributes:
        job: ``Job/train``, or the Workload's own name if it has no owner.
        phase: The Workload's phase.
    """

    key: str
    job: str
    queue: str
    cluster_queue: str
    priority: int
    requests: Mapping[str, int]
    phase: Phase
    created: datetime | None

    @property
    def state(self) -> PhaseState:
        """The phase, for programs."""
        return self.phase.state

    @property
    def why(self) -> str:
        """As in its phase."""
        return self.phase.why

    @property
    def worker(self) -> str:
        """The cluster that runs it; empty on this cluster."""
        return self.phase.worker

    @property
    def namespace(self) -> str:
        """The namespace, from the key."""
        return self.key.partition("/")[0]

    @property
    def gpus(self) -> int:
        """The accelerators of all pods, from requests such as ``nvidia.com/gpu``."""
        return sum(amount for name, amount in self.requests.items() if is_accelerator(name))

    def to_dict(self) -> dict[str, Any]:
        """Return the row for ``-o json``."""
        return {
            "workload": self.key,
            "job": self.job,
            "queue": self.queue,
            "clusterQueue": self.cluster_queue or None,
            "priority": self.priority,
            "gpus": self.gpus,
            "state": str(self.state),
            "phase": self.phase.words,
            "why": self.why or None,
            "worker": self.worker or None,
            "nominatedWorkers": list(self.phase.offered_to),
            "leftWorker": self.phase.left or None,
            "created": _format(self.created),
            "since": _format(self.phase.since),
        }


def view_workload(workload: Workload, job: Mapping[str, Any] | None = None) -> WorkloadRow:
    """Read a Workload's phase from its conditions, and from its job if that is known."""
    status = workload.status
    return WorkloadRow(
        key=workload.metadata.key,
        job=name_job(workload),
        queue=workload.spec.queue_name,
        cluster_queue=status.admission.cluster_queue if status.admission else "",
        priority=effective_priority(workload),
        requests=_requests(workload),
        phase=find_phase(workload, job),
        created=parse_time(workload.metadata.creation_timestamp),
    )


def name_job(workload: Workload) -> str:
    """Return the kind and name of the job, or the name of a Workload without one."""
    owners = workload.metadata.owner_references
    owner = next((owner for owner in owners if owner.controller), None) or next(iter(owners), None)
    return f"{owner.kind}/{owner.name}" if owner else workload.metadata.name


def _requests(workload: Workload) -> dict[str, int]:
    """Return the requests of all pods; of a gang with alternatives, those that hold quota."""
    built = build_workload(workload)
    counts = {pod_set.name: pod_set.count for pod_set in built.pod_sets}
    if built.has_alternatives and built.reservation is not None:
        counts |= {each.name: each.count for each in built.reservation.admission.pod_sets}
    return _total(built.pod_sets, counts)


def _total(pod_sets: Iterable[PodSet], counts: Mapping[str, int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for pod_set in pod_sets:
        for resource, request in pod_set.requests.items():
            totals[resource] = totals.get(resource, 0) + request * counts[pod_set.name]
    return totals


def _format(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
