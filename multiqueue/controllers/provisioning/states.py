"""From the conditions of a request to the state of its check: the first matching rule decides.

Pure. Parity: E-156.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiqueue.api import names
from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState, ProvisioningCondition
from multiqueue.api.v1beta2 import PodSetUpdate
from multiqueue.api.workload_state import is_active, is_admitted, is_finished
from multiqueue.controllers.provisioning.naming import template_name
from multiqueue.controllers.provisioning.selection import attempt_of
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView

JITTER = 0.0001
"""Share of a pause that is added at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckChange:
    """The new values of a check's state; None leaves a value as it is."""

    state: CheckState | None = None
    message: str | None = None
    requeue_after_seconds: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCheck:
    """A check and the request that decides its state."""

    view: ProvisioningView
    check: ProvisioningCheck
    request: ProvisioningRequest

    @property
    def retries(self) -> int:
        """The number of retries of the check so far."""
        return self.view.state_of(self.check).retry_count or 0

    def has(self, condition: ProvisioningCondition) -> bool:
        """Whether a condition of the request is True."""
        return self.request.has(condition)

    def message(self, condition: ProvisioningCondition) -> str:
        """The message of a condition of the request."""
        return self.request.message(condition)


UNCHANGED = CheckChange()
Rule = Callable[[RequestedCheck], CheckChange | None]


def judge(asked: RequestedCheck) -> CheckChange:
    """Return the change of the check that follows from the request's conditions."""
    for rule in RULES:
        change = rule(asked)
        if change is not None:
            return change
    return CheckChange(state=CheckState.PENDING)


def failed(asked: RequestedCheck) -> CheckChange | None:
    """Retry a failed request up to the limit; then the failure is final."""
    if not asked.has(ProvisioningCondition.FAILED):
        return None
    return _try_again(asked, "failure", asked.message(ProvisioningCondition.FAILED))


def capacity_revoked(asked: RequestedCheck) -> CheckChange | None:
    """Reject the check if its capacity was taken away, before or after the admission."""
    if not asked.has(ProvisioningCondition.CAPACITY_REVOKED):
        return None
    workload = asked.view.workload
    if not is_active(workload.spec) or is_finished(workload.status):
        return UNCHANGED
    return CheckChange(
        state=CheckState.REJECTED, message=asked.message(ProvisioningCondition.CAPACITY_REVOKED)
    )


def booking_expired(asked: RequestedCheck) -> CheckChange | None:
    """Retry an expired booking; after the admission the pods hold the capacity."""
    if not asked.has(ProvisioningCondition.BOOKING_EXPIRED):
        return None
    if is_admitted(asked.view.workload.status):
        return UNCHANGED
    message = asked.message(ProvisioningCondition.BOOKING_EXPIRED)
    return _try_again(asked, "booking expired", message)


def provisioned(asked: RequestedCheck) -> CheckChange | None:
    """Set the check to Ready; message and updates stay as they were at that time."""
    if not asked.has(ProvisioningCondition.PROVISIONED):
        return None
    if asked.view.is_in(asked.check, CheckState.READY):
        return UNCHANGED
    return CheckChange(
        state=CheckState.READY,
        message=asked.message(ProvisioningCondition.PROVISIONED),
        pod_set_updates=_pod_set_updates(asked),
    )


def accepted(asked: RequestedCheck) -> CheckChange | None:
    """Report that capacity is being provisioned; Provisioned=False may say until when."""
    if not asked.has(ProvisioningCondition.ACCEPTED):
        return None
    known = any(
        c.type == ProvisioningCondition.PROVISIONED for c in asked.request.status.conditions
    )
    message = asked.message(ProvisioningCondition.PROVISIONED) if known else None
    return CheckChange(state=CheckState.PENDING, message=message)


RULES: Sequence[Rule] = (failed, capacity_revoked, booking_expired, provisioned, accepted)
"""The order matters: a request may fail after it was provisioned."""


def pause_seconds(check: ProvisioningCheck, *, retries: int, jitter: float) -> int:
    """Return the pause before the next try in whole seconds; it doubles up to the limit."""
    strategy = check.retry
    base, most = strategy.backoff_base_seconds, strategy.backoff_max_seconds
    first = 60 if base is None else base
    limit = 1800 if most is None else most
    # The limit is reached long before; the exponent is bounded to keep the number small.
    pause = min(limit, first * 2 ** min(retries, 64))
    return int(pause * (1 + JITTER * jitter))


def _try_again(asked: RequestedCheck, cause: str, message: str) -> CheckChange:
    attempt = attempt_of(asked.view, asked.check, asked.request) or 1
    if attempt > asked.check.limit:
        return CheckChange(state=CheckState.REJECTED, message=message)
    words = f"Retrying after {cause}: {message}"
    # The request of an earlier attempt says nothing about the present one.
    is_old = attempt <= asked.retries
    if is_old or asked.view.is_in(asked.check, CheckState.RETRY):
        return CheckChange(message=words)
    pause = pause_seconds(asked.check, retries=asked.retries, jitter=asked.view.jitter)
    return CheckChange(state=CheckState.RETRY, message=words, requeue_after_seconds=pause)


def _pod_set_updates(asked: RequestedCheck) -> tuple[PodSetUpdate, ...]:
    """Return the fields that pods need to use the capacity, by pod set of the request."""
    request, config = asked.request, asked.check.config
    pod_sets = {
        template_name(request.metadata.name, pod_set.name): pod_set.name
        for pod_set in asked.view.workload.spec.pod_sets
    }
    details = request.status.provisioning_class_details
    selectors = config.pod_set_updates.node_selector if config and config.pod_set_updates else ()
    return tuple(
        PodSetUpdate(
            name=pod_sets[asked_set.pod_template_ref.name],
            annotations={
                names.CONSUME_PROVISIONING_REQUEST: request.metadata.name,
                names.PROVISIONING_CLASS_NAME: request.spec.provisioning_class_name,
            },
            node_selector={
                selector.key: details[selector.value_from_provisioning_class_detail]
                for selector in selectors
                if selector.value_from_provisioning_class_detail in details
            },
        )
        for asked_set in request.spec.pod_sets
        if asked_set.pod_template_ref.name in pod_sets
    )
