"""ClusterQueue, Cohort and LocalQueue as the engine sees them: integers and enums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import Quantity

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
    nothing; ``concurrent`` is None if workloads are not tried in variants.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A node of the quota tree; ``parent`` is "" at the root."""

    name: str
    parent: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    weight: Quantity = DEFAULT_WEIGHT


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
