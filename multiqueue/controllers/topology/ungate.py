"""Which gated pods may be scheduled, and in which domains: the topology ungater (E-147). Pure.

Pods are placed by rank if every pod has one, so that neighbours in rank are neighbours in the
topology; otherwise domain by domain.
Deviates: if a pod under deletion and its replacement share a rank, the replacement waits until the
place is free; upstream does without ranks then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from multiqueue.api.v1beta2 import PodSetTopologyRequest, Workload
from multiqueue.api.workload_state import is_admitted, is_evicted, is_finished
from multiqueue.jobs.machines.pods import Pod
from multiqueue.lib.digits import is_number
from multiqueue.model.topology import TopologyAssignment, TopologyDomain
from multiqueue.model.topology_encoding import decode_topology

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A pod that may be scheduled, and the node labels that it is limited to."""

    pod: Pod
    selector: Mapping[str, str]


def decide_releases(workload: Workload, pods: Iterable[Pod]) -> list[Release]:
    """Return the pods of a Workload that may be scheduled now; none unless it is admitted.

    Pods whose place is on a node in ``status.unhealthyNodes`` wait: they are about to get another.
    """
    status = workload.status
    if not is_admitted(status) or is_evicted(status) or is_finished(status):
        return []
    assert status.admission is not None, "what is admitted has an admission"
    offsets = _group_offsets(workload)
    requests = {pod_set.name: pod_set.topology_request for pod_set in workload.spec.pod_sets}
    unhealthy = frozenset(node.name for node in status.unhealthy_nodes)
    by_pod_set: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created_at, pod.key)):
        if not pod.ended:
            by_pod_set.setdefault(pod.pod_set, []).append(pod)
    found: list[Release] = []
    for assignment in status.admission.pod_set_assignments:
        name = assignment.name
        members = by_pod_set.get(name, ())
        if assignment.topology_assignment is None or not any(pod.is_gated for pod in members):
            continue
        topology = decode_topology(assignment.topology_assignment)
        placed = place_by_rank(topology, members, requests.get(name), offset=offsets.get(name, 0))
        if placed is None:
            placed = place_in_order(topology, members)
        found += [
            Release(pod, dict(zip(topology.levels, values, strict=True)))
            for pod, values in placed
            if not (topology.names_nodes and values[-1] in unhealthy)
        ]
    return found


def place_by_rank(
    topology: TopologyAssignment,
    pods: Sequence[Pod],
    request: PodSetTopologyRequest | None,
    *,
    offset: int = 0,
) -> list[tuple[Pod, Values]] | None:
    """Return the gated pods with the domain of their rank; None if ranks cannot be used.

    Args:
        topology: The assignment with its domains in order.
        pods: All live pods of the pod set.
        request: Names the labels from which ranks are read.
        offset: Index of the first pod, if workers are numbered after their leader.
    """
    domains = [domain.values for domain in topology.domains for _ in range(domain.count)]
    if request is None or request.pod_index_label is None:
        return None
    for start in dict.fromkeys((offset, 0)):
        by_rank = _by_rank(pods, request, len(domains), start)
        if by_rank is not None and _is_consistent(by_rank, domains, topology.levels):
            return [
                (members[0], domains[rank])
                for rank, members in sorted(by_rank.items())
                if len(members) == 1 and members[0].is_gated
            ]
    return None


def place_in_order(topology: TopologyAssignment, pods: Sequence[Pod]) -> list[tuple[Pod, Values]]:
    """Return gated pods with the domains that have room left, filling one after another."""
    taken = Counter(_domain_of(pod, topology.levels) for pod in pods if not pod.is_gated)
    free = (
        domain.values
        for domain in topology.domains
        for _ in range(_room(domain, taken[domain.values]))
    )
    return list(zip((pod for pod in pods if pod.is_gated), free, strict=False))


def _room(domain: TopologyDomain, taken: int) -> int:
    return max(0, domain.count - taken)


def _by_rank(
    pods: Sequence[Pod], request: PodSetTopologyRequest, count: int, offset: int
) -> dict[int, list[Pod]] | None:
    """Group pods by rank; None if a pod has no rank, or two pods that stay have the same."""
    by_rank: dict[int, list[Pod]] = {}
    for pod in pods:
        rank = _rank(pod, request, count, offset)
        if rank is None:
            return None
        by_rank.setdefault(rank, []).append(pod)
    if any(sum(not pod.terminating for pod in members) > 1 for members in by_rank.values()):
        return None
    return by_rank


def _rank(pod: Pod, request: PodSetTopologyRequest, count: int, offset: int) -> int | None:
    index = _number(pod.labels.get(request.pod_index_label or ""))
    if pod.index_offset:
        own = _number(pod.index_offset)
        if own is None:
            return None
        offset = own
    if index is None:
        return None
    rank = index - offset
    if request.sub_group_index_label is not None:
        group = _number(pod.labels.get(request.sub_group_index_label))
        groups = request.sub_group_count or 0
        if group is None or group >= groups or rank >= count // groups:
            return None
        rank += group * (count // groups)
    return rank if 0 <= rank < count else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and is_number(text) else None


def _is_consistent(
    by_rank: Mapping[int, Sequence[Pod]], domains: Sequence[Values], levels: Sequence[str]
) -> bool:
    """Whether the ungated pods are in the domains of their ranks."""
    return all(
        pod.is_gated or _domain_of(pod, levels) == domains[rank]
        for rank, members in by_rank.items()
        for pod in members
    )


def _domain_of(pod: Pod, levels: Sequence[str]) -> Values:
    return tuple(pod.selector.get(level, "") for level in levels)


def _group_offsets(workload: Workload) -> dict[str, int]:
    """Return the index of the first pod of each pod set that is placed with a leader (E-136)."""
    groups: dict[str, list[tuple[int, str]]] = {}
    admission = workload.status.admission
    counts = {a.name: a.count for a in admission.pod_set_assignments} if admission else {}
    for pod_set in workload.spec.pod_sets:
        request = pod_set.topology_request
        if request is not None and request.pod_set_group_name:
            count = counts.get(pod_set.name)
            size = pod_set.count if count is None else count
            groups.setdefault(request.pod_set_group_name, []).append((size, pod_set.name))
    offsets = {}
    for members in groups.values():
        if len(members) == 2:
            first, second = members
            # The leader is the second one, unless that has more pods than the first.
            leader, workers = (first, second) if second[0] > first[0] else (second, first)
            offsets[workers[1]] = leader[0]
    return offsets
