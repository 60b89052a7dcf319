"""Opens preemption gates of Workloads; `workload_state` reads the closed ones. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from multiqueue.api.v1beta2 import PreemptionGateState, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import OPEN


def open_preemption_gate(status: WorkloadStatus, name: str, *, now: datetime) -> WorkloadStatus:
    """Return the status with one gate open; a gate that is already open is unchanged."""
    known = next((gate for gate in status.preemption_gates if gate.name == name), None)
    if known is not None and known.position == OPEN:
        return status
    opened = PreemptionGateState(name=name, position=OPEN, last_transition_time=format_time(now))
    others = tuple(gate for gate in status.preemption_gates if gate.name != name)
    return msgspec.structs.replace(status, preemption_gates=(*others, opened))
