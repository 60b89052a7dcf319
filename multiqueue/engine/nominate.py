"""Judge one head at the current state (E-40 to E-43, E-70); changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assigner import assign_flavors
from multiqueue.engine.flavors.assignment import Mode, ResumeState
from multiqueue.engine.flavors.flavor_search import FlavorSearch
from multiqueue.engine.flavors.oracle import PreemptionOracle
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.nomination import Nominated, Rejected, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import RequeueReason
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.search import find_targets
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import World
from multiqueue.model.workload import Workload

_FAILED = frozenset({CheckState.RETRY, CheckState.REJECTED})


def judge(
    world: World, workload: Workload, queue: CachedQueue, resume: ResumeState | None
) -> Verdict:
    """Return why the head cannot be looked at, or the flavors that it would get now."""
    rejected = reject(workload, queue, world.cache)
    if rejected is not None:
        return rejected
    tree = world.cache.tree_by_queue[queue.name]
    search = FlavorSearch(
        queue=queue,
        workload=workload,
        flavors=world.cache.flavors,
        rooms=queue.room_memo(tree.version),
        oracle=world.oracle,
        is_fair=world.options.fair_sharing is not None,
    )
    return _choose(search, resume, tree=tree, context=world.context, options=world.options)


def judge_again(
    world: World,
    workload: Workload,
    queue: CachedQueue,
    first: Nominated,
    preempted: Mapping[str, Entry],
) -> Nominated:
    """Look for other targets, as if those that this cycle preempts already were gone (E-70).

    Only the flavors of the first nomination are looked at, from the beginning. What fits now does
    so only when the others' victims have left.
    """
    tree = world.cache.tree_by_queue[queue.name]
    context = replace(world.context, excluded=frozenset(preempted))
    search = FlavorSearch(
        queue=queue,
        workload=workload,
        flavors=world.cache.flavors,
        rooms={},
        oracle=PreemptionOracle(world.cache.tree_by_queue, context),
        nominated=first.assignment.flavors(),
        is_fair=world.options.fair_sharing is not None,
    )
    with without(tree, preempted.values()):
        again = _choose(search, None, tree=tree, context=context, options=world.options)
    if again.assignment.mode is not Mode.FIT:
        return again
    return Nominated(assignment=replace(again.assignment, mode=Mode.DEFERRED_FIT))


def _choose(
    search: FlavorSearch,
    resume: ResumeState | None,
    *,
    tree: Tree,
    context: SearchContext,
    options: EngineOptions,
) -> Nominated:
    """Choose flavors and targets for all pods, or else for fewer (E-43)."""

    def attempt(counts: list[int] | None) -> Nominated:
        assignment = assign_flavors(
            search, resume, counts=counts, ignore_undeclared=options.ignore_undeclared
        )
        if assignment.mode is not Mode.PREEMPT:
            return Nominated(assignment=assignment)
        request = PreemptionRequest(
            tree=tree,
            queue=search.queue,
            workload=search.workload,
            usage=assignment.usage,
            contested=assignment.contested(),
        )
        targets = tuple(find_targets(request, context))
        return Nominated(assignment=assignment, targets=targets)

    full = attempt(None)
    if not (options.partial_admission and search.workload.may_shrink) or _would_do(full):
        return full

    def attempt_reduced(counts: list[int]) -> Nominated | None:
        found = attempt(counts)
        return found if _would_do(found) else None

    return find_reduced(search.workload.pod_sets, attempt_reduced) or full


def _would_do(nominated: Nominated) -> bool:
    return nominated.assignment.mode is Mode.FIT or bool(nominated.targets)


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
