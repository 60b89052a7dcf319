"""Look for the flavor of one resource group, in the order of the spec (E-47 to E-54).

The first flavor that does is taken, unless fungibility says to look on; then the best one seen is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.explain import (
    FlavorAttempt,
    FlavorNotFound,
    InvalidPlacement,
    Refusal,
    Shortfall,
)
from multiqueue.engine.flavors.assignment import (
    FlavorChoice,
    FlavorMode,
    PreferenceKey,
    preference_key,
)
from multiqueue.engine.flavors.eligibility import refuse_placement, refuse_topology
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import (
    FlavorQuotas,
    FungibilityPolicy,
    PreemptionPolicy,
    ResourceGroup,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSearch:
    """What stays the same during the search for one workload."""

    queue: CachedQueue
    workload: Workload
    flavors: Mapping[str, ResourceFlavor]
    oracle: Oracle
    has_only_topologies: bool = False


@dataclass(slots=True)
class _Outcome:
    """One flavor that was looked at: the outcome per resource and of the worst one."""

    mode: FlavorMode = FlavorMode.FIT
    borrowing: int = 0
    key: PreferenceKey | None = None
    choices: dict[str, tuple[FlavorMode, int, int]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """Choices by resource, None where no flavor does; and every refusal on the way."""

    choices: Mapping[str, FlavorChoice] | None
    attempts: tuple[FlavorAttempt, ...] = ()


def find_flavor(
    search: FlavorSearch,
    group: ResourceGroup,
    pod_sets: Sequence[PodSet],
    *,
    requests: Mapping[str, Amount],
    assumed: Mapping[int, Amount],
    start: int,
) -> GroupResult:
    """Choose one flavor of the resource group for all the requests.

    Args:
        search: the queue, the workload and the world.
        group: the resource group.
        pod_sets: that get the same flavor; their pods must all be able to run there.
        requests: the resources of this group, in total.
        assumed: usage by slot of pod sets assigned before.
        start: the index of the first flavor to look at.
    """
    best: _Outcome | None = None
    best_flavor = ""
    attempts: list[FlavorAttempt] = []
    last = len(group.flavors) - 1
    index = start - 1
    for index in range(start, len(group.flavors)):
        quotas = group.flavors[index]
        refusal = _refuse_flavor(search, quotas, group, pod_sets)
        if refusal is not None:
            attempts.append(FlavorAttempt(flavor=quotas.name, refusals=(refusal,)))
            if isinstance(refusal, InvalidPlacement):
                return GroupResult(choices=None, attempts=tuple(attempts))
            continue
        outcome = _check_resources(search, quotas.name, requests, assumed)
        if outcome.refusals:
            attempts.append(FlavorAttempt(flavor=quotas.name, refusals=tuple(outcome.refusals)))
        if not _looks_on(search.queue, outcome):
            best, best_flavor = outcome, quotas.name
            break
        if outcome.mode is not FlavorMode.NO_FIT and _is_better(outcome, best):
            best, best_flavor = outcome, quotas.name
    if best is None:
        return GroupResult(choices=None, attempts=tuple(attempts))
    tried = -1 if index >= last else index
    return GroupResult(
        choices={
            resource: FlavorChoice(
                flavor=best_flavor, mode=mode, borrowing=borrowing, tried_index=tried, slot=slot
            )
            for resource, (mode, borrowing, slot) in best.choices.items()
        },
        attempts=() if best.mode is FlavorMode.FIT else tuple(attempts),
    )


def _refuse_flavor(
    search: FlavorSearch, quotas: FlavorQuotas, group: ResourceGroup, pod_sets: Sequence[PodSet]
) -> Refusal | None:
    flavor = search.flavors.get(quotas.name)
    if flavor is None:
        return FlavorNotFound(flavor=quotas.name)
    for pod_set in pod_sets:
        if not search.has_only_topologies:
            refusal = refuse_topology(flavor, pod_set, group.covered_resources)
            if refusal is not None:
                return refusal
        if flavor.node_labels or flavor.node_taints:
            refusal = refuse_placement(flavor, pod_set.placement)
            if refusal is not None:
                return refusal
    return None


def _check_resources(
    search: FlavorSearch,
    flavor: str,
    requests: Mapping[str, Amount],
    assumed: Mapping[int, Amount],
) -> _Outcome:
    """Check every resource; the flavor is as good as its worst one."""
    outcome = _Outcome()
    preference = search.queue.spec.fungibility.preference
    slots = search.queue.node.slot_by_flavor_resource
    for resource, asked in requests.items():
        slot = slots[flavor, resource]
        previous = assumed.get(slot, 0)
        mode, borrowing = _check_quota(search, slot, asked + previous)
        if mode is not FlavorMode.FIT:
            outcome.refusals.append(
                explain_shortfall(search.queue, (flavor, resource), asked=asked, previous=previous)
            )
        outcome.choices[resource] = (mode, borrowing, slot)
        key = preference_key(mode, borrowing, preference)
        if outcome.key is None or key < outcome.key:
            outcome.key, outcome.mode, outcome.borrowing = key, mode, borrowing
    return outcome


def _check_quota(search: FlavorSearch, slot: int, amount: Amount) -> tuple[FlavorMode, int]:
    """Return the mode and the borrow height of one flavor-resource (E-48)."""
    queue, node = search.queue, search.queue.node
    if amount > node.potential[slot]:
        return FlavorMode.NO_FIT, 0
    borrowing, may_reclaim = node.borrow_height(slot, amount)
    if amount <= max(0, node.available(slot)):
        return FlavorMode.FIT, borrowing
    preempts_to_borrow = queue.spec.preemption.borrow_within_cohort is not PreemptionPolicy.NEVER
    if node.nominal[slot] >= amount or may_reclaim or preempts_to_borrow:
        return search.oracle(queue, search.workload, slot, amount)
    return FlavorMode.NO_FIT, borrowing


def explain_shortfall(
    queue: CachedQueue, flavor_resource: tuple[str, str], *, asked: Amount, previous: Amount
) -> Shortfall:
    """Return the numbers behind a refusal."""
    node = queue.node
    slot = node.slot_by_flavor_resource[flavor_resource]
    available = max(0, node.available(slot))
    free = min(max(0, node.nominal[slot] - node.usage[slot]), available)
    return Shortfall(
        flavor=flavor_resource[0],
        resource=flavor_resource[1],
        asked=asked,
        previous=previous,
        free=free,
        borrowable=available - free,
        maximum=node.potential[slot],
    )


def _looks_on(queue: CachedQueue, outcome: _Outcome) -> bool:
    """Whether to look at the next flavor too (E-51)."""
    policy = queue.spec.fungibility
    if outcome.mode <= FlavorMode.NO_CANDIDATES:
        return True
    preempts = outcome.mode is not FlavorMode.FIT
    if preempts and policy.when_can_preempt is FungibilityPolicy.TRY_NEXT_FLAVOR:
        return True
    return outcome.borrowing > 0 and policy.when_can_borrow is FungibilityPolicy.TRY_NEXT_FLAVOR


def _is_better(outcome: _Outcome, best: _Outcome | None) -> bool:
    if best is None or best.key is None:
        return True
    return outcome.key is not None and outcome.key > best.key
