"""Queues, who holds their quota, and requests for more of it: the world of a preemption search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.disruption.disruption import Disruption
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.preemption.candidates import HolderIndex, PastUsage
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.search import find_targets
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.model.cluster_queue import ClusterQueue, Cohort, Preemption, PreemptionPolicy
from multiqueue.model.disruption_policy import DisruptionRules
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.resources import parse_request
from multiqueue.model.workload import Admission, PodSetAssignment, Reservation, Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    quota,
    resource_name,
    with_changes,
)

NEVER = PreemptionPolicy.NEVER
LOWER = PreemptionPolicy.LOWER_PRIORITY
LOWER_OR_NEWER = PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY
ANY = PreemptionPolicy.ANY


def make_preemption(
    *,
    own: PreemptionPolicy = NEVER,
    reclaim: PreemptionPolicy = NEVER,
    while_borrowing: PreemptionPolicy = NEVER,
    threshold: int | None = None,
) -> Preemption:
    return Preemption(
        within_cluster_queue=own,
        reclaim_within_cohort=reclaim,
        borrow_within_cohort=while_borrowing,
        borrow_max_priority_threshold=threshold,
    )


def make_cpu_queue(
    name: str,
    cpu: int,
    *,
    cohort: str = "",
    borrow: int | None = None,
    lend: int | None = None,
    **policies: Any,
) -> ClusterQueue:
    """A ClusterQueue with this much cpu of flavor "default", and the policies of its name."""
    return make_queue(
        name,
        flavor_quotas("default", cpu=quota("cpu", cpu, borrow=borrow, lend=lend)),
        cohort=cohort,
        preemption=make_preemption(**policies),
    )


class Holdings:
    """Quotas and who holds them; nobody waits here."""

    def __init__(
        self,
        *queues: ClusterQueue,
        cohorts: Sequence[Cohort] = (),
        options: EngineOptions | None = None,
    ) -> None:
        self.cache = Cache()
        self.quota_usage = QuotaUsage(self.cache)
        self.options = options or EngineOptions()
        self.past_usage: PastUsage | None = None
        self.index = HolderIndex(self.quota_usage)
        self.disruption = Disruption(self.cache, self.quota_usage)
        self.held: dict[str, Entry] = {}
        for queue in queues:
            for flavor in {f.name for group in queue.resource_groups for f in group.flavors}:
                self.cache.set_flavor(flavor, ResourceFlavor(name=flavor))
        for cohort in cohorts:
            self.cache.upsert_cohort(cohort)
        for queue in queues:
            self.cache.upsert_cluster_queue(queue)

    def queue(self, name: str) -> CachedQueue:
        return self.cache.queues[name]

    def hold(
        self,
        name: str,
        queue: str,
        *,
        flavor: str = "default",
        at: datetime = T0,
        reserved_at: datetime = T0,
        is_evicted: bool = False,
        local_queue: str = "lq",
        priority: int = 0,
        **amounts: str | int,
    ) -> Entry:
        """Let a new workload hold quota of a queue."""
        named = {resource_name(short): raw for short, raw in amounts.items()}
        usage = {resource: parse_request(resource, raw) for resource, raw in named.items()}
        pod_set = PodSetAssignment(name="main", flavors=dict.fromkeys(usage, flavor), usage=usage)
        admission = Admission(cluster_queue=queue, pod_sets=(pod_set,))
        entry = Entry(
            make_workload(
                name,
                at=at,
                queue=local_queue,
                priority=priority,
                evicted=condition("Evicted", status=True) if is_evicted else None,
                reservation=Reservation(admission=admission, reserved_at=reserved_at),
            )
        )
        self.quota_usage.charge(entry, admission, at=reserved_at, admitted=True)
        self.held[name] = entry
        return entry

    def change(self, name: str, **changes: object) -> None:
        """Let a newer object of a holder arrive."""
        entry = self.held[name]
        self.quota_usage.replace_holder(entry, with_changes(entry.workload, **changes))

    def govern(self, rules: DisruptionRules, *, now: datetime = T0) -> None:
        """Put a DisruptionPolicy in force, for the queues that name it."""
        self.disruption.set_policy(rules.name, rules)
        self.disruption.advance(now)

    def release(self, name: str) -> None:
        self.quota_usage.release(self.held.pop(name))

    def request(
        self,
        queue: str,
        *,
        priority: int = 0,
        at: datetime = T0,
        flavor: str = "default",
        contested: Collection[str] | None = None,
        **amounts: str | int,
    ) -> PreemptionRequest:
        """Ask for this much of a queue; all of it is contested unless told otherwise."""
        cached = self.cache.queues[queue]
        slots = {short: cached.node.slot((flavor, resource_name(short))) for short in amounts}
        contested = amounts.keys() if contested is None else contested
        return PreemptionRequest(
            tree=self.cache.tree_by_queue[queue],
            queue=cached,
            workload=self.preemptor(priority=priority, at=at),
            usage={
                slots[short]: parse_request(resource_name(short), raw)
                for short, raw in amounts.items()
            },
            contested=frozenset(slots[short] for short in contested),
        )

    def preemptor(self, *, priority: int = 0, at: datetime = T0) -> Workload:
        return make_workload("preemptor", priority=priority, at=at)

    def context(self, *excluded: str) -> SearchContext:
        return SearchContext(
            holders=self.index,
            options=self.options,
            excluded=frozenset(f"{NAMESPACE}/{name}" for name in excluded),
            past_usage=self.past_usage,
            disruption=self.disruption,
        )

    def find(self, request: PreemptionRequest, *excluded: str) -> list[Target]:
        return find_targets(request, self.context(*excluded))

    def targets(self, request: PreemptionRequest, *excluded: str) -> list[tuple[str, Reason]]:
        """Search, and return names and reasons of the targets in their order."""
        found = self.find(request, *excluded)
        return [(target.entry.key.partition("/")[2], target.reason) for target in found]

    def names(self, request: PreemptionRequest, *excluded: str) -> list[str]:
        return [name for name, _ in self.targets(request, *excluded)]

    def usage(self) -> dict[tuple[str, FlavorResource], int]:
        """Return the usage of every node; zeros are as good as no slot."""
        nodes = {}
        for tree in self.cache.trees.values():
            nodes |= {f"queue {queue.name}": queue.node for queue in tree.queues.values()}
            nodes |= {f"cohort {node.name}": node for node in tree.cohorts.values()}
        return {
            (name, pair): node.usage[slot]
            for name, node in nodes.items()
            for pair, slot in node.slot_by_flavor_resource.items()
            if node.usage[slot]
        }
