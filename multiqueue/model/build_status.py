"""The status of a Workload as the engine's values; an unreadable field becomes a problem.

Called by `build`. A holder of quota is charged in any case: if its admission lacks a value, the
requests of its spec count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState, WorkloadCondition, find_condition
from multiqueue.api.ran_on import RanOn, find_ran_on
from multiqueue.api.v1beta2.meta import Condition, parse_time
from multiqueue.api.workload_state import has_quota
from multiqueue.lib.amount import Amount, multiply
from multiqueue.model.placement import ANYWHERE, Placement, merge
from multiqueue.model.queue_order import RequeuingTimestamp, queue_order_at
from multiqueue.model.resources import parse_request
from multiqueue.model.topology import TopologyAssignment
from multiqueue.model.topology_encoding import decode_topology
from multiqueue.model.workload import Admission, PodSet, PodSetAssignment, Reservation

T = TypeVar("T")


class StatusReader:
    """Reads the status of one Workload.

    Attributes:
        problems: Problems so far, each with the path of the field.
    """

    def __init__(self, obj: api.Workload) -> None:
        self.problems: list[str] = []
        self._obj = obj
        self._status = obj.status

    def order_at(self, timestamp: RequeuingTimestamp, *, reclaimed_last: bool) -> datetime:
        """Return the time that orders the Workload in its queue (E-13)."""
        return self._read(
            "status.conditions[Evicted].lastTransitionTime",
            lambda: queue_order_at(self._obj, timestamp, reclaimed_last=reclaimed_last),
            self._obj.metadata.created_at,
        )

    def requeue_at(self) -> datetime | None:
        """Return when the backoff ends."""
        requeue = self._status.requeue_state
        if requeue is None:
            return None
        path = "status.requeueState.requeueAt"
        return self._read(path, lambda: parse_time(requeue.requeue_at), None)

    def checks(self) -> dict[str, CheckState]:
        """Return the states of the admission checks; an unknown one counts as Pending."""
        return {
            check.name: self._read(
                f"status.admissionChecks[{check.name}].state",
                partial(CheckState, check.state),
                CheckState.PENDING,
            )
            for check in self._status.admission_checks
        }

    def placement_updates(self) -> dict[str, Placement]:
        """Return the node selectors and tolerations from ready checks, by name of the pod set."""
        updates: dict[str, Placement] = {}
        for check in self._status.admission_checks:
            if check.state != CheckState.READY:
                continue
            for update in check.pod_set_updates:
                added = Placement(
                    node_selector=tuple(sorted(update.node_selector.items())),
                    tolerations=tuple(update.tolerations),
                )
                updates[update.name] = merge(updates.get(update.name, ANYWHERE), added)
        return updates

    def reservation(self, pod_sets: Sequence[PodSet]) -> Reservation | None:
        """Return the reservation, scaled down to the pods that still need quota (E-6), or run."""
        status = self._status
        reserved = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
        if status.admission is None or reserved is None or not has_quota(status):
            return None
        admitted = find_condition(status.conditions, WorkloadCondition.ADMITTED)
        spec = {pod_set.name: pod_set for pod_set in pod_sets}
        ran_on = find_ran_on(self._obj)
        return Reservation(
            admission=Admission(
                cluster_queue=status.admission.cluster_queue,
                pod_sets=tuple(
                    self._assignment(assignment, spec.get(assignment.name), ran_on)
                    for assignment in status.admission.pod_set_assignments
                ),
            ),
            reserved_at=self._read(
                "status.conditions[QuotaReserved].lastTransitionTime",
                lambda: reserved.transitioned_at,
                self._obj.metadata.created_at,
            ),
            admitted=admitted is not None and admitted.status == "True",
            admitted_at=_since(admitted),
        )

    def _assignment(
        self, assignment: api.PodSetAssignment, pod_set: PodSet | None, ran_on: RanOn
    ) -> PodSetAssignment:
        needed = pod_set.count if pod_set is not None else None
        count = assignment.count if assignment.count is not None else (needed or 0)
        runs = ran_on.pods.get(assignment.name, count)
        effective = runs if pod_set is None else self._left(pod_set, runs)
        path = f"status.admission.podSetAssignments[{assignment.name}].resourceUsage"
        usage: dict[str, Amount] = {}
        for name, raw in sorted(assignment.resource_usage.items()):
            each = pod_set.requests.get(name, 0) if pod_set is not None else 0
            usage[name] = self._read(
                f"{path}[{name}]",
                partial(_parse_usage, name, raw),
                multiply(each, count),
            )
        if effective < count:
            usage = {name: value // count * effective for name, value in usage.items()}
            count = effective
        return PodSetAssignment(
            name=assignment.name,
            flavors=_charged(assignment, ran_on) if ran_on.flavors else assignment.flavors,
            usage=usage,
            count=count,
            topology=self._topology(assignment),
            delayed_topology=assignment.delayed_topology_request or "",
        )

    def _left(self, pod_set: PodSet, runs: int) -> int:
        """Return how many of the running pods still need quota.

        Reclaimed pods are part of the number that the job requests. If the number depends on the
        hardware, they are part of that number.
        """
        if not pod_set.alternatives:
            return min(pod_set.count, runs)
        asked = {item.name: item.count for item in self._obj.spec.pod_sets}
        return max(0, runs - (asked[pod_set.name] - pod_set.count))

    def _topology(self, assignment: api.PodSetAssignment) -> TopologyAssignment | None:
        wire = assignment.topology_assignment
        if wire is None:
            return None
        path = f"status.admission.podSetAssignments[{assignment.name}].topologyAssignment"
        return self._read(path, lambda: decode_topology(wire), None)

    def _read(self, path: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except ValueError as error:
            self.problems.append(f"{path}: {error}")
            return otherwise


def _since(admitted: Condition | None) -> datetime | None:
    """Return since when it is admitted; None if it is not, or if that cannot be read."""
    if admitted is None or admitted.status != "True":
        return None
    try:
        return admitted.transitioned_at
    except ValueError:
        return None


def _charged(assignment: api.PodSetAssignment, ran_on: RanOn) -> dict[str, str]:
    """Return the flavors in use: those that a worker used instead, if it did."""
    return {
        resource: ran_on.flavors.get((assignment.name, resource), flavor)
        for resource, flavor in assignment.flavors.items()
    }


def _parse_usage(resource: str, raw: str | float) -> Amount:
    usage = parse_request(resource, raw)
    if usage < 0:
        raise ValueError(f"{raw} is negative")
    return usage
