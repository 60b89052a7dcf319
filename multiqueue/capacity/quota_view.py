"""A worker's queues as a dispatcher sees them, from the objects that the worker publishes. Pure.

``used`` is what ClusterQueue statuses say. What a queue could borrow now is worked out for the
whole cohort tree as if it were one pool: each queue keeps what it does not lend, everything else is
shared. Limits of the cohorts in between are not looked at; where they bind, a Workload that was
thought to fit waits, and the dispatcher is asked again. The most that a queue could ever hold is an
upper bound by the same token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.lib.amount import UNLIMITED, add, subtract
from multiqueue.lib.quantity import QuantityError
from multiqueue.model import cluster_queue as model
from multiqueue.model.build import build_cluster_queue, build_cohort
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
"""Cohorts above each other; more is a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueObject:
    """One ClusterQueue of a worker, read once.

    Attributes:
        queue: Its spec.
        used: Reserved quota, by flavor and resource.
        pending: Workloads that wait.
        active: Whether it admits.
        inactive_reason: Why not.
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
        lendable: What the queues lend and the cohorts own.
        taken: How much of it is in use.
        total: Everything that there is, lent or not.
    """

    lendable: int = 0
    taken: int = 0
    total: int = 0


def read_queue(obj: api.ClusterQueue) -> QueueObject | None:
    """Read a ClusterQueue; None where its quotas make no sense."""
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
    """Read a Cohort; None where its quotas make no sense."""
    try:
        return build_cohort(obj)
    except (QuantityError, ValueError):
        return None


def find_root(cohort: str, cohorts: Mapping[str, model.Cohort]) -> str:
    """Return the top of the tree that a cohort is in; cohorts need no object."""
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
    """Return what is shared in the cohort tree of a queue; nothing where it is on its own."""
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
        pools: Those of its cohort tree; empty for a queue on its own.
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
    """Return the view with so much less used (a positive change), or more."""
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
    """Return the view with so much more in flight."""
    quotas = dict(view.quotas)
    for pair, amount in taken.items():
        quota = quotas.get(pair)
        if quota is not None:
            quotas[pair] = replace(quota, in_flight=quota.in_flight + amount)
    return replace(view, quotas=quotas)


def with_demand(view: QueueView, workload: WorkloadView, *, look: bool = True) -> QueueView:
    """Return the view with one waiting Workload where it fits now, or in the backlog."""
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
    """What a queue does not lend."""
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
