"""Where one Workload stands, as a row: phase, worker, position, start and reason. Pure.

The fleet API, its feed and kubectl's table show this row. What waits behind it is in `phase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api import workload_state
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload, format_time
from multiqueue.views.phase import AT_WORK, ENDED, PhaseState
from multiqueue.views.workloads import WorkloadRow, view_workload

Json = dict[str, Any]

MAX_WHY = 512
"""Characters of a reason in a row; a story has it in full."""
_CONDITION_OF = {
    PhaseState.QUEUED: WorkloadCondition.QUOTA_RESERVED,
    PhaseState.STARTING: WorkloadCondition.PODS_READY,
    PhaseState.MOVING: WorkloadCondition.EVICTED,
    PhaseState.EVICTED: WorkloadCondition.EVICTED,
    PhaseState.DEACTIVATED: WorkloadCondition.EVICTED,
    PhaseState.REJECTED: WorkloadCondition.EVICTED,
    PhaseState.SUCCEEDED: WorkloadCondition.FINISHED,
    PhaseState.FAILED: WorkloadCondition.FINISHED,
    PhaseState.REPLACED: WorkloadCondition.FINISHED,
}
"""The condition whose reason is the code of a phase."""
WAITS_ELSEWHERE = frozenset({PhaseState.CHECKING, PhaseState.DISPATCHED})
CHECKS_PENDING = "ChecksPending"
NO_ESTIMATE = "there is no estimate for this phase yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a Workload stands; everything that does not depend on other Workloads.

    Attributes:
        uid: Uid of the Workload.
        view: The row that every command shows.
        code: The reason for programs; empty if there is none.
        why: The reason in full, as the Workload's condition has it.
        cluster_queue: The ClusterQueue of its LocalQueue, or the one whose quota it holds.
        flavors: The flavors that hold its quota.
        team: The owner of its namespace.
        labels: The labels of the Workload.
    """

    uid: str
    view: WorkloadRow
    code: str
    why: str
    cluster_queue: str
    flavors: tuple[str, ...]
    team: str
    labels: Mapping[str, str]

    def metadata(self) -> Json:
        """Return the identity of the row."""
        namespace, _, name = self.view.key.partition("/")
        return {
            "name": name,
            "namespace": namespace,
            "uid": self.uid,
            "creationTimestamp": write_time(self.view.created),
        }

    def status(self, position: int | None, start: Mapping[str, Any] | None, why: str) -> Json:
        """Return the fields of the row.

        Args:
            position: The position in the ClusterQueue from 1; None if it does not wait there.
            start: When it starts; None if nothing is known.
            why: Why it is not further: `why`, or what the engine says now.
        """
        view = self.view
        return {
            "job": view.job,
            "phase": str(view.state),
            "words": view.phase.words,
            "worker": view.worker or None,
            "offeredTo": list(view.phase.offered_to),
            "position": position,
            "start": self.find_start(start),
            "gpus": view.gpus,
            "team": self.team,
            "localQueue": view.queue,
            "clusterQueue": self.cluster_queue or None,
            "flavors": list(self.flavors),
            "priority": view.priority,
            "created": write_time(view.created),
            "since": write_time(view.phase.since),
            "code": self.code,
            "why": why[:MAX_WHY],
            "cut": len(why) > MAX_WHY,
        }

    def find_start(self, start: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the start of a Workload that has not started; None if there is none to expect."""
        if self.view.state in AT_WORK | ENDED:
            return None
        if self.view.state in {PhaseState.DEACTIVATED, PhaseState.REJECTED}:
            return {"reason": f"it does not start: {self.view.phase.words}"}
        return start or {"reason": NO_ESTIMATE}


def view_standing(
    workload: Workload, job: Mapping[str, Any] | None, *, cluster_queue: str, team: str
) -> Standing:
    """Read where a Workload stands.

    Args:
        workload: The Workload.
        job: Its job with its status, if that is known.
        cluster_queue: The ClusterQueue of its LocalQueue; empty if there is none.
        team: The owner of its namespace.
    """
    view = view_workload(workload, job)
    code, why = _split_reason(workload, view)
    admission = workload.status.admission
    flavors = (
        sorted(
            {flavor for each in admission.pod_set_assignments for flavor in each.flavors.values()}
        )
        if admission is not None
        else ()
    )
    return Standing(
        uid=workload.metadata.uid,
        view=view,
        code=code,
        why=why,
        cluster_queue=view.cluster_queue or cluster_queue,
        flavors=tuple(flavors),
        team=team,
        labels=workload.metadata.labels or {},
    )


def write_time(moment: datetime | None) -> str | None:
    """Return a time for JSON."""
    return format_time(moment) if moment is not None else None


def find_code(workload: Workload, state: PhaseState) -> str:
    """Return the reason of a phase for programs; empty if there is none."""
    if state in WAITS_ELSEWHERE:
        return CHECKS_PENDING
    type_ = _CONDITION_OF.get(state)
    found = workload_state.find(workload.status, type_) if type_ is not None else None
    return found.reason if found is not None else ""


def _split_reason(workload: Workload, view: WorkloadRow) -> tuple[str, str]:
    code, why = find_code(workload, view.state), view.why
    if code and why.startswith(f"{code}: "):
        return code, why.removeprefix(f"{code}: ")
    return code, "" if why == code else why
