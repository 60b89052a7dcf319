"""A worker's queues as a dispatcher sees them, from the worker's API objects. Pure.

``used`` is the usage in the ClusterQueue statuses. The quota that a queue could borrow now is
computed as if the whole cohort tree were one pool: each queue keeps what it does not lend, and
everything else is shared. Limits of the cohorts in between are ignored; if they bind, a Workload
that seemed to fit waits, and the dispatcher is asked again. For the same reason, the most that a
queue could ever hold is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.lib.amount import UNLIMITED, add, subtract
from multiqueue.lib.quantity import QuantityError
from multiqueue.model import cluster_queue as model
from multiqueue.model.cluster_queue import build_cluster_queue, build_cohort
from multiqueue.model.resources import parse_request
from multiqueue.plugins import (
    FlavorView,
    QueueView,
    QuotaView,
    ResourceGroupView,
    WorkloadView,
    place,
)

FlavorResource = tuple[str, str]
MAX_DEPTH = 64
"""Most levels of cohorts; more means a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueObject:
    """One ClusterQueue of a worker, read once.

    Attributes:
        queue: Its spec.
        used: Reserved quota, by flavor and resource.
        pending: How many Workloads wait.
        active: Whether it admits Workloads.
        inactive_reason: Why it does not.
    """

    queue: model.ClusterQueue
    used: Mapping[FlavorResource, int]
    pending: int = 0
    active: bool = True
    inactive_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the queues of a cohort tree share of one resource in one flavor.

    Attributes:
        lendable: The quota that queues lend and cohorts own.
        taken: How much of it is in use.
        total: All quota, lent or not.
    """

    lendable: int = 0
    taken: int = 0
    total: int = 0


def read_queue(obj: api.ClusterQueue) -> QueueObject | None:
    """Read a ClusterQueue; None if its quotas are invalid."""
    try:
        queue = build_cluster_queue(obj)
        used = {
            (flavor.name, usage.name): parse_request(usage.name, usage.total)
            for flavor in obj.status.flavors_reservation
            for usage in flavor.resources
        }
    except (QuantityError, ValueError):
        return None
    condition = find_condition(obj.status.conditions, ACTIVE)
    inactive = condition is not None and condition.status == "False"
    return QueueObject(
        queue=queue,
        used=used,
        pending=obj.status.pending_workloads,
        active=not inactive and queue.stop_policy is model.StopPolicy.NONE,
        inactive_reason=condition.message or condition.reason
        if condition is not None and inactive
        else "it is stopped",
    )


def read_cohort(obj: api.Cohort) -> model.Cohort | None:
    """Read a Cohort; None if its quotas are invalid."""
    try:
        return build_cohort(obj)
    except (QuantityError, ValueError):
        return None


def find_root(cohort: str, cohorts: Mapping[str, model.Cohort]) -> str:
    """Return the root of a cohort's tree; a cohort needs no object."""
    for _ in range(MAX_DEPTH):
        parent = cohorts[cohort].parent if cohort in cohorts else ""
        if not parent:
            return cohort
        cohort = parent
    return cohort


def build_pools(
    queues: Iterable[QueueObject], cohorts: Iterable[model.Cohort]
) -> dict[FlavorResource, Pool]:
    """Sum up what the members of one cohort tree share."""
    pools: dict[FlavorResource, Pool] = {}
    for member in queues:
        for pair, quota in quotas_of(member.queue.resource_groups).items():
            keeps = _kept(quota)
            used = member.used.get(pair, 0)
            pool = pools.get(pair, Pool())
            pools[pair] = Pool(
                lendable=add(pool.lendable, subtract(quota.nominal, keeps)),
                taken=add(pool.taken, max(0, subtract(used, keeps))),
                total=add(pool.total, quota.nominal),
            )
    for cohort in cohorts:
        for pair, quota in quotas_of(cohort.resource_groups).items():
            pool = pools.get(pair, Pool())
            pools[pair] = replace(
                pool,
                lendable=add(pool.lendable, quota.nominal),
                total=add(pool.total, quota.nominal),
            )
    return pools


def pools_of(
    member: QueueObject, queues: Iterable[QueueObject], cohorts: Mapping[str, model.Cohort]
) -> dict[FlavorResource, Pool]:
    """Return the pools of a queue's cohort tree; empty for a queue without a cohort."""
    if not member.queue.cohort:
        return {}
    root = find_root(member.queue.cohort, cohorts)
    return build_pools(
        (q for q in queues if q.queue.cohort and find_root(q.queue.cohort, cohorts) == root),
        (cohort for name, cohort in cohorts.items() if find_root(name, cohorts) == root),
    )


def build_queue_view(
    member: QueueObject,
    flavors: Mapping[str, api.ResourceFlavor],
    pools: Mapping[FlavorResource, Pool],
) -> QueueView:
    """Return one queue's view, with nothing in flight yet.

    Args:
        member: The queue.
        flavors: Flavors of the worker, by name.
        pools: The pools of its cohort tree; empty for a queue without a cohort.
    """
    queue = member.queue
    return QueueView(
        name=queue.name,
        active=member.active,
        inactive_reason="" if member.active else member.inactive_reason,
        groups=tuple(
            ResourceGroupView(
                resources=group.covered_resources,
                flavors=tuple(flavor.name for flavor in group.flavors),
            )
            for group in queue.resource_groups
        ),
        flavors={
            flavor.name: _flavor_view(flavor.name, flavors.get(flavor.name))
            for group in queue.resource_groups
            for flavor in group.flavors
        },
        quotas={
            pair: _quota_view(quota, member.used.get(pair, 0), pools.get(pair))
            for pair, quota in quotas_of(queue.resource_groups).items()
        },
        pending=member.pending,
        checks=tuple(rule.name for rule in queue.checks),
    )


def with_usage(view: QueueView, change: Mapping[FlavorResource, int]) -> QueueView:
    """Return the view with this amount less used (a positive change), or more."""
    quotas = dict(view.quotas)
    for pair, amount in change.items():
        quota = quotas.get(pair)
        if quota is not None:
            quotas[pair] = replace(
                quota,
                used=max(0, quota.used - amount),
                available=max(0, add(quota.available, amount)),
            )
    return replace(view, quotas=quotas)


def with_in_flight(view: QueueView, taken: Mapping[FlavorResource, int]) -> QueueView:
    """Return the view with this amount more in flight."""
    quotas = dict(view.quotas)
    for pair, amount in taken.items():
        quota = quotas.get(pair)
        if quota is not None:
            quotas[pair] = replace(quota, in_flight=quota.in_flight + amount)
    return replace(view, quotas=quotas)


def with_demand(view: QueueView, workload: WorkloadView, *, look: bool = True) -> QueueView:
    """Return the view with a waiting Workload in flight if it fits now, else in the backlog."""
    assignment = place(workload, view) if look else None
    if assignment is not None:
        return with_in_flight(view, assignment.taken)
    backlog = dict(view.backlog)
    for resource, amount in workload.totals().items():
        backlog[resource] = backlog.get(resource, 0) + amount
    return replace(view, backlog=backlog)


def quotas_of(groups: tuple[model.ResourceGroup, ...]) -> dict[FlavorResource, model.Quota]:
    """Return quotas by flavor and resource."""
    return {
        (flavor.name, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas.items()
    }


def _kept(quota: model.Quota) -> int:
    """The quota that a queue does not lend."""
    if quota.lending_limit is None:
        return 0
    return max(0, subtract(quota.nominal, quota.lending_limit))


def _quota_view(quota: model.Quota, used: int, pool: Pool | None) -> QuotaView:
    if pool is None:
        return QuotaView(
            nominal=quota.nominal,
            used=used,
            available=max(0, subtract(quota.nominal, used)),
            most=quota.nominal,
        )
    limit = (
        UNLIMITED if quota.borrowing_limit is None else add(quota.nominal, quota.borrowing_limit)
    )
    own = max(0, subtract(_kept(quota), used))
    shared = max(0, subtract(pool.lendable, pool.taken))
    return QuotaView(
        nominal=quota.nominal,
        used=used,
        available=max(0, min(add(own, shared), subtract(limit, used))),
        most=min(limit, pool.total),
    )


def _flavor_view(name: str, flavor: api.ResourceFlavor | None) -> FlavorView:
    if flavor is None:
        return FlavorView(name=name)
    return FlavorView(
        name=name,
        node_labels=flavor.spec.node_labels,
        node_taints=flavor.spec.node_taints,
        tolerations=flavor.spec.tolerations,
    )
