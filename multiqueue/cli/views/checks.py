"""The admission checks of a Workload: their states, and when each is tried again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from multiqueue.api import workload_state
from multiqueue.api.conditions import ACTIVE, CheckState, ProvisioningCondition, find_condition
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.api.v1beta2 import AdmissionCheckState, Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_checks import retry_at
from multiqueue.views.ages import format_age, format_seconds
from multiqueue.views.phase import find_phase

if TYPE_CHECKING:
    from multiqueue.api.autoscaling import ProvisioningRequest
    from multiqueue.cli.queue_objects import QueueObjects

_TELLING = (
    ProvisioningCondition.FAILED,
    ProvisioningCondition.CAPACITY_REVOKED,
    ProvisioningCondition.BOOKING_EXPIRED,
    ProvisioningCondition.PROVISIONED,
    ProvisioningCondition.ACCEPTED,
)
"""Conditions of a request: the first one that is True gives its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One admission check of the Workload.

    Attributes:
        since: When it reached this state; as on the wire.
        retries: How often it sent the Workload back to the queue.
        inactive: Why the AdmissionCheck itself cannot work; empty if it can.
    """

    name: str
    state: str
    since: str
    retries: int
    message: str
    inactive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One ProvisioningRequest of the Workload, and the autoscaler's answer."""

    name: str
    provisioning_class: str
    state: str
    message: str


def list_checks(objects: QueueObjects, workload: Workload) -> tuple[CheckRow, ...]:
    """Return the checks in the order of the Workload's list."""
    return tuple(
        CheckRow(
            name=check.name,
            state=check.state,
            since=check.last_transition_time,
            retries=check.retry_count or 0,
            message=check.message or _awaited(objects, workload, check),
            inactive=explain_check(objects, check.name),
        )
        for check in workload.status.admission_checks
    )


def _awaited(objects: QueueObjects, workload: Workload, state: AdmissionCheckState) -> str:
    """Return who must answer a check that has no answer yet."""
    check, status = objects.checks.get(state.name), workload.status
    if check is None or state.state != CheckState.PENDING:
        return ""
    if not workload_state.has_quota(status):
        return "begins once quota is reserved"
    offered_to = status.nominated_cluster_names
    if check.spec.controller_name == MULTIKUEUE_CONTROLLER and offered_to:
        return f"offered to {', '.join(offered_to)}, which have not admitted it yet"
    return f"waits for its controller, {check.spec.controller_name}"


def explain_check(objects: QueueObjects, name: str) -> str:
    """Return why an AdmissionCheck is not active; empty if it is, or may not be read."""
    check = objects.checks.get(name)
    if check is None:
        hidden = "admissionchecks" in objects.hidden
        return "" if hidden else f"AdmissionCheck {name} doesn't exist"
    active = find_condition(check.status.conditions, ACTIVE)
    if active is None:
        controller = check.spec.controller_name
        return f"AdmissionCheck {name} is not active yet; is the controller {controller} running?"
    if active.status == "True":
        return ""
    return f"AdmissionCheck {name} is inactive: {active.message or active.reason}"


def explain_checks_of_queue(objects: QueueObjects, queue: str) -> str:
    """Return the problems of a ClusterQueue's checks, each in a sentence."""
    spec = objects.cluster_queues[queue].spec if queue in objects.cluster_queues else None
    strategy = spec.admission_checks_strategy if spec else None
    rules = strategy.admission_checks if strategy else ()
    return "; ".join(filter(None, (explain_check(objects, rule.name) for rule in rules)))


def has_provisioning(objects: QueueObjects, workload: Workload) -> bool:
    """Whether a check of the Workload uses an autoscaler."""
    found = (objects.checks.get(check.name) for check in workload.status.admission_checks)
    return any(
        check is not None and check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER
        for check in found
    )


def list_requests(requests: Sequence[ProvisioningRequest]) -> tuple[RequestRow, ...]:
    """Return the autoscaler's answers, one row for each request, by name."""
    return tuple(_request(request) for request in sorted(requests, key=lambda r: r.metadata.name))


def next_step(workload: Workload, now: datetime) -> str:
    """Return when, or by whose action, the Workload continues; empty if quota decides.

    Empty too if its job has to be created again: the reason says so.
    """
    status, name = workload.status, workload.metadata.name
    if workload_state.is_finished(status):
        return ""
    if not workload_state.is_active(workload.spec):
        if workload_state.CREATE_AGAIN in find_phase(workload).why:
            return ""  # it would be rejected again
        return (
            "it stays so until it is activated: kubectl patch workload "
            f"{name} -n {workload.metadata.namespace} --type merge "
            '-p \'{"spec":{"active":true}}\''
        )
    at = workload_state.requeue_at(status)
    if workload_state.has_quota(status):
        waits = any(check.state == CheckState.RETRY for check in status.admission_checks)
        at = retry_at(status) if waits else None
    if at is None or at <= now:
        return ""
    left = format_seconds((at - now).total_seconds())
    return f"tried again in {left}, at {at:%Y-%m-%dT%H:%M:%SZ}"


def show_since(since: str, now: datetime) -> str:
    """Return how long a check has been in its state."""
    return format_age(parse_time(since), now)


def _request(request: ProvisioningRequest) -> RequestRow:
    state = next((type_ for type_ in _TELLING if request.has(type_)), None)
    shown = state
    if state is ProvisioningCondition.ACCEPTED:
        # Provisioned=False says when the capacity is expected.
        waiting = request.message(ProvisioningCondition.PROVISIONED)
        shown = ProvisioningCondition.PROVISIONED if waiting else state
    return RequestRow(
        name=request.metadata.name,
        provisioning_class=request.spec.provisioning_class_name,
        state=str(state) if state else "NotAnswered",
        message=request.message(shown) if shown else "no autoscaler has looked at it yet",
    )
