"""Answers about queues and waiting workloads; read-only and not on the hot path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from multiqueue.api.conditions import QueueReason, Reason
from multiqueue.api.names import split_key
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.drs import share_of
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.flavors.assigner import sum_requests
from multiqueue.engine.flavors.replaced_slice import replaced_slice
from multiqueue.engine.nominate import reject
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.queues.pending_order import ordered_in_steps
from multiqueue.engine.state import (
    Changed,
    ClusterQueueState,
    CohortState,
    LocalQueueState,
    PendingWorkload,
    Usage,
    UsedQuota,
)
from multiqueue.engine.variants import explain_parent
from multiqueue.engine.world import EngineParts
from multiqueue.lib.amount import Amount, add
from multiqueue.model.cluster_queue import StopPolicy
from multiqueue.model.resources import PODS
from multiqueue.model.workload import Workload

T = TypeVar("T")

BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"


def cluster_queue_state(world: EngineParts, name: str) -> ClusterQueueState | None:
    """Return the state of a ClusterQueue."""
    queue, pending = world.cache.queues.get(name), world.pending.get(name)
    if queue is None or pending is None:
        return None
    node = queue.node
    slots = {fr: node.slot_by_flavor_resource[fr] for fr in _covered(queue)}
    available = {fr: max(0, node.available(slot)) for fr, slot in slots.items()}
    free = {
        fr: min(max(0, node.nominal[slot] - node.usage[slot]), available[fr])
        for fr, slot in slots.items()
    }
    return ClusterQueueState(
        name=name,
        active=queue.is_active,
        reason=queue.activity.reason or QueueReason.READY,
        message=queue.activity.message,
        pending=len(pending.members),
        inadmissible=len(pending.members) - (pending.active if queue.is_active else 0),
        reserving=queue.reserving,
        admitted=queue.admitted,
        reservation=_usage(queue, {fr: node.usage[slot] for fr, slot in slots.items()}),
        usage=_usage(queue, queue.admitted_usage),
        nominal=_nested({fr: node.nominal[slot] for fr, slot in slots.items()}),
        free=_nested(free),
        borrowable=_nested({fr: available[fr] - free[fr] for fr in slots}),
        borrowing_limit=_nested({fr: node.borrowing_limit[slots[fr]] for fr in slots}),
        lending_limit=_nested({fr: node.lending_limit[slots[fr]] for fr in slots}),
        pending_requests=pending.requested,
        classes=pending.number_of_classes,
        active_classes=pending.number_of_active_classes if queue.is_active else 0,
        root=_root_of(node),
        weighted_share=None if world.options.fair_sharing is None else share_of(node),
    )


def cohort_state(world: EngineParts, name: str) -> CohortState | None:
    """Return the state of a Cohort."""
    tree = world.cache.tree_of_cohort(name)
    node = None if tree is None else tree.cohorts.get(name)
    if tree is None or node is None:
        return None
    reservation: dict[FlavorResource, Amount] = {}
    admitted = 0
    for queue in tree.queues_below(name):
        admitted += queue.admitted
        for flavor_resource, amount in queue.usage().items():
            reservation[flavor_resource] = reservation.get(flavor_resource, 0) + amount
    quota = {fr: node.subtree_quota[slot] for fr, slot in node.slot_by_flavor_resource.items()}
    return CohortState(
        name=name,
        parent=node.parent.name if node.parent is not None else "",
        root=_root_of(node) or name,
        admitted=admitted,
        quota=_nested(quota),
        reservation=_nested({fr: reservation.get(fr, 0) for fr in quota}),
        weighted_share=None if world.options.fair_sharing is None else share_of(node),
    )


def _root_of(node: QuotaNode) -> str:
    """Return the cohort at the top of a node's tree; "" for a ClusterQueue without a cohort."""
    if node.parent is None:
        return ""
    while node.parent is not None:
        node = node.parent
    return node.name


def take_restated(world: EngineParts) -> set[str]:
    """Return the LocalQueues whose set of active workloads changed, and clear that set."""
    found: set[str] = set()
    for name in world.quota_usage.changed_cluster_queues & world.pending.keys():
        pending = world.pending[name]
        found |= pending.restated
        pending.restated.clear()
    return found


def with_cohorts(world: EngineParts, changed: Changed) -> Changed:
    """Add the cohorts above the changed queues."""
    found: set[str] = set()
    for name in changed.cluster_queues:
        found.update(cohorts_above(world, name))
    return replace(changed, cohorts=tuple(sorted(found)))


def cohorts_above(world: EngineParts, cluster_queue: str) -> list[str]:
    """Return the cohorts that a ClusterQueue is below, the nearest first."""
    queue = world.cache.queues.get(cluster_queue)
    found: list[str] = []
    node = None if queue is None else queue.node.parent
    while node is not None:
        found.append(node.name)
        node = node.parent
    return found


def local_queue_state(world: EngineParts, key: str) -> LocalQueueState | None:
    """Return the state of a LocalQueue."""
    record = world.quota_usage.local_queues.get(key)
    if record is None or record.spec is None:
        return None
    queue = world.cache.queues.get(record.cluster_queue)
    pending = world.pending.get(record.cluster_queue)
    active = 0
    if pending is not None and queue is not None and queue.is_active:
        active = pending.active_of.get(key, 0)
    reason, message = QueueReason.READY, "Can submit new workloads to localQueue"
    if record.spec.stop_policy is not StopPolicy.NONE:
        reason, message = QueueReason.STOPPED, "LocalQueue is stopped"
    elif queue is None:
        reason = QueueReason.CLUSTER_QUEUE_DOES_NOT_EXIST
        message = "Can't submit new workloads to clusterQueue"
    elif not queue.is_active:
        reason = QueueReason.CLUSTER_QUEUE_IS_INACTIVE
        message = "Can't submit new workloads to clusterQueue"
    return LocalQueueState(
        key=key,
        active=reason is QueueReason.READY,
        reason=reason,
        message=message,
        pending=record.waiting,
        inadmissible=record.waiting - active,
        reserving=record.reserving,
        admitted=record.admitted,
        reservation=_usage(queue, record.reserved_usage) if queue is not None else {},
        usage=_usage(queue, record.admitted_usage) if queue is not None else {},
    )


def pending_workloads(world: EngineParts, cluster_queue: str) -> list[PendingWorkload]:
    """Return the waiting workloads in queue order with their positions."""
    pending = world.pending.get(cluster_queue)
    if pending is None:
        return []
    seen: dict[str, int] = {}
    result = []
    ordered = chain.from_iterable(ordered_in_steps(pending))
    for position, (key, local_queue) in enumerate(ordered):
        entry = pending.members[key]
        place = seen[local_queue] = seen.get(local_queue, -1) + 1
        result.append(
            PendingWorkload(
                workload=key,
                local_queue=local_queue,
                priority=entry.workload.priority,
                position_in_cluster_queue=position,
                position_in_local_queue=place,
                parked=entry.is_parked,
            )
        )
    return result


def requests_by_flavor(world: EngineParts, entry: Entry) -> dict[str, dict[str, Amount]]:
    """Return what a workload requests of each flavor of its ClusterQueue, over all pod sets.

    Counted as in a cycle: after transformations, with the pod count that the hardware needs, and
    for a slice only the difference to the one that it replaces. Empty if the queue is unknown.
    """
    workload = entry.workload
    queue = world.cache.queues.get(world.quota_usage.local_queue(workload.queue).cluster_queue)
    if queue is None:
        return {}
    holder = world.quota_usage.find_replaced(workload, queue.name)
    replaced = None if holder is None else replaced_slice(holder)
    requests: dict[str, dict[str, Amount]] = {}
    for name, resource in _covered(queue):
        flavor = world.cache.flavors.get(name)
        labels = {} if flavor is None else flavor.node_labels
        total: Amount = 0
        for pod_set in workload.pod_sets:
            asked = sum_requests(pod_set, pod_set.pods_on(name, labels), resource == PODS)
            if replaced is not None:
                asked = replaced.difference(pod_set.name, asked)
            total = add(total, asked.get(resource, 0))
        requests.setdefault(name, {})[resource] = total
    return requests


def workload_reason(world: EngineParts, entry: Entry) -> Explanation | None:
    """Return why a workload is pending: the first obstacle (E-114)."""
    workload = entry.workload
    is_shown = workload.stands_aside and workload.reservation is not None
    if entry.place is QueuePlace.HOLDING or is_shown:
        return None
    record = world.quota_usage.local_queue(workload.queue)
    queue = world.cache.queues.get(record.cluster_queue)

    def blocked(reason: Reason, note: str) -> Explanation:
        name = record.cluster_queue
        return Explanation(workload=entry.key, cluster_queue=name, cause=reason, note=note)

    state = _blocking_state(workload)
    if state is not None:
        return blocked(*state)
    local_queue = split_key(workload.queue)[1]
    if record.spec is None:
        return blocked(Reason.MISCONFIGURED, f"LocalQueue {local_queue} doesn't exist")
    if not record.is_open:
        return blocked(Reason.SUSPENDED, f"LocalQueue {local_queue} is inactive")
    if queue is None:
        return blocked(Reason.MISCONFIGURED, f"ClusterQueue {record.cluster_queue} doesn't exist")
    if not queue.is_active:
        return blocked(Reason.SUSPENDED, f"ClusterQueue {queue.name} is inactive")
    return _own_reason(world, entry, queue, workload)


def _blocking_state(workload: Workload) -> tuple[Reason, str] | None:
    if not workload.active:
        return (Reason.DEACTIVATED, "The workload is deactivated")
    if workload.terminating:
        return (Reason.PENDING_EVALUATION, "The workload is being deleted")
    if workload.is_broken:
        return (Reason.MISCONFIGURED, "QuotaReserved is True, but status.admission is empty")
    if workload.on_hold:
        return (Reason.ON_HOLD, "The workload is on hold")
    return None


def _own_reason(
    world: EngineParts, entry: Entry, queue: CachedQueue, workload: Workload
) -> Explanation:
    def blocked(reason: Reason, note: str) -> Explanation:
        return Explanation(workload=entry.key, cluster_queue=queue.name, cause=reason, note=note)

    rejected = reject(workload, queue, world.cache)
    if rejected is not None:
        return blocked(rejected.reason, rejected.note)
    if workload.stands_aside:
        return explain_parent(workload, queue, world.quota_usage)
    if workload.gated_by:
        return blocked(Reason.ADMISSION_GATED, f"Admission is gated by: {workload.gated_by}")
    if entry.explanation is not None:
        return entry.explanation
    verdict = entry.equals.verdict if entry.equals is not None else None
    if verdict is not None:
        return Explanation(
            workload=entry.key,
            cluster_queue=queue.name,
            cause=verdict.reason,
            note=BYPASSED,
            pod_sets=verdict.pod_sets,
        )
    return blocked(
        Reason.PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue"
    )


def _covered(queue: CachedQueue) -> Iterable[FlavorResource]:
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for resource in group.covered_resources:
                yield flavor.name, resource


def _usage(queue: CachedQueue, usage: Mapping[FlavorResource, Amount]) -> Usage:
    node = queue.node
    return _nested(
        {
            fr: UsedQuota(
                total=usage.get(fr, 0),
                borrowed=max(0, usage.get(fr, 0) - node.nominal[node.slot_by_flavor_resource[fr]]),
            )
            for fr in _covered(queue)
        }
    )


def _nested(flat: Mapping[FlavorResource, T]) -> dict[str, dict[str, T]]:
    nested: dict[str, dict[str, T]] = {}
    for (flavor, resource), value in flat.items():
        nested.setdefault(flavor, {})[resource] = value
    return nested
