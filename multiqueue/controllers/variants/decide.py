"""The next steps for a parent and its variants: the first rule that has something to do. Pure.

The parent is the Workload that the job follows. A variant holds the quota; the parent shows the
admission of one of them. Quota of a variant is released only once the job has stopped, which is
when the parent has lost its own reservation (E-171).

Parity: KEP-8691. Deviates: an eviction of the parent itself evicts its variant, too; a variant that
an admission check rejected stays inactive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.slices import is_elastic
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.variants import is_parent, variant_flavor, variant_order
from multiqueue.api.workload_state import (
    DEACTIVATED_DUE_TO,
    OPEN,
    eviction_reason,
    find,
    has_quota,
    is_evicted,
    is_finished,
    is_on_hold,
)
from multiqueue.controllers.variants import statuses
from multiqueue.controllers.variants.compose import followed_spec
from multiqueue.controllers.variants.plan import (
    CreateVariant,
    DeleteVariant,
    FamilyPlan,
    FamilyStep,
    PatchObject,
    PatchStatus,
    ReleaseVariant,
)
from multiqueue.controllers.variants.view import RETAIN, FamilyView, may_run

PREEMPTION_PERIOD = timedelta(minutes=5)
"""How long one variant may preempt before the next one may (E-173)."""
_NO_VARIANT = "No variant is running"
_EVICTED = "Admitted variant was evicted"
Rule = Callable[[FamilyView], Iterable[FamilyStep]]


def decide_family(view: FamilyView) -> FamilyPlan:
    """Return the next steps."""
    if view.parent.metadata.deletion_timestamp or view.flavors is None:
        return FamilyPlan()
    if is_finished(view.parent.status):
        return FamilyPlan(steps=tuple(_finish_all(view)))
    for rule in RULES:
        steps = tuple(rule(view))
        if steps:
            return FamilyPlan(steps=steps)
    return _open_gate(view)


def mark_parent(view: FamilyView) -> Iterator[FamilyStep]:
    """Mark a Workload as a parent, or as one no more.

    A Workload that got its quota without variants keeps it until it ends. Slices of elastic jobs
    have no variants.
    """
    parent = view.parent
    wanted = bool(view.flavors) and not is_elastic(parent)
    if has_quota(parent.status):
        return
    if wanted != is_parent(parent) and (wanted or not view.variants):
        label = {names.CONCURRENT_ADMISSION_PARENT: "true" if wanted else None}
        yield PatchObject(workload=parent, patch={"metadata": {"labels": label}})


def release_deleted(view: FamilyView) -> Iterator[FamilyStep]:
    """Let variants under deletion go, except the one with which the job runs."""
    for variant in view.variants:
        if variant.metadata.deletion_timestamp and variant is not view.source:
            yield from _release(variant)


def delete_stale(view: FamilyView) -> Iterator[FamilyStep]:
    """Delete variants of removed flavors, and those of another spec than the parent's."""
    for variant in view.variants:
        flavor = variant_flavor(variant)
        if variant.metadata.deletion_timestamp:
            continue
        if flavor not in (view.flavors or ()):
            message = f'flavor "{flavor}" no longer in ClusterQueue'
            yield DeleteVariant(variant=variant, message=message)
        elif not _is_alike(variant, view.parent):
            message = "the parent Workload was changed"
            yield DeleteVariant(variant=variant, message=message)


def create_missing(view: FamilyView) -> Iterator[FamilyStep]:
    """Create one variant for each flavor, unless something keeps the job out of the queue."""
    parent, present = view.parent, {variant_flavor(variant) for variant in view.variants}
    gated = parent.metadata.annotations.get(names.ADMISSION_GATED_BY)
    if not is_parent(parent) or gated or is_on_hold(parent.status):
        return
    for flavor in view.flavors or ():
        if flavor not in present:
            yield CreateVariant(flavor=flavor, order=view.rank(flavor))


def follow_spec(view: FamilyView) -> Iterator[FamilyStep]:
    """Give variants the priority of the parent, and their place among the flavors."""
    wanted = followed_spec(view.parent)
    for variant in view.variants:
        order = view.rank(variant_flavor(variant))
        if order != variant_order(variant) and not variant.metadata.deletion_timestamp:
            annotations = {names.VARIANT_ORDER: str(order)}
            yield PatchObject(workload=variant, patch={"metadata": {"annotations": annotations}})
        elif followed_spec(variant) != wanted and not variant.metadata.deletion_timestamp:
            yield PatchObject(
                workload=variant, patch={"spec": {"priorityClassRef": None, **wanted}}
            )


def follow_evictions(view: FamilyView) -> Iterator[FamilyStep]:
    """Stop the job if its variant has to go; release variants once nothing runs with them."""
    parent, source = view.parent, view.source
    holds = has_quota(parent.status)
    if holds and is_parent(parent):
        if not is_evicted(parent.status):
            if source is not None and is_evicted(source.status):
                yield PatchStatus(
                    workload=parent, change=statuses.variant_evicted(_EVICTED, view.now)
                )
            elif source is None or not may_run(source):
                yield PatchStatus(workload=parent, change=statuses.stopped(_NO_VARIANT, view.now))
        elif source is not None and has_quota(source.status) and not is_evicted(source.status):
            yield PatchStatus(workload=source, change=statuses.evicted_with(parent, view.now))
    for variant in view.variants:
        in_use = holds and variant is source
        if is_evicted(variant.status) and has_quota(variant.status) and not in_use:
            yield PatchStatus(workload=variant, change=statuses.released(view.now))


def follow_activity(view: FamilyView) -> Iterator[FamilyStep]:
    """Activate the variants that may still improve on the admitted one; deactivate others (E-172).

    While no variant is admitted, all of them are active.
    """
    for variant in view.variants:
        if variant.metadata.deletion_timestamp or is_finished(variant.status):
            continue
        active, why = _is_wanted(view, variant)
        if variant.spec.active and not active:
            yield _set_active(variant, why, active=False)
        elif active and not variant.spec.active and not _is_rejected(variant):
            yield _set_active(variant, why, active=True)


def admit_parent(view: FamilyView) -> Iterator[FamilyStep]:
    """Show the admission of a variant on the parent, which starts the job.

    Nodes of a topology may change while the job runs.
    """
    parent, variant, source = view.parent, view.startable, view.source
    if not is_parent(parent):
        return
    if source is not None and source.status.admission not in (None, parent.status.admission):
        yield PatchStatus(workload=parent, change=statuses.placed_like(source))
    elif variant is not None and not has_quota(parent.status) and parent.spec.active:
        change = statuses.admitted_with(variant, view.now, waits_for_pods=view.waits_for_pods)
        yield PatchStatus(workload=parent, change=change)


def follow_pods(view: FamilyView) -> Iterator[FamilyStep]:
    """Copy readiness and reclaimable pods of the job from the parent to its variant."""
    source = view.source
    if source is not None and is_parent(view.parent):
        change = statuses.with_pods_of(view.parent)
        if change(source) != source.status:
            yield PatchStatus(workload=source, change=change)


RULES: tuple[Rule, ...] = (
    mark_parent,
    release_deleted,
    delete_stale,
    create_missing,
    follow_spec,
    # A job stops before its variant loses the quota, and before another variant may start it.
    follow_evictions,
    follow_activity,
    admit_parent,
    follow_pods,
)


def _finish_all(view: FamilyView) -> Iterator[FamilyStep]:
    finished = find(view.parent.status, WorkloadCondition.FINISHED)
    for variant in view.variants:
        if variant.metadata.deletion_timestamp:
            yield from _release(variant)
        elif finished is not None and not is_finished(variant.status):
            yield PatchStatus(workload=variant, change=statuses.finished(finished, view.now))


def _open_gate(view: FamilyView) -> FamilyPlan:
    """Let one variant at a time preempt: the most preferred one that needs it (E-173)."""
    waiting = [v for v in view.variants if _is_admissible(v)]
    candidate = _next_to_preempt(waiting)
    if candidate is None:
        return FamilyPlan()
    opened = [at for at in map(_opened_at, waiting) if at is not None]
    left = (max(opened) + PREEMPTION_PERIOD - view.now).total_seconds() if opened else 0.0
    if left > 0:
        return FamilyPlan(requeue_after=left)
    step = PatchStatus(
        workload=candidate,
        change=statuses.ungated(view.now),
        reason="PreemptionUngatedVariant",
        message=f'Opened preemption gate for variant workload "{candidate.metadata.key}"',
    )
    return FamilyPlan(steps=(step,), requeue_after=PREEMPTION_PERIOD.total_seconds())


def _next_to_preempt(waiting: Sequence[Workload]) -> Workload | None:
    for variant in waiting:
        if _opened_at(variant) is not None:
            continue
        blocked = find(variant.status, WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES)
        if blocked is not None and blocked.status == "True":
            return variant
        reserved = find(variant.status, WorkloadCondition.QUOTA_RESERVED)
        if reserved is None or reserved.reason == Reason.PENDING_EVALUATION:
            return None  # it may turn out to fit, or to be the one that preempts
    return None


def _opened_at(variant: Workload) -> datetime | None:
    for gate in variant.status.preemption_gates:
        if gate.name == names.VARIANT_GATE and gate.position == OPEN:
            return parse_time(gate.last_transition_time)
    return None


def _is_admissible(variant: Workload) -> bool:
    return (
        variant.spec.active
        and not has_quota(variant.status)
        and not is_finished(variant.status)
        and not variant.metadata.deletion_timestamp
    )


def _is_wanted(view: FamilyView, variant: Workload) -> tuple[bool, str]:
    parent, admitted = view.parent, view.admitted
    if not parent.spec.active:
        return False, f'Parent Workload "{parent.metadata.key}" not active'
    if admitted is None:
        return True, "no other Variant being admitted"
    if variant is admitted:
        return variant.spec.active, ""
    other = admitted.metadata.key
    if view.mode == RETAIN:
        return False, f'RetainFirstAdmission: another Variant "{other}" is admitted'
    own = view.rank(variant_flavor(variant))
    if own > view.rank(variant_flavor(admitted)):
        return False, f'being lower priority than admitted Variant "{other}"'
    if view.last_acceptable and own > view.rank(view.last_acceptable):
        last = view.last_acceptable
        why = f'being below lastAcceptableFlavor: "{last}" and another Variant admitted "{other}"'
        return False, why
    return True, f'being higher priority than admitted Variant "{other}"'


def _is_rejected(variant: Workload) -> bool:
    """Whether the variant was deactivated for a cause of its own, such as a rejected check."""
    return (eviction_reason(variant.status) or "").startswith(DEACTIVATED_DUE_TO)


def _set_active(variant: Workload, why: str, *, active: bool) -> PatchObject:
    verb = "activated" if active else "deactivated"
    return PatchObject(
        workload=variant,
        patch={"spec": {"active": active}},
        reason=f"{verb.capitalize()}Variant",
        message=f"Variant Workload {verb} due to {why}",
    )


def _is_alike(variant: Workload, parent: Workload) -> bool:
    same_queue = variant.spec.queue_name == parent.spec.queue_name
    return same_queue and variant.spec.pod_sets == parent.spec.pod_sets


def _release(variant: Workload) -> Iterator[FamilyStep]:
    if names.RESOURCE_IN_USE in variant.metadata.finalizers:
        yield ReleaseVariant(variant=variant)
