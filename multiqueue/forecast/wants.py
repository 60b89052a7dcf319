"""What equal Workloads need to start: quota and nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from multiqueue.engine.eligibility import wants_topology
from multiqueue.forecast.needs import Needs, build_needs
from multiqueue.forecast.sites import Gang
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Wants:
    """The needs of a Workload, computed once for all of its shape in a queue.

    Attributes:
        needs: Its needs of quota.
        flavors: The flavors that it may get, sorted.
        gangs: Its pods that need places in a topology.
    """

    needs: Needs
    flavors: tuple[str, ...]
    gangs: tuple[Gang, ...]


def build_wants(
    workload: Workload, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]
) -> Wants:
    """Return what a Workload needs in a queue."""
    needs = build_needs(workload, queue, flavors)
    names = {pair[0] for options in needs for option in options for pair, _ in option}
    is_implied = all(flavors[name].topology_name for name in names)
    return Wants(
        needs=needs,
        flavors=tuple(sorted(names)),
        gangs=tuple(
            Gang(pod_set.count, pod_set.node_requests, pod_set.topology_request)
            for pod_set in workload.pod_sets
            if is_implied or wants_topology(pod_set)
        ),
    )
