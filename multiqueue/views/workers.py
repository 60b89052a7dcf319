"""The row of one worker: connection, use, health and GPUs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.conditions import (
    ACTIVE,
    CORDONED,
    CREDENTIALS_EXPIRING,
    DRAINED,
    ORIGIN_SHARED,
    DrainReason,
    find_condition,
)
from multiqueue.api.v1beta2 import ClusterQueue, MultiKueueCluster
from multiqueue.lib.amount import UNLIMITED
from multiqueue.model.cluster_queue import build_cluster_queue
from multiqueue.model.resources import is_accelerator, parse_quota

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What the manager knows about a worker beside its MultiKueueCluster.

    Attributes:
        health: From 0, best avoided, to 1, healthy; None if this replica has no connection.
        trouble: Why nothing new is sent there, in words that go after its name; empty if it is.
        queues: The ClusterQueues there; None while they are not known.
        running: The Workloads that were latched there.
        waiting: The Workloads that were offered to it.
    """

    health: float | None = None
    trouble: str = ""
    queues: Iterable[ClusterQueue] | None = None
    running: int = 0
    waiting: int = 0


def build_worker_row(cluster: MultiKueueCluster, facts: WorkerFacts) -> Json:
    """Return the fields of a worker's row."""
    conditions = cluster.status.conditions
    active = find_condition(conditions, ACTIVE)
    connected = active is not None and active.status == "True"
    why = "no manager has looked at it"
    if active is not None:
        why = "" if connected else f"{active.reason}: {active.message}"
    flavors = None if facts.queues is None else count_accelerators(facts.queues)
    return {
        "connected": connected,
        "why": why,
        "since": active.last_transition_time if active is not None else None,
        "health": facts.health,
        "trouble": facts.trouble,
        "use": find_use(cluster),
        "gpus": _sum(flavors, "total"),
        "used": _sum(flavors, "used"),
        "free": _sum(flavors, "free"),
        "flavors": flavors or [],
        "running": facts.running,
        "waiting": facts.waiting,
        "warnings": [
            condition.message
            for type_ in (CREDENTIALS_EXPIRING, ORIGIN_SHARED)
            if (condition := find_condition(conditions, type_)) is not None
            and condition.status == "True"
        ],
    }


def find_use(cluster: MultiKueueCluster) -> Json:
    """Return whether a worker is in use, cordoned or drained, and what its conditions say."""
    orders = read_orders(cluster.metadata.annotations)
    if not orders.cordoned:
        return {"state": "InUse", "message": None, "reason": None}
    type_ = CORDONED if orders.drain is None else DRAINED
    found = find_condition(cluster.status.conditions, type_)
    if orders.problem:
        state, message = str(DrainReason.UNCLEAR), orders.problem
    elif orders.drain is None:
        state, message = str(DrainReason.CORDONED), ""
    else:
        state = found.reason if found is not None else str(DrainReason.DRAINING)
        message = found.message if found is not None else ""
    return {"state": state, "message": message or None, "reason": orders.reason or None}


def count_accelerators(queues: Iterable[ClusterQueue]) -> list[Json]:
    """Return the accelerators of ClusterQueues by flavor and resource: quota, reserved and free.

    Unlimited quota counts as what is reserved of it.
    """
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for queue in queues:
        used = {
            (flavor.name, resource.name): parse_quota(resource.name, resource.total)
            for flavor in queue.status.flavors_reservation
            for resource in flavor.resources
            if is_accelerator(resource.name)
        }
        for group in build_cluster_queue(queue).resource_groups:
            for flavor_quotas in group.flavors:
                for resource_name, quota in flavor_quotas.quotas.items():
                    if is_accelerator(resource_name):
                        pair = (flavor_quotas.name, resource_name)
                        taken = used.get(pair, 0)
                        nominal = taken if quota.nominal >= UNLIMITED else quota.nominal
                        totals[pair][0] += nominal
                        totals[pair][1] += taken
    return [
        {
            "flavor": flavor,
            "resource": resource,
            "total": total,
            "used": taken,
            "free": max(0, total - taken),
        }
        for (flavor, resource), (total, taken) in sorted(totals.items())
    ]


def _sum(flavors: list[Json] | None, name: str) -> int | None:
    return None if flavors is None else sum(each[name] for each in flavors)
