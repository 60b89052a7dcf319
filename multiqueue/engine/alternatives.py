"""Gangs that need another number of pods on other hardware: "8 x A100 or 4 x H100".

Each flavor of the resource group that defines the hardware is one alternative. All pods that
depend on the hardware use the same one. An alternative is judged as if the gang asked for nothing
else, in the queue's order of flavors. The fungibility of the ClusterQueue says when the next
alternative is tried, as for flavors (E-51).

Deviates: upstream has no such gangs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assignment import Assignment, FlavorChoice, Mode, PodSetResult
from multiqueue.engine.nomination import Nominated, Rejected, Verdict
from multiqueue.engine.pending_reasons import FlavorAttempt, PodSetExplanation
from multiqueue.model.cluster_queue import FlavorFungibility, FungibilityPolicy, ResourceGroup
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload

Flavors = Mapping[str, ResourceFlavor]


class JudgedAlternative(NamedTuple):
    """A gang as it would be on some hardware; by pod set, the flavors to try (None for all)."""

    workload: Workload
    flavors: Mapping[str, frozenset[str]] | None = None


def list_ways(workload: Workload, queue: CachedQueue, flavors: Flavors) -> list[JudgedAlternative]:
    """Return the alternatives of a gang, in the queue's order of flavors.

    None if the gang has the same number of pods on all hardware.
    """
    if not workload.has_alternatives or workload.replaces:
        return []
    groups = queue.spec.resource_groups
    group = next((g for g in groups if _tells(workload, g, flavors)), None)
    if group is None:
        return []
    return [_way(workload, group, item.name, groups, flavors) for item in group.flavors]


def choose_way(
    ways: Sequence[JudgedAlternative],
    judge: Callable[[JudgedAlternative], Verdict],
    policy: FlavorFungibility,
) -> Verdict:
    """Return the verdict on the first sufficient alternative, or else on the best one.

    If the gang has to wait, the verdict lists the refusals of all alternatives.
    """
    found: list[Verdict] = []
    for way in ways:
        found.append(judge(way))
        if _does(found[-1], policy):
            break
    best = max(found, key=_rank)
    if isinstance(best, Rejected):
        return best
    others = [verdict for verdict in found if isinstance(verdict, Nominated)]
    return replace(best, assignment=_complete(best.assignment, others))


def as_nominated(workload: Workload, assignment: Assignment) -> Workload:
    """Return a gang with the pod counts of its nomination."""
    if not workload.has_alternatives:
        return workload
    return _resized(workload, {ps.pod_set.name: ps.pods for ps in assignment.pod_sets})


def _tells(workload: Workload, group: ResourceGroup, flavors: Flavors) -> bool:
    """Whether the flavors of a resource group decide the number of pods."""
    return any(
        pod_set.alternatives
        and any(pod_set.requests.get(resource) for resource in group.covered_resources)
        and any(_pods(pod_set, item.name, flavors) != pod_set.count for item in group.flavors)
        for pod_set in workload.pod_sets
    )


def _way(
    workload: Workload,
    group: ResourceGroup,
    name: str,
    groups: Sequence[ResourceGroup],
    flavors: Flavors,
) -> JudgedAlternative:
    everywhere = frozenset(item.name for other in groups for item in other.flavors)
    here = frozenset(item.name for item in group.flavors) - {name}
    counts = {ps.name: _pods(ps, name, flavors) for ps in workload.pod_sets if ps.alternatives}
    return JudgedAlternative(
        _resized(workload, counts),
        {
            ps.name: everywhere - here if ps.name in counts else everywhere
            for ps in workload.pod_sets
        },
    )


def _pods(pod_set: PodSet, name: str, flavors: Flavors) -> int:
    flavor = flavors.get(name)
    return pod_set.pods_on(name, flavor.node_labels if flavor is not None else {})


def _resized(workload: Workload, counts: Mapping[str, int]) -> Workload:
    pod_sets = tuple(
        dataclasses.replace(pod_set, count=counts[pod_set.name], min_count=None)
        if counts.get(pod_set.name, pod_set.count) != pod_set.count
        else pod_set
        for pod_set in workload.pod_sets
    )
    return dataclasses.replace(workload, pod_sets=pod_sets)


def _rank(verdict: Verdict) -> tuple[int, int]:
    """Return how good a verdict is; larger is better, and less borrowing is better."""
    if isinstance(verdict, Rejected):
        return -1, 0
    mode, borrowing = verdict.assignment.mode, verdict.assignment.borrowing
    if mode is Mode.FIT:
        return 3, -borrowing
    if mode is Mode.NO_FIT:
        return 0, 0
    return (2 if verdict.targets else 1), -borrowing


def _does(verdict: Verdict, policy: FlavorFungibility) -> bool:
    """Whether the verdict is good enough to try no other alternative."""
    if isinstance(verdict, Rejected):
        return False
    may_borrow = policy.when_can_borrow is FungibilityPolicy.MAY_STOP_SEARCH
    if verdict.assignment.mode is Mode.FIT:
        return may_borrow or not verdict.assignment.borrowing
    return bool(verdict.targets) and policy.when_can_preempt is FungibilityPolicy.MAY_STOP_SEARCH


def _complete(assignment: Assignment, others: Sequence[Nominated]) -> Assignment:
    """Mark the search as complete, and list the refusals of all alternatives."""
    pod_sets = tuple(
        result._replace(flavors=_settled(result), explanation=_explain(result, index, others))
        for index, result in enumerate(assignment.pod_sets)
    )
    return replace(assignment, pod_sets=pod_sets)


def _settled(result: PodSetResult) -> Mapping[str, FlavorChoice] | None:
    if result.flavors is None:
        return None
    return {name: choice._replace(tried_index=-1) for name, choice in result.flavors.items()}


def _explain(
    result: PodSetResult, index: int, others: Sequence[Nominated]
) -> PodSetExplanation | None:
    if result.explanation is None:
        return None
    found = [
        explanation.groups
        for other in others
        for explanation in (ps.explanation for ps in other.assignment.pod_sets[index : index + 1])
        if explanation is not None
    ]
    none: tuple[FlavorAttempt, ...] = ()
    groups = tuple(sum(parts, none) for parts in zip_longest(*found, fillvalue=none))
    return result.explanation._replace(groups=groups)
