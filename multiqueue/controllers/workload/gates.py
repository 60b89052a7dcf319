"""Rule for preemption gates: the status has the state of every gate of the spec (E-174)."""

from __future__ import annotations

import msgspec

from multiqueue.api.v1beta2 import PreemptionGateState, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import CLOSED
from multiqueue.controllers.workload.plan import WorkloadPlan, WriteStatus
from multiqueue.controllers.workload.view import WorkloadSituation


def sync_gates(view: WorkloadSituation) -> WorkloadPlan | None:
    """Add new gates as closed; drop those that the spec no longer has."""
    if not view.options.preemption_gates or _synced(view) == view.workload.status:
        return None
    return WriteStatus(change=_synced)


def _synced(view: WorkloadSituation) -> WorkloadStatus:
    spec, status = view.workload.spec, view.workload.status
    known = {state.name: state for state in status.preemption_gates}
    states = tuple(
        known.get(gate.name)
        or PreemptionGateState(
            name=gate.name, position=CLOSED, last_transition_time=format_time(view.now)
        )
        for gate in spec.preemption_gates
    )
    if states == status.preemption_gates:
        return status
    return msgspec.structs.replace(status, preemption_gates=states)
