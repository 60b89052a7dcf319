"""ClusterQueue and Cohort: who may use how much of which flavor."""

from typing import Annotated, ClassVar

from multiqueue.api.markers import REFERENCE, SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import Condition, LabelSelector, ObjectMeta, QuantityValue, Struct

STOP_POLICY = described(
    "None: works. Hold: admits nothing new. HoldAndDrain: also evicts what was admitted.",
    enum=["None", "Hold", "HoldAndDrain"],
    default="None",
)
_USAGE = {"list_map_keys": ("name",), "maxItems": 64}


class ResourceQuota(Struct, frozen=True, kw_only=True):
    """Quota of one resource in one flavor."""

    name: Annotated[str, described("Resource, such as cpu or nvidia.com/gpu.")]
    nominal_quota: Annotated[
        QuantityValue,
        described("What is reserved for this queue and, while unused, lent to its cohort."),
    ]
    borrowing_limit: Annotated[
        QuantityValue | None,
        described("Most that may be borrowed from the cohort on top; absent means no limit."),
    ] = None
    lending_limit: Annotated[
        QuantityValue | None,
        described("Most of the nominal quota that is lent while unused; absent means all of it."),
    ] = None


class FlavorQuotas(Struct, frozen=True, kw_only=True):
    """Quotas of one flavor."""

    name: Annotated[str, described("Name of a ResourceFlavor.", required=True, **REFERENCE)]
    resources: Annotated[
        tuple[ResourceQuota, ...],
        described(
            "Quota of every covered resource.",
            required=True,
            list_map_keys=("name",),
            minItems=1,
            maxItems=64,
        ),
    ] = ()


class ResourceGroup(Struct, frozen=True, kw_only=True):
    """Resources that always come from the same flavor, and the flavors in order of preference."""

    rules: ClassVar = (
        SchemaRule(
            "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        ),
    )

    covered_resources: Annotated[
        tuple[str, ...],
        described(
            "Resources of this group. Each may be in one group of a queue only.",
            required=True,
            minItems=1,
            maxItems=64,
        ),
    ] = ()
    flavors: Annotated[
        tuple[FlavorQuotas, ...],
        described(
            "Flavors that give these resources, tried in this order.",
            required=True,
            list_map_keys=("name",),
            minItems=1,
            maxItems=64,
        ),
    ] = ()


_RESOURCE_GROUPS = described(
    "Groups of resources, each with its flavors and their quota.", maxItems=16
)


class FlavorFungibility(Struct, frozen=True, kw_only=True):
    """When to go on to the next flavor."""

    rules: ClassVar = (
        SchemaRule(
            "!has(self.preference) || "
            "(self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
            "preference may only be set when whenCanBorrow and whenCanPreempt are TryNextFlavor",
        ),
    )

    when_can_borrow: Annotated[
        str,
        described(
            "What to do where a workload fits by borrowing: take the flavor or try the next one.",
            enum=["MayStopSearch", "TryNextFlavor"],
            default="MayStopSearch",
        ),
    ] = "MayStopSearch"
    when_can_preempt: Annotated[
        str,
        described(
            "What to do where a workload fits by preemption: take the flavor or try the next one.",
            enum=["MayStopSearch", "TryNextFlavor"],
            default="TryNextFlavor",
        ),
    ] = "TryNextFlavor"
    preference: Annotated[
        str | None,
        described(
            "Which of the two is better when every flavor was tried.",
            enum=["BorrowingOverPreemption", "PreemptionOverBorrowing"],
        ),
    ] = None


class BorrowWithinCohort(Struct, frozen=True, kw_only=True):
    """Preempting others while borrowing."""

    policy: Annotated[
        str,
        described(
            "Never, or workloads of lower priority in other queues of the cohort.",
            enum=["Never", "LowerPriority"],
            default="Never",
        ),
    ] = "Never"
    max_priority_threshold: Annotated[
        int | None,
        described("Only workloads of at most this priority are preempted.", format="int32"),
    ] = None


class ClusterQueuePreemption(Struct, frozen=True, kw_only=True):
    """Which workloads may be preempted for one of this queue."""

    rules: ClassVar = (
        SchemaRule(
            "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
            "self.borrowWithinCohort.policy != 'Never')",
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
    )

    reclaim_within_cohort: Annotated[
        str,
        described(
            "Which workloads that borrow may be preempted to get the nominal quota back.",
            enum=["Never", "LowerPriority", "Any"],
            default="Never",
        ),
    ] = "Never"
    borrow_within_cohort: Annotated[
        BorrowWithinCohort | None,
        described("Preemption by a workload that itself has to borrow.", default={}),
    ] = None
    within_cluster_queue: Annotated[
        str,
        described(
            "Which workloads of this queue may be preempted.",
            enum=["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
            default="Never",
        ),
    ] = "Never"


class AdmissionCheckStrategyRule(Struct, frozen=True, kw_only=True):
    """An admission check and the flavors it applies to; no flavors means all."""

    name: Annotated[
        str, described("Name of an AdmissionCheck.", required=True, minLength=1, maxLength=316)
    ]
    on_flavors: Annotated[
        tuple[Annotated[str, described("", **REFERENCE)], ...],
        described("Flavors that need the check; empty means all.", list_type="set", maxItems=64),
    ] = ()


class AdmissionChecksStrategy(Struct, frozen=True, kw_only=True):
    """Admission checks of a ClusterQueue."""

    admission_checks: Annotated[
        tuple[AdmissionCheckStrategyRule, ...],
        described(
            "Checks that workloads need, and for which flavors.",
            required=True,
            list_map_keys=("name",),
            minItems=1,
            maxItems=64,
        ),
    ] = ()


class FairSharing(Struct, frozen=True, kw_only=True):
    """Weight in fair sharing."""

    weight: Annotated[
        QuantityValue | None,
        described("Twice the weight, twice the share. 0 gives way to everybody else.", default=1),
    ] = None


class AdmissionScope(Struct, frozen=True, kw_only=True):
    """Admission fair sharing mode."""

    admission_mode: Annotated[
        str,
        described(
            "Whether LocalQueues are ordered by their past usage.",
            required=True,
            enum=["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"],
        ),
    ] = ""


class ConcurrentAdmissionConstraints(Struct, frozen=True, kw_only=True):
    """Limits of migrations between flavors."""

    last_acceptable_flavor_name: Annotated[
        str | None, described("Flavors after this one are not tried.", **REFERENCE)
    ] = None


class ConcurrentAdmissionMigration(Struct, frozen=True, kw_only=True):
    """How variants of a Workload move to better flavors."""

    mode: Annotated[
        str,
        described(
            "Whether a running workload moves when a preferred flavor is free.",
            required=True,
            enum=["TryPreferredFlavors", "RetainFirstAdmission"],
        ),
    ] = ""
    constraints: Annotated[
        ConcurrentAdmissionConstraints | None, described("Limits of the migration.")
    ] = None


class ConcurrentAdmissionPolicy(Struct, frozen=True, kw_only=True):
    """Concurrent admission over several flavors."""

    migration: Annotated[
        ConcurrentAdmissionMigration | None, described("How workloads move.", required=True)
    ] = None


class ClusterQueueSpec(Struct, frozen=True, kw_only=True):
    """Quotas and policies of a ClusterQueue."""

    resource_groups: Annotated[tuple[ResourceGroup, ...], _RESOURCE_GROUPS] = ()
    cohort_name: Annotated[
        str,
        described("Cohort whose members lend each other what they do not use.", **REFERENCE),
    ] = ""
    queueing_strategy: Annotated[
        str,
        described(
            "BestEffortFIFO: a workload that does not fit lets smaller ones pass. StrictFIFO: it "
            "blocks the queue.",
            enum=["StrictFIFO", "BestEffortFIFO"],
            default="BestEffortFIFO",
        ),
    ] = "BestEffortFIFO"
    namespace_selector: Annotated[
        LabelSelector | None,
        described(
            "Namespaces whose workloads may use this queue. {} means all, absent means none.",
            **{"x-kubernetes-map-type": "atomic"},
        ),
    ] = None
    flavor_fungibility: Annotated[
        FlavorFungibility | None,
        described("When to go on to the next flavor.", default={}),
    ] = None
    preemption: Annotated[
        ClusterQueuePreemption | None,
        described("Which workloads may be preempted for one of this queue.", default={}),
    ] = None
    admission_checks_strategy: Annotated[
        AdmissionChecksStrategy | None, described("Checks beside quota.")
    ] = None
    stop_policy: Annotated[str, STOP_POLICY] = "None"
    fair_sharing: Annotated[
        FairSharing | None, described("Weight of this queue in its cohort.")
    ] = None
    admission_scope: Annotated[
        AdmissionScope | None, described("Order between the LocalQueues of this queue.")
    ] = None
    concurrent_admission_policy: Annotated[
        ConcurrentAdmissionPolicy | None,
        described("Trying several flavors at the same time."),
    ] = None


class ResourceUsage(Struct, frozen=True, kw_only=True):
    """Usage of one resource in one flavor."""

    name: Annotated[str, described("Resource.", required=True)]
    total: Annotated[QuantityValue, described("Used in all, borrowed quota included.")] = 0
    borrowed: Annotated[QuantityValue, described("Part of it that is borrowed.")] = 0


class FlavorUsage(Struct, frozen=True, kw_only=True):
    """Usage of one flavor."""

    name: Annotated[str, described("Name of the flavor.", required=True, **REFERENCE)]
    resources: Annotated[
        tuple[ResourceUsage, ...],
        described("Usage by resource.", required=True, list_map_keys=("name",), maxItems=64),
    ] = ()


class FairSharingStatus(Struct, frozen=True, kw_only=True):
    """Current share."""

    weighted_share: Annotated[
        int,
        described(
            "Borrowed part of the most used resource, in 1/1000 of what can be lent, by weight.",
            required=True,
            format="int64",
        ),
    ] = 0


class ClusterQueueStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a ClusterQueue."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    flavors_reservation: Annotated[
        tuple[FlavorUsage, ...], described("Quota held by workloads.", **_USAGE)
    ] = ()
    flavors_usage: Annotated[
        tuple[FlavorUsage, ...], described("Quota of admitted workloads.", **_USAGE)
    ] = ()
    pending_workloads: Annotated[int, described("Workloads that wait.")] = 0
    reserving_workloads: Annotated[int, described("Workloads that hold quota.")] = 0
    admitted_workloads: Annotated[int, described("Workloads that may run.")] = 0
    fair_sharing: Annotated[FairSharingStatus | None, described("Share of this queue.")] = None


class ClusterQueue(Struct, frozen=True, kw_only=True):
    """A pool of quota that governs workloads of many namespaces."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ClusterQueueSpec, described("Quotas and policies.")] = ClusterQueueSpec()
    status: Annotated[ClusterQueueStatus, described("Observed state.")] = ClusterQueueStatus()


class CohortSpec(Struct, frozen=True, kw_only=True):
    """Quota and place of a Cohort in the tree."""

    parent_name: Annotated[
        str,
        described(
            "Cohort above this one; it need not exist. Cycles stop all members.", **REFERENCE
        ),
    ] = ""
    resource_groups: Annotated[tuple[ResourceGroup, ...], _RESOURCE_GROUPS] = ()
    fair_sharing: Annotated[
        FairSharing | None, described("Weight of this cohort under its parent.")
    ] = None


class CohortStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a Cohort."""

    fair_sharing: Annotated[FairSharingStatus | None, described("Share of this cohort.")] = None


class Cohort(Struct, frozen=True, kw_only=True):
    """A node of the quota tree: its members lend each other what they do not use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[CohortSpec, described("Quota and place in the tree.")] = CohortSpec()
    status: Annotated[CohortStatus, described("Observed state.")] = CohortStatus()
