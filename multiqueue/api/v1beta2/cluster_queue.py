"""ClusterQueue and Cohort: who may use how much of which flavor."""

from __future__ import annotations

from multiqueue.api.v1beta2.meta import Condition, LabelSelector, ObjectMeta, QuantityValue, Struct


class ResourceQuota(Struct, frozen=True, kw_only=True):
    """Quota of one resource in one flavor."""

    name: str
    nominal_quota: QuantityValue
    borrowing_limit: QuantityValue | None = None
    lending_limit: QuantityValue | None = None


class FlavorQuotas(Struct, frozen=True, kw_only=True):
    """Quotas of one flavor."""

    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Struct, frozen=True, kw_only=True):
    """Resources that are always taken from the same flavor, and the flavors in order of preference."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorFungibility(Struct, frozen=True, kw_only=True):
    """When to go on to the next flavor."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class BorrowWithinCohort(Struct, frozen=True, kw_only=True):
    """Preempting others while borrowing."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class ClusterQueuePreemption(Struct, frozen=True, kw_only=True):
    """Which workloads may be preempted for one of this queue."""

    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None
    within_cluster_queue: str = "Never"


class AdmissionCheckStrategyRule(Struct, frozen=True, kw_only=True):
    """An admission check and the flavors it applies to; no flavors means all."""

    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Struct, frozen=True, kw_only=True):
    """Admission checks of a ClusterQueue."""

    admission_checks: tuple[AdmissionCheckStrategyRule, ...] = ()


class FairSharing(Struct, frozen=True, kw_only=True):
    """Weight in fair sharing."""

    weight: QuantityValue | None = None


class AdmissionScope(Struct, frozen=True, kw_only=True):
    """Admission fair sharing mode."""

    admission_mode: str = ""


class ConcurrentAdmissionConstraints(Struct, frozen=True, kw_only=True):
    """Limits of migrations between flavors."""

    last_acceptable_flavor_name: str | None = None


class ConcurrentAdmissionMigration(Struct, frozen=True, kw_only=True):
    """How variants of a Workload move to better flavors."""

    mode: str = ""
    constraints: ConcurrentAdmissionConstraints | None = None


class ConcurrentAdmissionPolicy(Struct, frozen=True, kw_only=True):
    """Concurrent admission over several flavors."""

    migration: ConcurrentAdmissionMigration | None = None


class ClusterQueueSpec(Struct, frozen=True, kw_only=True):
    """Quotas and policies of a ClusterQueue."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: ClusterQueuePreemption | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ResourceUsage(Struct, frozen=True, kw_only=True):
    """Usage of one resource in one flavor."""

    name: str
    total: QuantityValue = 0
    borrowed: QuantityValue = 0


class FlavorUsage(Struct, frozen=True, kw_only=True):
    """Usage of one flavor."""

    name: str
    resources: tuple[ResourceUsage, ...] = ()


class FairSharingStatus(Struct, frozen=True, kw_only=True):
    """Current share."""

    weighted_share: int = 0


class ClusterQueueStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a ClusterQueue."""

    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Struct, frozen=True, kw_only=True):
    """A pool of quota that governs workloads of many namespaces."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortSpec(Struct, frozen=True, kw_only=True):
    """Quota and place of a Cohort in the tree."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a Cohort."""

    fair_sharing: FairSharingStatus | None = None


class Cohort(Struct, frozen=True, kw_only=True):
    """A node of the quota tree: its members lend each other what they do not use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()
