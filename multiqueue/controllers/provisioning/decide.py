"""The next step for one Workload: the first rule that matches decides. Pure.

Parity: E-154 (order), E-156 (states), E-157 (creation).
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState, ProvisioningCondition
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.api.workload_checks import find_check, set_check_state
from multiqueue.api.workload_state import (
    has_quota,
    is_admitted,
    is_evicted,
    is_finished,
    sync_admitted,
)
from multiqueue.controllers.provisioning.content import Content, build_content
from multiqueue.controllers.provisioning.demand import is_needed
from multiqueue.controllers.provisioning.plan import (
    ChangeChecks,
    CreateRequest,
    DeleteRequests,
    ProvisioningDone,
    ProvisioningPlan,
    Refuse,
    RepairTemplates,
)
from multiqueue.controllers.provisioning.selection import attempt_of, pick_requests
from multiqueue.controllers.provisioning.states import UNCHANGED, CheckChange, RequestedCheck, judge
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from multiqueue.jobs.framework.pod_set_info import FlavorNotFoundError, StartConflictError

INACTIVE_MESSAGE = "the check is not active"
NOT_NEEDED_MESSAGE = "the provisioning request is not needed"

Rule = Callable[[ProvisioningView], ProvisioningPlan | None]


def decide(view: ProvisioningView) -> ProvisioningPlan:
    """Return the next step.

    Raises:
        InconsistentAssignmentError: the admission lacks a pod set.
    """
    for rule in RULES:
        plan = rule(view)
        if plan is not None:
            return plan
    return ProvisioningDone()


def end(view: ProvisioningView) -> ProvisioningPlan | None:
    """Delete the requests of a Workload that ended; with the gate, also of an evicted one."""
    status = view.workload.status
    finished, evicted = is_finished(status), is_evicted(status)
    if not finished and not evicted:
        return None
    return _delete(view.requests) if finished or view.cleanup else ProvisioningDone()


def ignore(view: ProvisioningView) -> ProvisioningPlan | None:
    """Do nothing for a Workload without a reservation; its requests stay."""
    status = view.workload.status
    deleted = view.workload.metadata.deletion_timestamp
    return (
        ProvisioningDone() if deleted or not has_quota(status) or status.admission is None else None
    )


def sync_checks(view: ProvisioningView) -> ProvisioningPlan | None:
    """Bring the checks in line with their requests, all in one write."""
    return ChangeChecks(change=_synced) if _synced(view) != view.workload.status else None


def delete_unused(view: ProvisioningView) -> ProvisioningPlan | None:
    """Delete the requests that no check uses any more.

    Deviates: an admitted Workload keeps its capacity until it ends, even if its queue has lost
    the check; the reference takes the capacity away from the running job.
    """
    kept = {request.metadata.uid for request in pick_requests(view).values()}
    if is_admitted(view.workload.status):
        kept |= {request.metadata.uid for request in view.requests if _holds_capacity(request)}
    plan = _delete(tuple(r for r in view.requests if r.metadata.uid not in kept))
    return plan if isinstance(plan, DeleteRequests) else None


def create_missing(view: ProvisioningView) -> ProvisioningPlan | None:
    """Create the request of each check that waits without one, or after a failed one."""
    picked = pick_requests(view)
    for check in view.checks:
        attempt = _next_attempt(view, check, picked.get(check.name))
        if attempt is None or not _may_ask(view, check):
            continue
        content = _build(view, check, attempt)
        if isinstance(content, Refuse):
            return content
        return CreateRequest(check=check.name, content=content)
    return None


def repair_templates(view: ProvisioningView) -> ProvisioningPlan | None:
    """Make the request the owner of its templates, if an earlier run was interrupted."""
    picked = pick_requests(view)
    for check in view.checks:
        request = picked.get(check.name)
        if request is None or not view.is_in(check, CheckState.PENDING) or _is_whole(view, request):
            continue
        attempt = attempt_of(view, check, request)
        assert attempt is not None, "it was picked by its attempt"
        content = _build(view, check, attempt)
        if isinstance(content, Refuse):
            return content
        return RepairTemplates(check=check.name, request=request, content=content)
    return None


RULES: tuple[Rule, ...] = (
    end,
    ignore,
    # Before the deletions: the message of a request is read before the request is deleted.
    sync_checks,
    delete_unused,
    create_missing,
    repair_templates,
)


def _synced(view: ProvisioningView) -> WorkloadStatus:
    """Return the status with every check brought up to date, and Admitted if it follows.

    Nothing changes while a check waits for a request that has yet to be created.
    """
    status = view.workload.status
    if is_finished(status) or is_evicted(status) or not has_quota(status):
        return status
    picked = pick_requests(view)
    changes: dict[str, CheckChange] = {}
    for check in view.checks:
        request = picked.get(check.name)
        if request is None and _may_ask(view, check):
            return status
        changes[check.name] = _change(view, check, request)
    for name, change in changes.items():
        status = _apply(view, status, name, change)
    if status == view.workload.status:
        return status
    return sync_admitted(status, now=view.now, generation=view.workload.metadata.generation)


def _change(
    view: ProvisioningView, check: ProvisioningCheck, request: ProvisioningRequest | None
) -> CheckChange:
    if check.config is None and not is_admitted(view.workload.status):
        return CheckChange(state=CheckState.PENDING, message=INACTIVE_MESSAGE)
    if request is not None:
        return judge(RequestedCheck(view=view, check=check, request=request))
    is_decided = check.config is None or view.is_in(check, CheckState.READY)
    if is_decided or is_needed(view, check):
        return UNCHANGED
    return CheckChange(state=CheckState.READY, message=NOT_NEEDED_MESSAGE, pod_set_updates=())


def _apply(
    view: ProvisioningView, status: WorkloadStatus, name: str, change: CheckChange
) -> WorkloadStatus:
    old = find_check(status, name)
    if old is None or change == UNCHANGED:
        return status
    return set_check_state(
        status,
        name,
        CheckState(old.state) if change.state is None else change.state,
        message=old.message if change.message is None else change.message,
        now=view.now,
        requeue_after_seconds=change.requeue_after_seconds,
        pod_set_updates=change.pod_set_updates,
    )


def _may_ask(view: ProvisioningView, check: ProvisioningCheck) -> bool:
    """Whether a request may be made for a check.

    Deviates: never for an admitted Workload, such as for a check that its queue got later; the
    reference requests capacity in addition to that of the running pods.
    """
    return (
        view.is_in(check, CheckState.PENDING)
        and not is_admitted(view.workload.status)
        and is_needed(view, check)
    )


def _next_attempt(
    view: ProvisioningView, check: ProvisioningCheck, request: ProvisioningRequest | None
) -> int | None:
    if request is None:
        return (view.state_of(check).retry_count or 0) + 1
    if not _is_over(request):
        return None
    return (attempt_of(view, check, request) or 0) + 1


def _holds_capacity(request: ProvisioningRequest) -> bool:
    return request.has(ProvisioningCondition.PROVISIONED) and not _is_over(request)


def _is_over(request: ProvisioningRequest) -> bool:
    over = (ProvisioningCondition.FAILED, ProvisioningCondition.BOOKING_EXPIRED)
    return any(request.has(condition) for condition in over)


def _build(view: ProvisioningView, check: ProvisioningCheck, attempt: int) -> Content | Refuse:
    try:
        return build_content(view, check, attempt)
    except (FlavorNotFoundError, StartConflictError) as error:
        return Refuse(check=check.name, message=f"Error building the ProvisioningRequest: {error}")


def _is_whole(view: ProvisioningView, request: ProvisioningRequest) -> bool:
    return all(
        any(
            owner.uid == request.metadata.uid
            for owner in view.template_owners.get(pod_set.pod_template_ref.name, ())
        )
        for pod_set in request.spec.pod_sets
    )


def _delete(requests: tuple[ProvisioningRequest, ...]) -> ProvisioningPlan:
    left = tuple(request for request in requests if not request.metadata.deletion_timestamp)
    return DeleteRequests(requests=left) if left else ProvisioningDone()
