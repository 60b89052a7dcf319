"""What the searches for victims leave out or remember does not change what they find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.drs import Share, is_borrowing, share_of
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.engine.preemption.candidates import Order, order_of
from multiqueue.engine.preemption.fair import find_fair_candidates, in_use
from multiqueue.engine.preemption.fair_ranking import Ranking
from multiqueue.engine.preemption.room import fits, fits_in_use
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.engine.queues.entry import Entry, micros
from multiqueue.model.cluster_queue import PreemptionPolicy
from tests.preemption_world import ANY, LOWER, NEVER, Holdings
from tests.properties.test_preemption_properties import Case, cases

CROWDED = cases(cohorts=("root", "root", "left"), flavors="x", fewest=11)

# -------------------------------------------------------------------- the classical search, plainly


class PlainSearch:
    """Takes every candidate of every attempt, one after another (E-86 to E-95)."""

    def __init__(self, world: Holdings, request: PreemptionRequest) -> None:
        self.world = world
        self.request = request
        self.policies = request.queue.spec.preemption
        self.needed = request.needed()

    def find(self) -> list[tuple[Entry, Reason]]:
        candidates = self.candidates()
        for may_borrow in self.attempts(candidates):
            found = self.attempt(candidates, may_borrow=may_borrow)
            if found:
                return found
        return []

    def candidates(self) -> list[tuple[Entry, str, QuotaNode | None]]:
        """Everybody with a class (H, P or S) and the lowest common cohort, in order (E-91)."""
        own = self.request.queue.name
        found: list[tuple[Entry, str, QuotaNode | None]] = []
        for entry in self.world.held.values():
            if self.needed.isdisjoint(entry.usage):
                continue
            if entry.charged == own:
                if self.allows(self.policies.within_cluster_queue, entry):
                    found.append((entry, "S", None))
            elif self.allows(self.policies.reclaim_within_cohort, entry):
                found += self.classify(entry)
        return sorted(found, key=lambda c: (order_of(c[0])[0], "HPS".index(c[1]), order_of(c[0])))

    def allows(self, policy: PreemptionPolicy, entry: Entry) -> bool:
        ours, theirs = self.request.workload, entry.workload
        if policy in {ANY, NEVER}:
            return policy is ANY
        if ours.priority != theirs.priority or policy is LOWER:
            return ours.priority > theirs.priority
        return micros(ours.queue_order_at) < micros(theirs.queue_order_at)

    def classify(self, entry: Entry) -> Iterator[tuple[Entry, str, QuotaNode]]:
        queue = self.request.tree.queues[entry.charged]
        remaining = dict(self.request.usage)
        node: QuotaNode | None = self.request.queue.node
        by_right = False
        while node is not None and node.parent is not None:
            quotas = {slot: node.subtree_quota[slot] - node.usage[slot] for slot in remaining}
            by_right |= all(quotas[slot] >= amount for slot, amount in remaining.items())
            remaining = {
                node.up[slot]: max(0, amount - max(0, node.local_quota[slot] - node.usage[slot]))
                for slot, amount in remaining.items()
            }
            node = node.parent
            if node in path(queue.node):
                if queue.is_active and self.borrows(queue.node, node):
                    yield entry, "H" if by_right else "P", node
                return

    def borrows(self, node: QuotaNode, below: QuotaNode) -> bool:
        """Whether a queue, and everything between it and a cohort, uses more than its quota."""
        for above in path(node)[: path(node).index(below)]:
            slots = [above.slot_by_flavor_resource.get(pair) for pair in self.needed]
            known = [slot for slot in slots if slot is not None]
            if all(above.usage[slot] <= above.subtree_quota[slot] for slot in known):
                return False
        return True

    def attempts(self, candidates: list[tuple[Entry, str, QuotaNode | None]]) -> list[bool]:
        classes = {kind for _, kind, _ in candidates}
        node = self.request.queue.node
        slots = self.request.contested
        if classes <= {"S"}:
            return [True]
        if self.policies.borrow_within_cohort is NEVER:
            if any(node.usage[slot] >= node.nominal[slot] for slot in slots):
                return [True]
            if "H" not in classes:
                return [False, True]
        return [True, False]

    def attempt(
        self, candidates: list[tuple[Entry, str, QuotaNode | None]], *, may_borrow: bool
    ) -> list[tuple[Entry, Reason]]:
        taken: list[tuple[Entry, Reason]] = []
        for entry, kind, common in candidates:
            reason = self.reason(entry, kind)
            if may_borrow and kind == "P" and reason is Reason.IN_COHORT_RECLAMATION:
                continue
            with without(self.request.tree, [other for other, _ in taken]):
                node = self.request.tree.queues[entry.charged].node
                if common is not None and not self.borrows(node, common):
                    continue
            taken.append((entry, reason))
            if self.fits(taken, may_borrow=may_borrow):
                return self.spare(taken, may_borrow=may_borrow)
        return []

    def reason(self, entry: Entry, kind: str) -> Reason:
        if kind == "S":
            return Reason.IN_CLUSTER_QUEUE
        limit = self.policies.borrow_max_priority_threshold
        priority = entry.workload.priority
        if kind == "H" or self.policies.borrow_within_cohort is NEVER:
            return Reason.IN_COHORT_RECLAMATION
        if priority >= self.request.workload.priority or (limit is not None and priority > limit):
            return Reason.IN_COHORT_RECLAMATION
        return Reason.IN_COHORT_RECLAIM_WHILE_BORROWING

    def fits(self, taken: list[tuple[Entry, Reason]], *, may_borrow: bool) -> bool:
        with without(self.request.tree, [entry for entry, _ in taken]):
            return fits(self.request, may_borrow=may_borrow)

    def spare(
        self, taken: list[tuple[Entry, Reason]], *, may_borrow: bool
    ) -> list[tuple[Entry, Reason]]:
        for index in range(len(taken) - 2, -1, -1):
            fewer = [*taken]
            fewer[index] = fewer[-1]
            fewer.pop()
            if self.fits([*taken[:index], *taken[index + 1 :]], may_borrow=may_borrow):
                taken = fewer
        return taken


def path(node: QuotaNode) -> list[QuotaNode]:
    """The node and everything above it, upwards."""
    found = [node]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


@given(cases() | CROWDED)
@settings(deadline=None, max_examples=150)
def test_the_classical_search_finds_whom_a_plain_one_finds(case: Case) -> None:
    world = replace(case, sharing=None).world()
    request = case.request(world)
    assume(not fits(request, may_borrow=True))

    got = [(target.entry, target.reason) for target in world.find(request)]

    assert got == PlainSearch(world, request).find()


# -------------------------------------------------------------------- shares


@given(cases(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_a_share_is_always_that_of_the_usage_of_the_moment(case: Case, random: object) -> None:
    world = case.world()
    tree = case.request(world).tree
    nodes = [*tree.cohorts.values(), *(queue.node for queue in tree.queues.values())]
    holders = [entry for entry in world.held.values() if entry.charged in tree.queues]
    random.shuffle(holders)

    for leaving in range(len(holders)):
        with without(tree, holders[:leaving]):
            assert [share_of(node) for node in nodes] == [computed(node) for node in nodes]
    assert [share_of(node) for node in nodes] == [computed(node) for node in nodes]


def computed(node: QuotaNode) -> Share:
    """The share with nothing more used, which no memo knows."""
    return share_of(node, {0: 0})


@given(cases())
@settings(deadline=None, max_examples=60)
def test_what_fits_fits_also_where_it_is_counted_already(case: Case) -> None:
    world = case.world()
    request = case.request(world)
    would_fit = fits(request, may_borrow=True)

    with in_use(request):
        assert fits_in_use(request) == would_fit


@given(CROWDED, st.data())
@settings(deadline=None, max_examples=60)
def test_the_queue_that_comes_next_is_the_largest_of_all(case: Case, data: st.DataObject) -> None:
    world = case.world()
    world.options = EngineOptions(fair_sharing=FairSharing())
    request = case.request(world)
    found = find_fair_candidates(request, world.context(), request.needed())
    left = {name: list(eligible.candidates) for name, eligible in found.items()}
    root = path(request.queue.node)[-1]
    leaving: list[Entry] = []

    with in_use(request), without(request.tree, leaving) as simulation:
        ranking = Ranking(request, left)
        for queue in ranking:
            assert queue is next_queue(request, left, root)
            if data.draw(st.booleans()):
                left[queue.name].clear()
                ranking.drop(queue)
            else:
                candidate = left[queue.name].pop(0)
                assert ranking.take(queue) is candidate
                simulation.remove(candidate.entry)
        assert next_queue(request, left, root) is None


def next_queue(
    request: PreemptionRequest, left: dict[str, list], cohort: QuotaNode
) -> CachedQueue | None:
    """The queue below a cohort to take from, among all that are there at the moment (E-98)."""
    own = request.queue
    queues = [
        q for q in request.tree.queues.values() if q.node.parent is cohort and left.get(q.name)
    ]
    queues = [q for q in queues if q is own or is_borrowing(q.node)]
    children = [n for n in request.tree.cohorts.values() if n.parent is cohort]
    children = [n for n in children if n in path(own.node) or is_borrowing(n)]
    children = [n for n in children if next_queue(request, left, n) is not None]

    def first(queue: CachedQueue) -> tuple[Share, bool, bool, Order]:
        order = left[queue.name][0].order
        return order[0], queue is own, order

    queues.sort(key=first)
    queues.sort(key=lambda q: computed(q.node), reverse=True)
    children.sort(key=lambda n: n.name)
    children.sort(key=computed, reverse=True)
    if children and (not queues or computed(children[0]) >= computed(queues[0].node)):
        return next_queue(request, left, children[0])
    return queues[0] if queues else None
