"""Judge one head at the current state (E-40 to E-43, E-70); changes nothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial

from msgspec.structs import replace

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.alternatives import JudgedAlternative, as_nominated, choose_way, list_ways
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assigner import assign_flavors
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.flavors.delayed_topology import delayed_flavors
from multiqueue.engine.flavors.flavor_search import FlavorSearch
from multiqueue.engine.flavors.oracle import Oracle, PreemptionOracle, no_candidates
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.flavors.replaced_slice import replaced_slice
from multiqueue.engine.flavors.topology_phase import TopologyPhase
from multiqueue.engine.nomination import Nominated, Rejected, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import RequeueReason
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.search import find_targets, may_preempt
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.engine.successor_slice import refuse_slice
from multiqueue.engine.value import Value
from multiqueue.engine.variants import migrate, refuse_variant
from multiqueue.engine.world import EngineParts, Head
from multiqueue.model.resource_flavor import Topology
from multiqueue.model.workload import Workload

_DEFAULTS = EngineOptions()
_FAILED = frozenset({CheckState.RETRY, CheckState.REJECTED})


def judge(
    world: EngineParts, workload: Workload, queue: CachedQueue, resume: ResumeState | None
) -> Verdict:
    """Return why the head cannot be tried, or the flavors that it would get now."""
    world.disruption.refusals.clear()
    verdict = _judge_ways(world, workload, queue, resume)
    return _with_held_back(world, verdict) if isinstance(verdict, Nominated) else verdict


def _with_held_back(world: EngineParts, found: Nominated) -> Nominated:
    """Add why DisruptionPolicies leave a verdict without targets, if they do."""
    if found.assignment.mode is not Mode.PREEMPT or found.targets:
        return found
    held_back = world.disruption.refusals.sum_up()
    return found if held_back is None else replace(found, held_back=held_back)


def _judge_ways(
    world: EngineParts, workload: Workload, queue: CachedQueue, resume: ResumeState | None
) -> Verdict:
    ways = list_ways(workload, queue, world.cache.flavors)
    if not ways:
        verdict = _judge(world, JudgedAlternative(workload), queue, resume)
    else:
        policy = queue.spec.fungibility
        verdict = choose_way(ways, lambda way: _judge(world, way, queue, None), policy)
    if isinstance(verdict, Rejected):
        return verdict
    return migrate(verdict, workload, queue, world.quota_usage)


def _judge(
    world: EngineParts, way: JudgedAlternative, queue: CachedQueue, resume: ResumeState | None
) -> Verdict:
    workload = way.workload
    rejected = reject(workload, queue, world.cache) or refuse_variant(
        workload, queue, world.quota_usage
    )
    if rejected is not None:
        return rejected
    remote = world.fleet.search(workload, queue.remote_check)
    impossible = None if remote is None else remote.why_never()
    if impossible is not None:
        reason, words = impossible.reason, impossible.words
        return Rejected(requeue_reason=RequeueReason.NO_CLUSTER, reason=reason, note=words)
    tree = world.cache.tree_by_queue[queue.name]
    replaced = world.quota_usage.find_replaced(workload, queue.name)
    if replaced is not None and (refusal := refuse_slice(world, workload, replaced)) is not None:
        return refusal
    context = _context(world, {}, replaced)
    oracle: Oracle = no_candidates
    if may_preempt(queue):
        trees = world.cache.tree_by_queue
        oracle = world.oracle if replaced is None else PreemptionOracle(trees, context)
    search = FlavorSearch(
        queue=queue,
        workload=workload,
        remote=remote,
        replaced=None if replaced is None else replaced_slice(replaced),
        flavors=world.cache.flavors,
        rooms=queue.room_memo(tree.version),
        oracle=oracle,
        nominated=way.flavors,
        is_fair=world.options.fair_sharing is not None,
        topologies=_topologies(world, queue),
        is_fungible=world.options.fungibility,
    )
    attempts = Attempts(
        search=search,
        tree=tree,
        context=context,
        options=world.options,
        phase=_phase(world, workload, queue),
    )
    found = _choose(attempts, resume)
    return found if replaced is None else replace(found, replaced=replaced.key)


def look_again(
    world: EngineParts,
    head: Head,
    first: Nominated,
    preempted: Mapping[str, Entry],
    state: Hashable,
) -> Nominated:
    """Search for other targets; reuse the last result if the cycle was the same so far.

    A head that waits for its victims comes here in every cycle until they have left.
    """
    again = head.again.get(state)
    if again is None:
        head.again.clear()
        world.disruption.refusals.clear()
        again = judge_again(world, head.entry.workload, head.queue, first, preempted)
        again = _with_held_back(world, again)
        head.again[state] = again
    return again


def judge_again(
    world: EngineParts,
    workload: Workload,
    queue: CachedQueue,
    first: Nominated,
    preempted: Mapping[str, Entry],
) -> Nominated:
    """Search for other targets, as if the victims of this cycle were already gone (E-70).

    Only the flavors of the first nomination are tried, from the beginning; all if it has none. A
    result without targets fits only after the victims of others have left; if there are none, it
    fits on other nodes.
    """
    workload = as_nominated(workload, first.assignment)
    tree = world.cache.tree_by_queue[queue.name]
    replaced = world.quota_usage.find_replaced(workload, queue.name)
    context = _context(world, preempted, replaced)
    search = FlavorSearch(
        queue=queue,
        workload=workload,
        replaced=None if replaced is None else replaced_slice(replaced),
        remote=world.fleet.search(workload, queue.remote_check),
        flavors=world.cache.flavors,
        rooms={},
        oracle=PreemptionOracle(world.cache.tree_by_queue, context),
        nominated=first.assignment.flavors() or None,
        is_fair=world.options.fair_sharing is not None,
        topologies=_topologies(world, queue),
        is_fungible=world.options.fungibility,
    )
    attempts = Attempts(
        search=search,
        tree=tree,
        context=context,
        options=world.options,
        phase=_phase(world, workload, queue),
    )
    with without(tree, preempted.values()):
        again = replace(_choose(attempts, None), replaced=first.replaced)
    if not preempted:
        again = migrate(again, workload, queue, world.quota_usage)
    if again.assignment.mode is not Mode.FIT or not preempted:
        return again
    deferred = replace(again.assignment, mode=Mode.DEFERRED_FIT)
    return Nominated(assignment=deferred, replaced=first.replaced)


def _context(
    world: EngineParts, preempted: Mapping[str, Entry], replaced: Entry | None
) -> SearchContext:
    """Return who may be preempted: neither the victims of this cycle nor the replaced slice."""
    if not preempted and replaced is None:
        return world.context
    own = frozenset((replaced.key,) if replaced is not None else ())
    return replace(world.context, excluded=frozenset(preempted) | own)


class Attempts(Value, frozen=True, kw_only=True, gc=False):
    """What stays the same in all attempts to find room for one workload.

    Shape: ``phase`` is None if no workload can request a topology.
    """

    search: FlavorSearch
    tree: Tree
    context: SearchContext
    options: EngineOptions
    phase: TopologyPhase | None = None

    def attempt(self, resume: ResumeState | None, counts: list[int] | None) -> Nominated:
        """Choose flavors, domains and targets for these pod counts; None means all pods."""
        options, phase, latest = self.options, self.phase, self.context.latest
        latest.clear()
        assignment = assign_flavors(
            self.search, resume, counts=counts, ignore_undeclared=options.ignore_undeclared
        )
        if phase is not None:
            assignment = phase.apply(assignment)
        if assignment.mode is not Mode.PREEMPT or not may_preempt(self.search.queue):
            return Nominated(assignment=assignment)
        asks = phase is not None and phase.asks(assignment)
        request = PreemptionRequest(
            tree=self.tree,
            queue=self.search.queue,
            workload=self.search.workload,
            usage=assignment.usage,
            contested=assignment.contested(),
            is_placeable=partial(phase.is_placeable, assignment) if phase and asks else None,
        )
        targets = latest.recall(request)
        if targets is None:
            targets = find_targets(request, self.context)
        return Nominated(assignment=assignment, targets=tuple(targets))

    def touch_up(self, found: Nominated) -> Nominated:
        """Find nodes to reserve for a workload that waits for others to leave (E-44)."""
        if self.phase is None or found.assignment.mode is not Mode.PREEMPT:
            return found
        with without(self.tree, (target.entry for target in found.targets)):
            assignment = self.phase.touch_up(found.assignment, empty=not found.targets)
        return replace(found, assignment=assignment)


def _choose(attempts: Attempts, resume: ResumeState | None) -> Nominated:
    """Choose flavors and targets for all pods, or else for fewer pods (E-43)."""
    full = attempts.attempt(resume, None)
    workload = attempts.search.workload
    if not (attempts.options.partial_admission and workload.may_shrink) or _would_do(full):
        return attempts.touch_up(full)

    def attempt_reduced(counts: list[int]) -> Nominated | None:
        found = attempts.attempt(resume, counts)
        return found if _would_do(found) else None

    return attempts.touch_up(find_reduced(workload.pod_sets, attempt_reduced) or full)


def _phase(world: EngineParts, workload: Workload, queue: CachedQueue) -> TopologyPhase | None:
    if not queue.has_topologies or world.options.topology is None:
        return None
    return TopologyPhase(
        forest=world.cache.forest,
        flavors=world.cache.flavors,
        implied=queue.has_only_topologies,
        delayed=delayed_flavors(queue, world.cache.checks, workload),
    )


def _topologies(world: EngineParts, queue: CachedQueue) -> Mapping[str, Topology] | None:
    return None if queue.remote_check else world.cache.topologies


def _would_do(nominated: Nominated) -> bool:
    return nominated.assignment.mode is Mode.FIT or bool(nominated.targets)


def reject(workload: Workload, queue: CachedQueue, cache: Cache) -> Rejected | None:
    """Return why no flavors need to be searched; None if they do (E-10, E-40)."""
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
            note="workload namespace doesn't match ClusterQueue selector",
        )
    if workload.problems:
        return Rejected(
            requeue_reason=RequeueReason.GENERIC,
            reason=Reason.MISCONFIGURED,
            note="; ".join(workload.problems),
        )
    return None


def is_resume_outdated(
    resume: ResumeState,
    workload: Workload,
    queue: CachedQueue,
    cycle: int,
    options: EngineOptions = _DEFAULTS,
) -> bool:
    """Whether the search for flavors has to start over (E-41, E-52)."""
    if not options.fungibility:
        return True
    if options.keep_scan_progress:
        if options.park_equals and resume.shape != workload.shape:
            return True
        if resume.cycle >= cycle - 1:
            return False
    return queue.generation > resume.generation
