"""ClusterQueue, Cohort and LocalQueue as the engine sees them, and how they are read.

The API objects are in `api/v1beta2/cluster_queue.py`, their defaults and rules in
`api/validation/cluster_queue.py`. The build functions raise `QuantityError` for quotas that no API
server accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, is_true
from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import Quantity, parse_quantity
from multiqueue.model.disruption_policy import named_policy
from multiqueue.model.resources import parse_quota

DEFAULT_WEIGHT = Quantity.of(1)


class QueueingStrategy(StrEnum):
    """How a head that does not fit affects the workloads behind it."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits, and what happens to its admitted workloads."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class AdmissionMode(StrEnum):
    """Whether the LocalQueues of a ClusterQueue take turns by their past usage (E-20)."""

    USAGE_BASED = "UsageBasedAdmissionFairSharing"
    NONE = "NoAdmissionFairSharing"


class FungibilityPolicy(StrEnum):
    """Whether to take a flavor that needs borrowing or preemption, or to try the next one first."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FungibilityPreference(StrEnum):
    """Which of two flavors is better if one borrows and the other preempts (E-50)."""

    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class PreemptionPolicy(StrEnum):
    """Which workloads may be preempted, by their priority (E-87)."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Quota of one resource in one flavor. Limits are None if unset."""

    nominal: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuotas:
    """Quotas of one flavor, by resource."""

    name: str
    quotas: Mapping[str, Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """Resources always taken from the same flavor, and the flavors in order of preference."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """When to try the next flavor (E-51)."""

    when_can_borrow: FungibilityPolicy = FungibilityPolicy.MAY_STOP_SEARCH
    when_can_preempt: FungibilityPolicy = FungibilityPolicy.TRY_NEXT_FLAVOR
    preference: FungibilityPreference = FungibilityPreference.BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Which workloads a workload of this queue may preempt."""

    within_cluster_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    borrow_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    borrow_max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """An admission check and its flavors; no flavors means all of the queue."""

    name: str
    on_flavors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentAdmission:
    """Each workload is tried in one variant for each flavor (E-170).

    Shape: ``last_acceptable`` is the last flavor to which a running workload moves, "" if it may
    move to any better one.
    """

    last_acceptable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A pool of quota.

    Shape: ``cohort`` is "" for a queue without one; a ``namespace_selector`` of None matches
    nothing; ``concurrent`` is None if workloads are not tried in variants. ``disruption_policy``
    is the name in its annotation.
    """

    name: str
    cohort: str = ""
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: LabelSelector | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    checks: tuple[CheckRule, ...] = ()
    stop_policy: StopPolicy = StopPolicy.NONE
    terminating: bool = False
    weight: Quantity = DEFAULT_WEIGHT
    admission_mode: AdmissionMode = AdmissionMode.NONE
    concurrent: ConcurrentAdmission | None = None
    disruption_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A node of the quota tree; ``parent`` is "" at the root."""

    name: str
    parent: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    weight: Quantity = DEFAULT_WEIGHT
    disruption_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """The queue to which users of a namespace submit; ``key`` is ``namespace/name``."""

    key: str
    cluster_queue: str
    stop_policy: StopPolicy = StopPolicy.NONE
    terminating: bool = False
    weight: Quantity = DEFAULT_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckInfo:
    """The fields of an AdmissionCheck that the engine needs."""

    name: str
    active: bool = True
    controller_name: str = ""


def build_cluster_queue(obj: api.ClusterQueue, *, concurrent: bool = False) -> ClusterQueue:
    """Turn a ClusterQueue into the engine's value; its status does not count.

    Args:
        obj: The ClusterQueue.
        concurrent: Gate ConcurrentAdmission: its policy counts.
    """
    spec = obj.spec
    strategy, scope = spec.admission_checks_strategy, spec.admission_scope
    usage_based = scope is not None and scope.admission_mode == AdmissionMode.USAGE_BASED
    return ClusterQueue(
        name=obj.metadata.name,
        cohort=spec.cohort_name,
        strategy=QueueingStrategy(spec.queueing_strategy),
        namespace_selector=spec.namespace_selector,
        resource_groups=_build_resource_groups(spec.resource_groups),
        fungibility=_build_fungibility(spec.flavor_fungibility),
        preemption=_build_preemption(spec.preemption),
        checks=tuple(
            CheckRule(name=rule.name, on_flavors=frozenset(rule.on_flavors))
            for rule in (strategy.admission_checks if strategy else ())
        ),
        stop_policy=StopPolicy(spec.stop_policy),
        terminating=bool(obj.metadata.deletion_timestamp),
        weight=_build_weight(spec.fair_sharing),
        # Any other text, which v1beta1 allows, means no fair sharing, as upstream reads it.
        admission_mode=AdmissionMode.USAGE_BASED if usage_based else AdmissionMode.NONE,
        concurrent=_build_concurrent(obj) if concurrent else None,
        disruption_policy=named_policy(obj.metadata),
    )


def _build_concurrent(obj: api.ClusterQueue) -> ConcurrentAdmission | None:
    policy = obj.spec.concurrent_admission_policy
    if policy is None:
        return None
    limits = policy.migration.constraints if policy.migration else None
    last = limits.last_acceptable_flavor_name if limits else None
    return ConcurrentAdmission(last_acceptable=last or "")


def build_cohort(obj: api.Cohort) -> Cohort:
    """Turn a Cohort into the engine's value."""
    return Cohort(
        name=obj.metadata.name,
        parent=obj.spec.parent_name,
        resource_groups=_build_resource_groups(obj.spec.resource_groups),
        weight=_build_weight(obj.spec.fair_sharing),
        disruption_policy=named_policy(obj.metadata),
    )


def build_local_queue(obj: api.LocalQueue) -> LocalQueue:
    """Turn a LocalQueue into the engine's value."""
    return LocalQueue(
        key=obj.metadata.key,
        cluster_queue=obj.spec.cluster_queue,
        stop_policy=StopPolicy(obj.spec.stop_policy),
        terminating=bool(obj.metadata.deletion_timestamp),
        weight=_build_weight(obj.spec.fair_sharing),
    )


def build_admission_check(obj: api.AdmissionCheck) -> AdmissionCheckInfo:
    """Turn an AdmissionCheck into the engine's value."""
    return AdmissionCheckInfo(
        name=obj.metadata.name,
        active=is_true(obj.status.conditions, ACTIVE),
        controller_name=obj.spec.controller_name,
    )


def _build_resource_groups(groups: tuple[api.ResourceGroup, ...]) -> tuple[ResourceGroup, ...]:
    """Turn the quotas of a ClusterQueue or a Cohort into the engine's values."""
    return tuple(
        ResourceGroup(
            covered_resources=group.covered_resources,
            flavors=tuple(
                FlavorQuotas(
                    name=flavor.name,
                    quotas={quota.name: _quota(quota) for quota in flavor.resources},
                )
                for flavor in group.flavors
            ),
        )
        for group in groups
    )


def _quota(quota: api.ResourceQuota) -> Quota:
    def limit(raw: str | float | None) -> int | None:
        return None if raw is None else parse_quota(quota.name, raw)

    return Quota(
        nominal=parse_quota(quota.name, quota.nominal_quota),
        borrowing_limit=limit(quota.borrowing_limit),
        lending_limit=limit(quota.lending_limit),
    )


def _build_fungibility(obj: api.FlavorFungibility | None) -> FlavorFungibility:
    """Return the policy, with defaults for unset fields."""
    if obj is None:
        return FlavorFungibility()
    return FlavorFungibility(
        when_can_borrow=FungibilityPolicy(obj.when_can_borrow),
        when_can_preempt=FungibilityPolicy(obj.when_can_preempt),
        preference=FungibilityPreference(obj.preference)
        if obj.preference
        else FungibilityPreference.BORROWING_OVER_PREEMPTION,
    )


def _build_preemption(obj: api.ClusterQueuePreemption | None) -> Preemption:
    """Return the preemption policy of a ClusterQueue; unset fields preempt nobody."""
    if obj is None:
        return Preemption()
    borrow = obj.borrow_within_cohort
    return Preemption(
        within_cluster_queue=PreemptionPolicy(obj.within_cluster_queue),
        reclaim_within_cohort=PreemptionPolicy(obj.reclaim_within_cohort),
        borrow_within_cohort=PreemptionPolicy(borrow.policy) if borrow else PreemptionPolicy.NEVER,
        borrow_max_priority_threshold=borrow.max_priority_threshold if borrow else None,
    )


def _build_weight(obj: api.FairSharing | None) -> Quantity:
    """Return the weight in fair sharing."""
    return DEFAULT_WEIGHT if obj is None or obj.weight is None else parse_quantity(obj.weight)
