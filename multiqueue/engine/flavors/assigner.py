"""Assign flavors to all pod sets of a workload, all or none (E-45, E-46, E-54 to E-60)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multiqueue.engine.flavors.assignment import Assignment, FlavorChoice, Mode, PodSetResult
from multiqueue.engine.flavors.flavor_search import Attempts, FlavorSearch, find_flavor
from multiqueue.engine.pending_reasons import FlavorAttempt, PodSetExplanation, ResourceNotCovered
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.engine.remote import ChosenFlavors
from multiqueue.lib.amount import LARGEST, Amount
from multiqueue.model.resources import PODS
from multiqueue.model.workload import PodSet


def assign_flavors(
    search: FlavorSearch,
    resume: ResumeState | None,
    *,
    counts: Sequence[int] | None = None,
    ignore_undeclared: bool = False,
) -> Assignment:
    """Choose flavors for every pod set at the current usage.

    Args:
        search: the queue, the workload and the world.
        resume: Where an earlier search stopped; None starts at the first flavors.
        counts: Pods per pod set if fewer than all are requested (E-60).
        ignore_undeclared: resources that no resource group covers need no quota (E-61).
    """
    pod_sets = search.workload.pod_sets
    charges_pods = PODS in search.queue.group_by_resource
    results: list[PodSetResult] = []
    assumed: dict[int, Amount] = {}
    mode, borrowing = Mode.FIT if pod_sets else Mode.NO_FIT, 0
    for indexes in _placed_together(pod_sets):
        members = [pod_sets[i] for i in indexes]
        sizes = [counts[i] if counts else pod_sets[i].count for i in indexes]
        requests = [
            sum_requests(pod_set, size, charges_pods)
            for pod_set, size in zip(members, sizes, strict=True)
        ]
        tried = resume.tried[indexes[0]] if resume and indexes[0] < len(resume.tried) else {}
        wanted = [_wanted(search, ps, asked) for ps, asked in zip(members, requests, strict=True)]
        choices, refused = _assign_together(
            search,
            members,
            wanted,
            assumed,
            tried=tried,
            ignore_undeclared=ignore_undeclared,
            before=results,
        )
        for pod_set, size, asked in zip(members, sizes, requests, strict=True):
            result = _result(pod_set, size, asked, choices, refused)
            results.append(result)
            mode = min(mode, result.mode)
        if choices is None:
            break
        for choice in choices.values():
            borrowing = max(borrowing, choice.borrowing)
        _count_usage(assumed, choices, wanted)
    return Assignment(
        pod_sets=tuple(results),
        mode=mode,
        borrowing=borrowing,
        usage={slot: amount for slot, amount in assumed.items() if amount > 0},
    )


def _placed_together(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Return indexes of pod sets by group name, in order of first appearance (E-45)."""
    if len(pod_sets) == 1:
        return [[0]]
    groups: dict[object, list[int]] = {}
    for i, pod_set in enumerate(pod_sets):
        request = pod_set.topology_request
        name = request.pod_set_group_name if request else None
        groups.setdefault(name or i, []).append(i)
    return list(groups.values())


def sum_requests(pod_set: PodSet, count: int, charges_pods: bool) -> Mapping[str, Amount]:  # noqa: FBT001
    """Return the requests of all pods; a queue with a quota of pods counts these, too (E-8)."""
    if count == 1 and not charges_pods:
        return pod_set.requests
    requests = {name: min(value * count, LARGEST) for name, value in pod_set.requests.items()}
    if charges_pods:
        requests[PODS] = count
    return requests


def _wanted(
    search: FlavorSearch, pod_set: PodSet, requests: Mapping[str, Amount]
) -> Mapping[str, Amount]:
    """Return the quota that a pod set needs: all of it, or the difference to its earlier slice."""
    if search.replaced is None:
        return requests
    return search.replaced.difference(pod_set.name, requests)


def _assign_together(
    search: FlavorSearch,
    pod_sets: Sequence[PodSet],
    requests: Sequence[Mapping[str, Amount]],
    assumed: Mapping[int, Amount],
    *,
    tried: Mapping[str, int],
    ignore_undeclared: bool,
    before: Sequence[PodSetResult],
) -> tuple[dict[str, FlavorChoice] | None, list[Attempts]]:
    """Return (choices by resource, None if one fails; the refusals per resource group)."""
    total = _sum(requests)
    group_by_resource = search.queue.group_by_resource
    choices: dict[str, FlavorChoice] = {}
    refused: list[Attempts] = []
    for resource, amount in total.items():
        if resource in choices:
            continue
        group = group_by_resource.get(resource)
        if group is None:
            if amount == 0 or ignore_undeclared:
                continue
            refused.append((FlavorAttempt("", (ResourceNotCovered(resource=resource),)),))
            return None, refused
        found, attempts = find_flavor(
            search,
            group,
            pod_sets,
            requests={r: v for r, v in total.items() if group_by_resource.get(r) is group},
            assumed=assumed,
            start=tried.get(resource, -1) + 1,
            settled=_settled(before, pod_sets, choices) if search.remote is not None else None,
        )
        if attempts:
            refused.append(attempts)
        if found is None:
            return None, refused
        choices.update(found)
    return choices, refused


def _settled(
    before: Sequence[PodSetResult],
    pod_sets: Sequence[PodSet],
    choices: Mapping[str, FlavorChoice],
) -> ChosenFlavors:
    """Return the flavors chosen so far, for earlier pod sets and for these."""
    chosen = {ps.pod_set.name: _names(ps.flavors or {}) for ps in before}
    chosen |= {pod_set.name: _names(choices) for pod_set in pod_sets}
    return chosen


def _names(choices: Mapping[str, FlavorChoice]) -> dict[str, str]:
    return {resource: choice.flavor for resource, choice in choices.items()}


def _result(
    pod_set: PodSet,
    count: int,
    requests: Mapping[str, Amount],
    choices: Mapping[str, FlavorChoice] | None,
    refused: Sequence[Attempts],
) -> PodSetResult:
    explanation = None
    if refused or choices is None:
        explanation = PodSetExplanation(pod_set.name, count, tuple(refused))
    flavors = None
    if choices is not None:
        flavors = {name: choices[name] for name in requests if name in choices}
    return PodSetResult(pod_set, count, requests, flavors, explanation)


def _count_usage(
    assumed: dict[int, Amount],
    choices: Mapping[str, FlavorChoice],
    requests: Iterable[Mapping[str, Amount]],
) -> None:
    for asked in requests:
        for resource, amount in asked.items():
            choice = choices.get(resource)
            if choice is not None:
                assumed[choice.slot] = assumed.get(choice.slot, 0) + amount


def _sum(parts: Sequence[Mapping[str, Amount]]) -> Mapping[str, Amount]:
    if len(parts) == 1:
        return parts[0]
    total: dict[str, Amount] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
