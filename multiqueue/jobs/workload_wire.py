"""Workloads in wire format: complete list entries, and patches with only the differences.

A typed value leaves defaults out when it is encoded; a list entry on the wire must have its
required fields. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import AdmissionCheckState, PodSetAssignment, WorkloadStatus

Json = dict[str, Any]


def build_status(status: WorkloadStatus) -> Json:
    """Return the wire form of a status with every required field of its entries."""
    wire = encode(status)
    if status.admission is not None:
        wire["admission"] = {
            "clusterQueue": status.admission.cluster_queue,
            "podSetAssignments": [
                _assignment(assignment) for assignment in status.admission.pod_set_assignments
            ],
        }
    if status.admission_checks:
        wire["admissionChecks"] = [_check(check) for check in status.admission_checks]
    if status.scheduling_stats is not None:
        wire["schedulingStats"] = {
            "evictions": [
                {"reason": e.reason, "underlyingCause": e.underlying_cause, "count": e.count}
                for e in status.scheduling_stats.evictions
            ]
        }
    if status.preemption_gates:
        wire["preemptionGates"] = [
            {"position": gate.position, **encode(gate)} for gate in status.preemption_gates
        ]
    return wire


def build_status_patch(before: WorkloadStatus, after: WorkloadStatus) -> Json:
    """Return the merge patch that turns one status into the other; empty when they are equal."""
    if before == after:
        return {}
    return diff(build_status(before), build_status(after))


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch from one mapping to another: lists as a whole, null removes."""
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            patch[key] = diff(old, value)
        else:
            patch[key] = value
    return patch


def _assignment(assignment: PodSetAssignment) -> Json:
    return {"name": assignment.name, **encode(assignment)}


def _check(check: AdmissionCheckState) -> Json:
    wire = {
        "name": check.name,
        "state": check.state,
        "lastTransitionTime": check.last_transition_time,
        "message": check.message,
        **encode(check),
    }
    if check.pod_set_updates:
        wire["podSetUpdates"] = [
            {"name": update.name, **encode(update)} for update in check.pod_set_updates
        ]
    return wire
