"""Variants of one job that are tried at the same time on different flavors (E-67, E-82, E-170).

The order of the flavors in the ClusterQueue says which variant is better. A better one that fits
takes over from an admitted one: the admitted one leaves first, like the victim of a preemption.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated, Rejected
from multiqueue.engine.pending_reasons import SEVERITY, Explanation
from multiqueue.engine.plan import RequeueReason
from multiqueue.engine.preemption.target import Target
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.model.workload import Workload


def refuse_variant(
    workload: Workload, queue: CachedQueue, quota_usage: QuotaUsage
) -> Rejected | None:
    """Return a refusal if a better variant of the same job is admitted (E-67).

    Also if another one is admitted, and the flavor is not good enough to move there (E-82).
    """
    if not workload.family:
        return None
    own = flavor_rank(workload, queue)
    admitted = list(_admitted_siblings(workload, queue, quota_usage))
    if any(flavor_rank(entry.workload, queue) < own for entry in admitted):
        return _waits("A more favorable variant is already admitted")
    policy = queue.spec.concurrent
    last = policy.last_acceptable if policy is not None else ""
    if admitted and last and own > _rank_of(last, queue):
        return _waits(f'Target flavor is below lastAcceptableFlavorName "{last}"')
    return None


def migrate(
    verdict: Nominated, workload: Workload, queue: CachedQueue, quota_usage: QuotaUsage
) -> Nominated:
    """Let an admitted variant on a worse flavor leave first, if this one fits (E-82)."""
    if not workload.family or verdict.assignment.mode is not Mode.FIT:
        return verdict
    targets = tuple(
        Target(entry, Reason.FLAVOR_MIGRATION)
        for entry in _admitted_siblings(workload, queue, quota_usage)
    )
    if not targets:
        return verdict
    return replace(
        verdict, assignment=replace(verdict.assignment, mode=Mode.PREEMPT), targets=targets
    )


def is_migration(verdict: Nominated) -> bool:
    """Whether only variants of the same job leave; preemption gates do not matter then."""
    return bool(verdict.targets) and all(
        target.reason is Reason.FLAVOR_MIGRATION for target in verdict.targets
    )


def explain_parent(parent: Workload, queue: CachedQueue, quota_usage: QuotaUsage) -> Explanation:
    """Return why a parent waits: the reasons of its variants, by flavor."""
    variants = sorted(
        quota_usage.families.get(parent.uid, {}).values(),
        key=lambda entry: (flavor_rank(entry.workload, queue), entry.key),
    )
    told, reasons = [], []
    for entry in variants:
        flavor = flavor_of(entry.workload)
        if entry.place is QueuePlace.HOLDING:
            told.append(f"{flavor}: quota reserved, not admitted yet")
            reasons.append(Reason.PENDING_EVALUATION)
        elif not entry.workload.active:
            told.append(f"{flavor}: deactivated")
        elif entry.explanation is not None:
            told.append(f"{flavor}: {entry.explanation.message}")
            reasons.append(entry.explanation.reason)
    cause = min(reasons, key=lambda r: SEVERITY.get(r, -1), default=Reason.PENDING_EVALUATION)
    return Explanation(
        workload=parent.key,
        cluster_queue=queue.name,
        cause=cause,
        note="; ".join(told) or "The workload's variants have not been evaluated yet",
    )


def flavor_of(workload: Workload) -> str:
    """Return the flavor of a variant, "" if it has none."""
    return next(iter(workload.allowed_flavors or ()), "")


def flavor_rank(workload: Workload, queue: CachedQueue) -> int:
    """Return the place of a variant's flavor in its ClusterQueue; unknown ones come last."""
    return _rank_of(flavor_of(workload), queue)


def _rank_of(flavor: str, queue: CachedQueue) -> int:
    flavors = list(queue.flavors())
    return flavors.index(flavor) if flavor in flavors else len(flavors)


def _admitted_siblings(
    workload: Workload, queue: CachedQueue, quota_usage: QuotaUsage
) -> Iterator[Entry]:
    for key, entry in sorted(quota_usage.families.get(workload.family, {}).items()):
        if key != workload.key and entry.admitted and entry.charged == queue.name:
            yield entry


def _waits(note: str) -> Rejected:
    return Rejected(
        requeue_reason=RequeueReason.GENERIC, reason=Reason.PENDING_EVALUATION, note=note
    )
