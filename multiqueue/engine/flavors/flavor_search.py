"""Search the flavor of one resource group, in the order of the spec (E-47 to E-54).

The first flavor that does is taken, unless fungibility says to look on; then the best one seen is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multiqueue.engine.cache.cached_queue import CachedQueue, Room
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.eligibility import refuse_levels, refuse_placement, refuse_topology
from multiqueue.engine.flavors.assignment import (
    FlavorChoice,
    FlavorMode,
    PreferenceKey,
    preference_key,
)
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.flavors.replaced_slice import ReplacedSlice, refuse_beside
from multiqueue.engine.pending_reasons import (
    FlavorAttempt,
    FlavorNotFound,
    InvalidPlacement,
    Refusal,
    Shortfall,
)
from multiqueue.engine.remote import ChosenFlavors, RemoteSearch
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import FungibilityPolicy, PreemptionPolicy, ResourceGroup
from multiqueue.model.placement import ANYWHERE
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.workload import PodSet, Workload

_FITS: PreferenceKey = (2, FlavorMode.FIT, 0)
"""What a flavor is at first, by any preference or none: nothing borrowed, nobody preempted."""


class FlavorSearch(Value, frozen=True, kw_only=True, gc=False):
    """What stays the same during the search for one workload.

    Shape: ``rooms`` is the memo of the queue for the current usage, by slot. ``nominated`` are the
    only flavors to look at, by name of the pod set; None for all (E-70). ``is_fair`` is true with
    fair sharing, where whoever may reclaim may do so while borrowing (E-48). ``topologies`` by name
    is None if they are those of other clusters, whose levels are unknown.
    ``is_fungible`` is gate FlavorFungibility. ``remote`` is None if the pods run here;
    ``replaced`` where the workload takes over nobody's quota.
    """

    queue: CachedQueue
    workload: Workload
    flavors: Mapping[str, ResourceFlavor]
    rooms: dict[int, Room]
    oracle: Oracle
    nominated: Mapping[str, frozenset[str]] | None = None
    is_fair: bool = False
    topologies: Mapping[str, Topology] | None = None
    is_fungible: bool = True
    remote: RemoteSearch | None = None
    replaced: ReplacedSlice | None = None


class _Outcome:
    """One flavor that was tried: its mode for each resource, and the worst of these."""

    __slots__ = ("borrowing", "choices", "key", "mode", "refusals")

    def __init__(self) -> None:
        self.mode = FlavorMode.FIT
        self.borrowing = 0
        self.key: PreferenceKey = _FITS
        self.choices: list[tuple[str, FlavorMode, int, int]] = []
        self.refusals: list[Refusal] = []


Choices = dict[str, FlavorChoice]
Attempts = tuple[FlavorAttempt, ...]


def find_flavor(
    search: FlavorSearch,
    group: ResourceGroup,
    pod_sets: Sequence[PodSet],
    *,
    requests: Mapping[str, Amount],
    assumed: Mapping[int, Amount],
    start: int,
    settled: ChosenFlavors | None = None,
) -> tuple[Choices | None, Attempts]:
    """Choose one flavor of the resource group for all the requests.

    Args:
        search: the queue, the workload and the world.
        group: the resource group.
        pod_sets: that get the same flavor; their pods must all be able to run there.
        requests: the resources of this group, in total.
        assumed: usage by slot of pod sets assigned before.
        start: the index of the first flavor to look at.
        settled: flavors chosen before; needed only where the pods run on other clusters.

    Returns:
        Choices by resource, None if no flavor fits; and the refusals if none fits.
    """
    best: _Outcome | None = None
    best_flavor, index = "", start - 1
    attempts: list[FlavorAttempt] = []
    for index in range(start, len(group.flavors)):
        name = group.flavors[index].name
        if not _is_looked_at(search, name, pod_sets):
            continue
        refusal = _refuse_flavor(search, name, group, pod_sets)
        if refusal is None and search.remote is not None:
            refusal = search.remote.refuse(name, pod_sets, requests, settled or {})
        if refusal is not None:
            attempts.append(FlavorAttempt(name, (refusal,)))
            if isinstance(refusal, InvalidPlacement):
                return None, tuple(attempts)
            continue
        outcome = _check_resources(search, name, requests, assumed)
        if outcome.refusals:
            attempts.append(FlavorAttempt(name, tuple(outcome.refusals)))
        looks_on = _looks_on(search, outcome)
        if outcome.mode is not FlavorMode.NO_FIT and (
            not looks_on or best is None or outcome.key > best.key
        ):
            best, best_flavor = outcome, name
        if not looks_on:
            break
    if best is None:
        return None, tuple(attempts)
    tried = -1 if index >= len(group.flavors) - 1 else index
    choices = _choose(best, best_flavor, tried if search.is_fungible else 0)
    return choices, () if best.mode is FlavorMode.FIT else tuple(attempts)


def _choose(outcome: _Outcome, flavor: str, tried: int) -> Choices:
    return {
        resource: FlavorChoice(flavor, mode, borrowing, tried, slot)
        for resource, mode, borrowing, slot in outcome.choices
    }


def _is_looked_at(search: FlavorSearch, flavor: str, pod_sets: Sequence[PodSet]) -> bool:
    allowed, nominated = search.workload.allowed_flavors, search.nominated
    if allowed is not None and flavor not in allowed:
        return False
    return nominated is None or any(
        flavor in nominated.get(pod_set.name, ()) for pod_set in pod_sets
    )


def _refuse_flavor(
    search: FlavorSearch, name: str, group: ResourceGroup, pod_sets: Sequence[PodSet]
) -> Refusal | None:
    flavor = search.flavors.get(name)
    if flavor is None:
        return FlavorNotFound(flavor=name)
    only_topologies = search.queue.has_only_topologies
    for pod_set in pod_sets:
        if not only_topologies and (flavor.topology_name or pod_set.topology_request):
            refusal = refuse_topology(flavor, pod_set, group.covered_resources)
            if refusal is not None:
                return refusal
        if flavor.topology_name and search.topologies is not None and pod_set.topology_request:
            refusal = refuse_levels(flavor, pod_set.topology_request, search.topologies)
            if refusal is not None:
                return refusal
        if flavor.node_taints or pod_set.placement is not ANYWHERE:
            refusal = refuse_placement(flavor, pod_set.placement)
            if refusal is not None:
                return refusal
    if search.replaced is not None:
        return refuse_beside(search.replaced, flavor, pod_sets, group.covered_resources)
    return None


def _check_resources(
    search: FlavorSearch,
    flavor: str,
    requests: Mapping[str, Amount],
    assumed: Mapping[int, Amount],
) -> _Outcome:
    """Check the quota of every resource; the flavor is as good as its worst one (E-48)."""
    outcome = _Outcome()
    queue, known = search.queue, search.rooms
    node, slots = queue.node, queue.slots_by_flavor[flavor]
    for resource, asked in requests.items():
        slot = slots[resource]
        previous = assumed.get(slot, 0)
        amount = asked + previous
        room = known.get(slot)
        if room is None:
            room = known[slot] = _room(node, slot)
        if amount <= room.available:
            mode, borrowing = FlavorMode.FIT, node.borrow_height(slot, amount)[0]
        else:
            held = search.replaced.usage.get((flavor, resource), 0) if search.replaced else 0
            mode, borrowing = _check_beyond(search, slot, amount, held)
            if amount + held > node.potential[slot]:
                previous += held
            shortfall = (flavor, resource, asked, previous, room.free, room.borrowable)
            outcome.refusals.append(Shortfall(*shortfall, node.potential[slot]))
        outcome.choices.append((resource, mode, borrowing, slot))
        if mode is outcome.mode and borrowing == outcome.borrowing:
            continue
        preference = queue.spec.fungibility.preference if search.is_fungible else None
        key = preference_key(mode, borrowing, preference)
        if key < outcome.key:
            outcome.key, outcome.mode, outcome.borrowing = key, mode, borrowing
    return outcome


def _room(node: QuotaNode, slot: int) -> Room:
    available = max(0, node.available(slot))
    free = min(max(0, node.nominal[slot] - node.usage[slot]), available)
    return Room(available, free, available - free)


def _check_beyond(
    search: FlavorSearch, slot: int, amount: Amount, held: Amount
) -> tuple[FlavorMode, int]:
    """Return the mode and the borrow height of what is more than available.

    Deviates: together with what is held already it must not be more than could ever be used;
    upstream looks at the difference alone, and waits for what cannot come (E-167).
    """
    queue = search.queue
    node, preemption = queue.node, queue.spec.preemption
    if amount + held > node.potential[slot]:
        return FlavorMode.NO_FIT, 0
    borrowing, may_reclaim = node.borrow_height(slot, amount)
    if (
        may_reclaim
        or node.nominal[slot] >= amount
        or preemption.borrow_within_cohort is not PreemptionPolicy.NEVER
        or (search.is_fair and preemption.reclaim_within_cohort is not PreemptionPolicy.NEVER)
    ):
        return search.oracle(queue, search.workload, slot, amount, borrowing)
    return FlavorMode.NO_FIT, borrowing


def _looks_on(search: FlavorSearch, outcome: _Outcome) -> bool:
    """Whether to try the next flavor too (E-51, E-52)."""
    if not search.is_fungible:
        return outcome.mode is not FlavorMode.FIT
    policy = search.queue.spec.fungibility
    if outcome.mode <= FlavorMode.NO_CANDIDATES:
        return True
    preempts = outcome.mode is not FlavorMode.FIT
    if preempts and policy.when_can_preempt is FungibilityPolicy.TRY_NEXT_FLAVOR:
        return True
    return outcome.borrowing > 0 and policy.when_can_borrow is FungibilityPolicy.TRY_NEXT_FLAVOR
