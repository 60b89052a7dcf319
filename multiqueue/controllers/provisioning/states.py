"""From the conditions of a request to the state of its check: the first rule that fits says it.

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
    """What a check's state becomes; None leaves what it was."""

    state: CheckState | None = None
    message: str | None = None
    requeue_after_seconds: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCheck:
    """A check and the request that it goes by."""

    view: ProvisioningView
    check: ProvisioningCheck
    request: ProvisioningRequest

    @property
    def retries(self) -> int:
        """How often the check was retried already."""
        return self.view.state_of(self.check).retry_count or 0

    def has(self, condition: ProvisioningCondition) -> bool:
        """Whether a condition of the request is True."""
        return self.request.has(condition)

    def message(self, condition: ProvisioningCondition) -> str:
        """What a condition of the request says."""
        return self.request.message(condition)


UNCHANGED = CheckChange()
Rule = Callable[[RequestedCheck], CheckChange | None]


def judge(asked: RequestedCheck) -> CheckChange:
    """Return what the conditions of the request mean for the check."""
    for rule in RULES:
        change = rule(asked)
        if change is not None:
            return change
    return CheckChange(state=CheckState.PENDING, message="")


def failed(asked: RequestedCheck) -> CheckChange | None:
    """A failure is tried again up to the limit, then it is final."""
    if not asked.has(ProvisioningCondition.FAILED):
        return None
    return _try_again(asked, "failure", asked.message(ProvisioningCondition.FAILED))


def capacity_revoked(asked: RequestedCheck) -> CheckChange | None:
    """What was given is gone, before or after the admission: the Workload is given up."""
    if not asked.has(ProvisioningCondition.CAPACITY_REVOKED):
        return None
    workload = asked.view.workload
    if not is_active(workload.spec) or is_finished(workload.status):
        return UNCHANGED
    return CheckChange(
        state=CheckState.REJECTED, message=asked.message(ProvisioningCondition.CAPACITY_REVOKED)
    )


def booking_expired(asked: RequestedCheck) -> CheckChange | None:
    """An expired booking matters until the admission: the pods hold the capacity from then on."""
    if not asked.has(ProvisioningCondition.BOOKING_EXPIRED):
        return None
    if is_admitted(asked.view.workload.status):
        return UNCHANGED
    message = asked.message(ProvisioningCondition.BOOKING_EXPIRED)
    return _try_again(asked, "booking expired", message)


def provisioned(asked: RequestedCheck) -> CheckChange | None:
    """The capacity is there; message and updates stay as they were when it came."""
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
    """It is being provisioned; Provisioned=False may say until when that takes."""
    if not asked.has(ProvisioningCondition.ACCEPTED):
        return None
    known = any(
        c.type == ProvisioningCondition.PROVISIONED for c in asked.request.status.conditions
    )
    message = asked.message(ProvisioningCondition.PROVISIONED) if known else None
    return CheckChange(state=CheckState.PENDING, message=message)


RULES: Sequence[Rule] = (failed, capacity_revoked, booking_expired, provisioned, accepted)
"""The order is normative: a request may have failed after it was provisioned."""


def pause_seconds(check: ProvisioningCheck, *, retries: int, jitter: float) -> int:
    """Return the pause before the next try, in whole seconds: doubled at each, up to the limit."""
    strategy = check.retry
    base, most = strategy.backoff_base_seconds, strategy.backoff_max_seconds
    first = 60 if base is None else base
    limit = 1800 if most is None else most
    # From some power on the limit is reached anyway; huge numbers are not worth their time.
    pause = min(limit, first * 2 ** min(retries, 64))
    return int(pause * (1 + JITTER * jitter))


def _try_again(asked: RequestedCheck, cause: str, message: str) -> CheckChange:
    attempt = attempt_of(asked.view, asked.check, asked.request) or 1
    if attempt > asked.check.limit:
        return CheckChange(state=CheckState.REJECTED, message=message)
    words = f"Retrying after {cause}: {message}"
    # A request of an earlier try says nothing about this one.
    is_old = attempt <= asked.retries
    if is_old or asked.view.is_in(asked.check, CheckState.RETRY):
        return CheckChange(message=words)
    pause = pause_seconds(asked.check, retries=asked.retries, jitter=asked.view.jitter)
    return CheckChange(state=CheckState.RETRY, message=words, requeue_after_seconds=pause)


def _pod_set_updates(asked: RequestedCheck) -> tuple[PodSetUpdate, ...]:
    """What the pods need to use the capacity: one entry for each pod set of the request."""
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
