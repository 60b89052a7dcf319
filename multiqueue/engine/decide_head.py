"""Decide on one head after another, at the usage that earlier heads left (E-69 to E-84)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assignment import Assignment, Mode
from multiqueue.engine.keeping_room import keep_claim, make_claim, usage_by_name
from multiqueue.engine.nominate import look_again
from multiqueue.engine.nomination import Nominated, Rejected
from multiqueue.engine.pending_reasons import Explanation, HeldBack, ShareLoss
from multiqueue.engine.plan import (
    Admit,
    HeadDecision,
    Preempt,
    PreemptedWorkload,
    Requeue,
    RequeueReason,
    Skip,
    SkipReason,
)
from multiqueue.engine.preemption.fair import find_share_loss
from multiqueue.engine.preemption.target import PreemptionRequest, Target, preemption_message
from multiqueue.engine.preemption_limit import limit_preemption
from multiqueue.engine.queues.entry import Entry, as_admitted
from multiqueue.engine.requeue import hold_back, resume_state, returns_at_once
from multiqueue.engine.variants import is_migration
from multiqueue.engine.waiting_instead import wait_instead
from multiqueue.engine.world import Course, EngineParts, Head
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import PreemptionPolicy

_DEFERRED = "Workload fits once the workloads that other workloads preempt have left"


def reconsider(world: EngineParts, course: Course, head: Head) -> Head:
    """Judge a head again if earlier heads preempt its targets or took its nodes (E-70).

    It is also judged again if they may have used up a budget for its targets (P-37).
    """
    verdict = head.verdict
    if not isinstance(verdict, Nominated):
        return head
    preempted: Mapping[str, Entry] = {}
    if has_overlap(course, verdict):
        if not world.options.recompute_overlap:
            return head
        preempted = course.preempted
    elif course.preempted and _needs_budgets(world, verdict):
        preempted = course.preempted
    elif not (_recomputes(world) and _lost_its_nodes(course, head.queue, verdict)):
        return head
    course.reservations.make()
    again = look_again(world, head, verdict, preempted, course.state())
    return replace(head, verdict=limit_preemption(again, head.entry, course.tree))


def has_overlap(course: Course, verdict: Nominated) -> bool:
    """Whether a target already leaves for an earlier head."""
    return any(target.entry.key in course.preempted for target in verdict.targets)


def _needs_budgets(world: EngineParts, verdict: Nominated) -> bool:
    """Whether a budget of a DisruptionPolicy counts one of its targets."""
    governance = world.disruption.governance
    return any(
        governance.of_queue(target.entry.charged).budgets
        for target in verdict.targets
        if target.reason is not Reason.FLAVOR_MIGRATION and not target.entry.is_leaving
    )


def _recomputes(world: EngineParts) -> bool:
    return world.options.topology is not None and world.options.topology.recompute


def _lost_its_nodes(course: Course, queue: CachedQueue, verdict: Nominated) -> bool:
    """Whether the verdict fails only because its nodes were taken; others may be free."""
    assignment, tree = verdict.assignment, course.tree
    would_do = assignment.mode is Mode.FIT or verdict.targets
    if not assignment.placed or not would_do:
        return False
    course.reservations.make()
    with course.without_victims(verdict.targets):
        return is_free(queue, assignment.usage) and not tree.forest.fits(assignment.placed)


def process(world: EngineParts, course: Course, head: Head, now: datetime) -> HeadDecision:
    """Decide on one head; what it gets or reserves counts for the heads after it."""
    verdict = head.verdict
    if isinstance(verdict, Rejected):
        return refuse(head, verdict.requeue_reason, cause=verdict.reason, note=verdict.note)
    assignment, queue = verdict.assignment, head.queue
    if assignment.mode is Mode.NO_FIT:
        promise = make_claim(world, course, head, assignment, None)
        return refuse(head, RequeueReason.NO_FIT, held_back=promise)  # E-72
    if assignment.mode is Mode.PREEMPT and not verdict.targets:
        return _refuse_preemption(world, course, head, assignment)
    if assignment.mode is Mode.PREEMPT and not is_migration(verdict) and is_gated(world, head):
        return _gate(head)
    course.reservations.make()
    if assignment.mode is Mode.DEFERRED_FIT:
        course.reservations.hold(queue, assignment)
        course.served.append((head, assignment))
        return _defer(head)
    if reason := _find_obstacle(world, course, head, verdict):
        taken_by = course.served_before(head, assignment)
        skip = _skip(head, reason, Reason.WAITING_FOR_QUOTA, taken_by)
        return replace(skip, preempts=assignment.mode is Mode.PREEMPT)
    refusal = (
        limit_non_preemptible(world, head, verdict)
        or keep_claim(world, course, head, verdict)
        or wait_instead(world, course, head, verdict)
    )
    if refusal is not None:
        return refusal
    if assignment.mode is Mode.PREEMPT:
        course.preempt(verdict.targets)
        course.reservations.hold(queue, assignment)
        course.served.append((head, assignment))
        return _preempt(world, head, verdict)
    if world.options.block_admission and world.quota_usage.unready:
        world.blocked.add(course.tree.key)
        return _skip(head, SkipReason.WAITING_FOR_PODS, Reason.WAITING_FOR_PODS_READY)
    course.served.append((head, assignment))
    return admit(world, head, verdict, now)


def _find_obstacle(
    world: EngineParts, course: Course, head: Head, verdict: Nominated
) -> SkipReason | None:
    """Return why earlier heads prevent its admission (E-76, E-77); None if they do not."""
    queue = head.queue
    if has_overlap(course, verdict) or verdict.replaced in course.preempted:
        return SkipReason.OVERLAPPING_TARGETS
    if verdict.replaced and not world.quota_usage.find_replaced(head.entry.workload, queue.name):
        return SkipReason.NO_LONGER_FITS  # another slice took its place
    return None if fits(course, queue, verdict) else SkipReason.NO_LONGER_FITS


def is_gated(world: EngineParts, head: Head) -> bool:
    """Whether the workload may not preempt yet (E-174)."""
    return world.options.preemption_gates and bool(head.entry.workload.closed_gates)


def _keeps_room(world: EngineParts, head: Head) -> bool:
    """Whether quota is reserved for a head that finds nobody to preempt (E-73)."""
    if head.queue.spec.preemption.reclaim_within_cohort is not PreemptionPolicy.ANY:
        return True
    return world.options.turns.preemptors_first and head.is_preemptor


def fits(course: Course, queue: CachedQueue, verdict: Nominated) -> bool:
    """Whether the usage is free once all victims of this cycle have left (E-69).

    Deviates: an admission of now also has to fit beside victims that have not left yet. Upstream
    lets two heads share room that is enough for one, and exceeds the quota for a while.
    """
    assignment, forest = verdict.assignment, course.tree.forest
    usage, placed = assignment.usage, assignment.placed
    if not course.preempted and not verdict.targets:
        return is_free(queue, usage) and forest.fits(placed)
    with course.without_victims(verdict.targets):
        if not (is_free(queue, usage) and forest.fits(placed)):
            return False
    if assignment.mode is not Mode.FIT:
        return True
    with course.reservations.lifted():
        return is_free(queue, usage) and forest.fits(placed)


def is_free(queue: CachedQueue, usage: Mapping[int, Amount]) -> bool:
    """Whether there is that much room at the current usage, own and borrowed."""
    return all(amount <= max(0, queue.node.available(slot)) for slot, amount in usage.items())


def admit(world: EngineParts, head: Head, verdict: Nominated, now: datetime) -> Admit:
    """Reserve the quota at once; the shell writes the status later (E-83)."""
    entry, queue, assignment = head.entry, head.queue, verdict.assignment
    admission = assignment.admission(queue.name)
    flavors = {name for ps in admission.pod_sets for name in ps.flavors.values()}
    checks = queue.checks_for(flavors) if queue.spec.checks else ()
    states = entry.workload.checks
    is_checked = all(states.get(name) is CheckState.READY for name in checks)
    admitted = is_checked and not assignment.delayed
    world.quota_usage.leave_queue(entry, head.pending)
    world.quota_usage.charge(entry, admission, at=now, admitted=admitted)
    if world.usage is not None and entry.workload.reservation is None:
        world.usage.charge(entry.workload, queue.name)
    entry.assumed = True
    entry.workload = as_admitted(entry.workload)
    entry.resume = entry.memo = entry.explanation = None
    return Admit(
        workload=entry.key,
        cluster_queue=queue.name,
        admission=admission,
        checks=checks,
        admitted=admitted,
        borrowing=assignment.borrowing,
        replaces=verdict.replaced,
        note=world.disruption.non_preemptibles.find_refusal(entry.workload, queue.name),
    )


# -------------------------------------------------------------------- heads that wait


def limit_non_preemptible(world: EngineParts, head: Head, verdict: Nominated) -> Requeue | None:
    """Refuse a head that nobody could stop if its queue has enough of those (P-30)."""
    workload = head.entry.workload
    if not workload.non_preemptible:
        return None
    usage = usage_by_name(head.queue, verdict.assignment)
    words = world.disruption.non_preemptibles.find_excess(workload, head.queue.name, usage)
    return None if words is None else hold_back(head, words)


def refuse(
    head: Head,
    requeue_reason: RequeueReason,
    *,
    cause: Reason | None = None,
    note: str = "",
    share_loss: ShareLoss | None = None,
    held_back: HeldBack | None = None,
) -> Requeue:
    """Refuse a head; without a cause its pod sets give the reason."""
    head.entry.resume = resume_state(head)
    return Requeue(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        requeue_reason=requeue_reason,
        parked=not returns_at_once(head, requeue_reason),
        explanation=replace(
            _explain(head, cause, note), share_loss=share_loss, held_back=held_back
        ),
    )


def _refuse_preemption(
    world: EngineParts, course: Course, head: Head, assignment: Assignment
) -> Requeue:
    """Refuse a head that finds nobody to preempt, and reserve room for it (E-73)."""
    held_back = head.verdict.held_back if isinstance(head.verdict, Nominated) else None
    if _keeps_room(world, head) or held_back is not None:
        course.reservations.ask(head.queue, assignment)
        course.served.append((head, assignment))
    return refuse(
        head,
        RequeueReason.PREEMPTION_NO_CANDIDATES,
        cause=Reason.WAITING_FOR_QUOTA,
        share_loss=None if held_back else _share_loss(world, course, head, assignment),
        held_back=make_claim(world, course, head, assignment, held_back),
    )


def _share_loss(
    world: EngineParts, course: Course, head: Head, assignment: Assignment
) -> ShareLoss | None:
    """Return the shares that prevent preemption; a remembered result stays valid."""
    if world.options.fair_sharing is None:
        return None
    if not head.is_new and head.entry.explanation is not None:
        return head.entry.explanation.share_loss
    request = PreemptionRequest(
        tree=course.tree,
        queue=head.queue,
        workload=head.entry.workload,
        usage=assignment.usage,
        contested=assignment.contested(),
    )
    with course.reservations.lifted():
        return find_share_loss(request, world.context)


def _defer(head: Head) -> Requeue:
    """Let a head wait for the room that the victims of other heads will leave (E-75)."""
    head.entry.resume = None
    cause = Reason.WAITING_FOR_PREEMPTED_WORKLOADS
    return Requeue(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        requeue_reason=RequeueReason.PENDING_PREEMPTION,
        parked=False,
        explanation=_explain(head, cause, _DEFERRED),
    )


def _gate(head: Head) -> Requeue:
    """Let a head wait until all its preemption gates are open (E-74)."""
    head.entry.resume = None
    gates = ", ".join(head.entry.workload.closed_gates)
    note = f"Workload requires preemption, but it's gated by: {gates}"
    reason = RequeueReason.PREEMPTION_GATED
    return Requeue(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        requeue_reason=reason,
        parked=not returns_at_once(head, reason),
        explanation=replace(_explain(head, Reason.WAITING_FOR_QUOTA, note), is_gated=True),
    )


def _preempt(world: EngineParts, head: Head, verdict: Nominated) -> Preempt:
    """Ask the targets to leave, unless they were already asked (E-79, E-80)."""
    head.entry.resume = None
    victims = tuple(_victim(world, head, target) for target in verdict.targets)
    return Preempt(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        victims=victims,
        explanation=_explain(head, Reason.WAITING_FOR_PREEMPTED_WORKLOADS, victims=len(victims)),
    )


def _victim(world: EngineParts, head: Head, target: Target) -> PreemptedWorkload:
    entry, queues = target.entry, world.cache.queues
    message = preemption_message(head.entry.workload, head.queue, target, queues)
    is_new = not entry.is_leaving
    preemptor, queue = head.entry.workload, head.queue.name
    recorded = world.disruption.stop_of(target, queue, preemptor.key) if is_new else None
    notice = world.disruption.notice_end(target, preemptor) if is_new else 0
    return PreemptedWorkload(
        workload=entry.key,
        uid=entry.workload.uid,
        reason=target.reason,
        message=message if recorded is None or notice else f"{message}; {recorded}",
        is_new=is_new,
        stop=None if recorded is None else recorded.stop,
        notice=notice,
    )


def _skip(
    head: Head, skip_reason: SkipReason, cause: Reason, taken_by: tuple[str, ...] = ()
) -> Skip:
    head.entry.resume = resume_state(head)
    return Skip(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        skip_reason=skip_reason,
        explanation=replace(_explain(head, cause, skip_reason), taken_by=taken_by),
    )


def _explain(head: Head, cause: Reason | None, note: str = "", *, victims: int = 0) -> Explanation:
    verdict = head.verdict
    pod_sets = verdict.assignment.explanations() if isinstance(verdict, Nominated) else ()
    return Explanation(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        cause=cause,
        note=note,
        pod_sets=pod_sets,
        victims=victims,
    )
