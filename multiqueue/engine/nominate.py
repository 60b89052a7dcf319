"""Judge one head at the current state (E-40 to E-43); changes nothing."""

from __future__ import annotations

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assigner import assign_flavors
from multiqueue.engine.flavors.assignment import Assignment, Mode, ResumeState
from multiqueue.engine.flavors.flavor_search import FlavorSearch
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.nomination import Nominated, Rejected, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import RequeueReason
from multiqueue.model.workload import Workload

_FAILED = frozenset({CheckState.RETRY, CheckState.REJECTED})


def judge(
    workload: Workload,
    queue: CachedQueue,
    resume: ResumeState | None,
    *,
    cache: Cache,
    oracle: Oracle,
    options: EngineOptions,
) -> Verdict:
    """Return why the head cannot be looked at, or the flavors that it would get now."""
    rejected = reject(workload, queue, cache)
    if rejected is not None:
        return rejected
    version = cache.tree_by_queue[queue.name].version
    search = FlavorSearch(
        queue=queue,
        workload=workload,
        flavors=cache.flavors,
        rooms=queue.room_memo(version),
        oracle=oracle,
    )

    ignore_undeclared = options.ignore_undeclared
    full = assign_flavors(search, resume, ignore_undeclared=ignore_undeclared)
    if full.mode is Mode.FIT or not (options.partial_admission and workload.may_shrink):
        return Nominated(assignment=full)

    def assign_reduced(counts: list[int]) -> Assignment | None:
        found = assign_flavors(search, resume, counts=counts, ignore_undeclared=ignore_undeclared)
        return found if found.mode is Mode.FIT else None

    reduced = find_reduced(workload.pod_sets, assign_reduced)
    return Nominated(assignment=reduced or full)


def reject(workload: Workload, queue: CachedQueue, cache: Cache) -> Rejected | None:
    """Return what makes looking for flavors pointless; None where nothing does (E-10, E-40)."""
    if workload.checks and not _FAILED.isdisjoint(workload.checks.values()):
        return Rejected(
            requeue_reason=RequeueReason.GENERIC,
            reason=Reason.PENDING_EVALUATION,
            note="The workload has failed admission checks",
        )
    labels = cache.namespaces.get(workload.namespace)
    if labels is None:
        return Rejected(
            requeue_reason=RequeueReason.NAMESPACE_MISMATCH,
            reason=Reason.MISCONFIGURED,
            note=f'Could not obtain workload namespace: namespace "{workload.namespace}" not found',
        )
    if not queue.selector.matches(labels):
        return Rejected(
            requeue_reason=RequeueReason.NAMESPACE_MISMATCH,
            reason=Reason.MISCONFIGURED,
            note="Workload namespace doesn't match ClusterQueue selector",
        )
    if workload.problems:
        return Rejected(
            requeue_reason=RequeueReason.GENERIC,
            reason=Reason.MISCONFIGURED,
            note="; ".join(workload.problems),
        )
    return None


def is_resume_outdated(
    resume: ResumeState, workload: Workload, queue: CachedQueue, cycle: int
) -> bool:
    """Whether the search for flavors has to begin anew (E-41)."""
    if resume.shape != workload.shape:
        return True
    if resume.cycle >= cycle - 1:
        return False
    return queue.generation > resume.generation
