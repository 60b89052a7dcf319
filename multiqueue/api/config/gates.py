"""Feature gates: names, stages, defaults and dependencies, and the frozen set in force.

Parity: the gates of Kueue 0.20. If the other setting of a gate has no effect here yet, setting it
is an error, because ignoring it silently would be worse.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Gate(StrEnum):
    """Names of all feature gates of the reference."""

    PARTIAL_ADMISSION = "PartialAdmission"
    FLAVOR_FUNGIBILITY = "FlavorFungibility"
    VISIBILITY_ON_DEMAND = "VisibilityOnDemand"
    DISABLE_WAIT_FOR_PODS_READY = "DisableWaitForPodsReady"
    PRIORITY_SORTING_WITHIN_COHORT = "PrioritySortingWithinCohort"
    FAIR_SHARING_PREEMPT_WITHIN_NOMINAL = "FairSharingPreemptWithinNominal"
    FAIR_SHARING_PRIORITIZE_NON_BORROWING = "FairSharingPrioritizeNonBorrowing"
    MULTIKUEUE = "MultiKueue"
    TOPOLOGY_AWARE_SCHEDULING = "TopologyAwareScheduling"
    LOCAL_QUEUE_METRICS = "LocalQueueMetrics"
    TAS_PROFILE_MIXED = "TASProfileMixed"
    ADMISSION_FAIR_SHARING = "AdmissionFairSharing"
    TAS_FAILED_NODE_REPLACEMENT = "TASFailedNodeReplacement"
    ELASTIC_JOBS_VIA_WORKLOAD_SLICES = "ElasticJobsViaWorkloadSlices"
    ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_TAS = "ElasticJobsViaWorkloadSlicesWithTAS"
    TAS_FAILED_NODE_REPLACEMENT_FAIL_FAST = "TASFailedNodeReplacementFailFast"
    TAS_REPLACE_NODE_ON_POD_TERMINATION = "TASReplaceNodeOnPodTermination"
    SKIP_REASSIGNMENT_FOR_POD_OWNED_WORKLOADS = "SkipReassignmentForPodOwnedWorkloads"
    TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME = "TASReplaceNodeDueToNotReadyOverFixedTime"
    MANAGED_JOBS_NAMESPACE_SELECTOR_ALWAYS_RESPECTED = "ManagedJobsNamespaceSelectorAlwaysRespected"
    TAS_BALANCED_PLACEMENT = "TASBalancedPlacement"
    TAS_ASSIGNMENTS_ENCODING_BY_HOSTNAME_PREFIX = "TASAssignmentsEncodingByHostnamePrefix"
    KUEUE_DRA_INTEGRATION = "KueueDRAIntegration"
    KUEUE_DRA_INTEGRATION_EXTENDED_RESOURCE = "KueueDRAIntegrationExtendedResource"
    KUEUE_DRA_REJECT_WORKLOADS_WHEN_DRA_DISABLED = "KueueDRARejectWorkloadsWhenDRADisabled"
    KUEUE_DRA_INTEGRATION_PARTITIONABLE_DEVICES = "KueueDRAIntegrationPartitionableDevices"
    KUEUE_DRA_INTEGRATION_CONSUMABLE_CAPACITY = "KueueDRAIntegrationConsumableCapacity"
    MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS = "MultiKueueAdaptersForCustomJobs"
    WORKLOAD_REQUEST_USE_MERGE_PATCH = "WorkloadRequestUseMergePatch"
    MULTIKUEUE_KUBE_CONFIG_PATH_VALIDATION = "MultiKueueKubeConfigPathValidation"
    RECLAIMABLE_PODS = "ReclaimablePods"
    MULTIKUEUE_CLUSTER_PROFILE = "MultiKueueClusterProfile"
    FAILURE_RECOVERY_POLICY = "FailureRecoveryPolicy"
    TLS_OPTIONS = "TLSOptions"
    REMOVE_FINALIZERS_WITH_STRICT_PATCH = "RemoveFinalizersWithStrictPatch"
    TAS_REPLACE_NODE_ON_NODE_TAINTS = "TASReplaceNodeOnNodeTaints"
    ASSIGN_QUEUE_LABELS_FOR_PODS = "AssignQueueLabelsForPods"
    TAS_MULTI_LAYER_TOPOLOGY = "TASMultiLayerTopology"
    SCHEDULING_EQUIVALENCE_HASHING = "SchedulingEquivalenceHashing"
    CUSTOM_METRIC_LABELS = "CustomMetricLabels"
    SPARK_APPLICATION_INTEGRATION = "SparkApplicationIntegration"
    MULTIKUEUE_ORCHESTRATED_PREEMPTION = "MultiKueueOrchestratedPreemption"
    PRIORITY_BOOST = "PriorityBoost"
    ADMISSION_GATED_BY = "AdmissionGatedBy"
    SHORT_WORKLOAD_NAMES = "ShortWorkloadNames"
    FAST_QUOTA_RELEASE_IN_POD_INTEGRATION = "FastQuotaReleaseInPodIntegration"
    REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS = "RejectUpdatesToCQWithInvalidOnFlavors"
    FINISH_ORPHANED_WORKLOADS = "FinishOrphanedWorkloads"
    MULTIKUEUE_INCREMENTAL_DISPATCHER_CONFIG = "MultiKueueIncrementalDispatcherConfig"
    MULTIKUEUE_INCREMENTAL_DISPATCHER_RESPECT_CONFIG_ORDER = (
        "MultiKueueIncrementalDispatcherRespectConfigOrder"
    )
    CONCURRENT_ADMISSION = "ConcurrentAdmission"
    QUOTA_CHECK_STRATEGY = "QuotaCheckStrategy"
    METRIC_FOR_WORKLOAD_CREATION_LATENCY = "MetricForWorkloadCreationLatency"
    TAS_RESPECT_NODE_AFFINITY_PREFERRED = "TASRespectNodeAffinityPreferred"
    MULTIKUEUE_MANAGER_QUOTA_AUTOMATION = "MultiKueueManagerQuotaAutomation"
    WORKLOAD_IDENTIFIER_ANNOTATIONS = "WorkloadIdentifierAnnotations"
    WORKLOAD_PRIORITY_CLASS_DEFAULTING = "WorkloadPriorityClassDefaulting"
    METRICS_FOR_COHORTS = "MetricsForCohorts"
    CLEANUP_PROVISIONING_REQUESTS_ON_EVICTION = "CleanupProvisioningRequestsOnEviction"
    TAS_HANDLE_OVERLAPPING_FLAVORS = "TASHandleOverlappingFlavors"
    UNADMITTED_WORKLOADS_OBSERVABILITY = "UnadmittedWorkloadsObservability"
    TAS_RECOMPUTE_ASSIGNMENT_WITHIN_SCHEDULING_CYCLE = "TASRecomputeAssignmentWithinSchedulingCycle"
    UNADMITTED_WORKLOADS_EXPLICIT_STATUS = "UnadmittedWorkloadsExplicitStatus"
    DEFER_RAY_SERVICE_FINALIZATION_FOR_REDIS_CLEANUP = "DeferRayServiceFinalizationForRedisCleanup"
    TAS_CACHE_NODE_MATCH_RESULTS = "TASCacheNodeMatchResults"
    TAS_CACHING_REMAINING_RESOURCES = "TASCachingRemainingResources"
    TAS_CACHE_TOPOLOGY_TREE = "TASCacheTopologyTree"
    SCHEDULER_LIBRARY_INTEGRATION = "SchedulerLibraryIntegration"
    VECTORIZED_RESOURCE_REQUESTS = "VectorizedResourceRequests"
    WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE = "WorkloadValidateResourcesAreNonNegative"
    TAS_VALIDATE_WORKLOAD_SLICE_SIZE = "TASValidateWorkloadSliceSize"
    WORKLOAD_VALIDATION_FOR_POD_SET_METADATA = "WorkloadValidationForPodSetMetadata"
    PRIORITIZE_PREEMPTOR_WORKLOADS = "PrioritizePreemptorWorkloads"
    LWS_IMMUTABLE_GROUP_SIZE = "LWSImmutableGroupSize"
    FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS = "FlavorFungibilityPreserveScanProgress"
    SKIP_ANCESTOR_CHECK_FOR_DELETED_WORKLOADS = "SkipAncestorCheckForDeletedWorkloads"
    MULTIKUEUE_REMOTE_SPEC_SYNC = "MultiKueueRemoteSpecSync"
    RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP = (
        "RecomputeAssignmentUponPreemptionTargetsOverlap"
    )
    POD_INTEGRATION_VALIDATE_GROUP_OWNER = "PodIntegrationValidateGroupOwner"
    VALIDATE_RAY_AND_SPARK_JOB_UPDATES = "ValidateRayAndSparkJobUpdates"


class Stage(StrEnum):
    """Maturity of a gate."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """Stage, default and dependencies of a gate."""

    stage: Stage
    default: bool
    requires: tuple[Gate, ...] = ()
    adjustable: bool = False
    """Whether this program behaves differently when the gate leaves its default."""
    alike: bool = False
    """Whether both settings mean the same here: upstream's caches, which change no decision, and
    the place of identifiers, which are written to labels and annotations and read from both."""


def _alpha(*requires: Gate, adjustable: bool = False) -> GateSpec:
    return GateSpec(stage=Stage.ALPHA, default=False, requires=requires, adjustable=adjustable)


def _beta(*requires: Gate, default: bool = True, adjustable: bool = False) -> GateSpec:
    return GateSpec(stage=Stage.BETA, default=default, requires=requires, adjustable=adjustable)


def _alike() -> GateSpec:
    return GateSpec(stage=Stage.BETA, default=True, alike=True)


GATES: Mapping[Gate, GateSpec] = MappingProxyType(
    {
        Gate.PARTIAL_ADMISSION: _beta(adjustable=True),
        Gate.FLAVOR_FUNGIBILITY: _beta(adjustable=True),
        Gate.VISIBILITY_ON_DEMAND: _beta(adjustable=True),
        Gate.DISABLE_WAIT_FOR_PODS_READY: _alpha(adjustable=True),
        Gate.PRIORITY_SORTING_WITHIN_COHORT: _beta(adjustable=True),
        Gate.FAIR_SHARING_PREEMPT_WITHIN_NOMINAL: _beta(adjustable=True),
        Gate.FAIR_SHARING_PRIORITIZE_NON_BORROWING: _beta(adjustable=True),
        Gate.MULTIKUEUE: _beta(),
        Gate.TOPOLOGY_AWARE_SCHEDULING: _beta(adjustable=True),
        Gate.LOCAL_QUEUE_METRICS: _beta(adjustable=True),
        Gate.TAS_PROFILE_MIXED: _beta(Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True),
        Gate.ADMISSION_FAIR_SHARING: _beta(adjustable=True),
        Gate.TAS_FAILED_NODE_REPLACEMENT: _beta(Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True),
        Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES: _beta(adjustable=True),
        Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_TAS: _alpha(
            Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES, Gate.TOPOLOGY_AWARE_SCHEDULING
        ),
        Gate.TAS_FAILED_NODE_REPLACEMENT_FAIL_FAST: _beta(
            Gate.TOPOLOGY_AWARE_SCHEDULING, Gate.TAS_FAILED_NODE_REPLACEMENT, adjustable=True
        ),
        Gate.TAS_REPLACE_NODE_ON_POD_TERMINATION: _beta(
            Gate.TOPOLOGY_AWARE_SCHEDULING, Gate.TAS_FAILED_NODE_REPLACEMENT, adjustable=True
        ),
        Gate.SKIP_REASSIGNMENT_FOR_POD_OWNED_WORKLOADS: _beta(),
        Gate.TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME: GateSpec(
            stage=Stage.DEPRECATED,
            default=False,
            requires=(
                Gate.TOPOLOGY_AWARE_SCHEDULING,
                Gate.TAS_FAILED_NODE_REPLACEMENT,
            ),
            adjustable=True,
        ),
        Gate.MANAGED_JOBS_NAMESPACE_SELECTOR_ALWAYS_RESPECTED: GateSpec(
            stage=Stage.GA, default=True
        ),
        Gate.TAS_BALANCED_PLACEMENT: _alpha(Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True),
        Gate.TAS_ASSIGNMENTS_ENCODING_BY_HOSTNAME_PREFIX: _beta(),
        Gate.KUEUE_DRA_INTEGRATION: _beta(adjustable=True),
        Gate.KUEUE_DRA_INTEGRATION_EXTENDED_RESOURCE: _beta(
            Gate.KUEUE_DRA_INTEGRATION, adjustable=True
        ),
        Gate.KUEUE_DRA_REJECT_WORKLOADS_WHEN_DRA_DISABLED: _beta(adjustable=True),
        Gate.KUEUE_DRA_INTEGRATION_PARTITIONABLE_DEVICES: _beta(Gate.KUEUE_DRA_INTEGRATION),
        Gate.KUEUE_DRA_INTEGRATION_CONSUMABLE_CAPACITY: _alpha(Gate.KUEUE_DRA_INTEGRATION),
        Gate.MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS: _beta(),
        Gate.WORKLOAD_REQUEST_USE_MERGE_PATCH: _alpha(adjustable=True),
        Gate.MULTIKUEUE_KUBE_CONFIG_PATH_VALIDATION: _beta(),
        Gate.RECLAIMABLE_PODS: _beta(adjustable=True),
        Gate.MULTIKUEUE_CLUSTER_PROFILE: _alpha(adjustable=True),
        Gate.FAILURE_RECOVERY_POLICY: _alpha(adjustable=True),
        Gate.TLS_OPTIONS: GateSpec(stage=Stage.GA, default=True),
        Gate.REMOVE_FINALIZERS_WITH_STRICT_PATCH: _beta(),
        Gate.TAS_REPLACE_NODE_ON_NODE_TAINTS: _beta(
            Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True
        ),
        Gate.ASSIGN_QUEUE_LABELS_FOR_PODS: _beta(adjustable=True),
        Gate.TAS_MULTI_LAYER_TOPOLOGY: _beta(Gate.TOPOLOGY_AWARE_SCHEDULING),
        Gate.SCHEDULING_EQUIVALENCE_HASHING: _beta(adjustable=True),
        Gate.CUSTOM_METRIC_LABELS: _alpha(),
        Gate.SPARK_APPLICATION_INTEGRATION: _alpha(adjustable=True),
        Gate.MULTIKUEUE_ORCHESTRATED_PREEMPTION: _alpha(adjustable=True),
        Gate.PRIORITY_BOOST: _alpha(adjustable=True),
        Gate.ADMISSION_GATED_BY: _beta(adjustable=True),
        Gate.SHORT_WORKLOAD_NAMES: _alpha(adjustable=True),
        Gate.FAST_QUOTA_RELEASE_IN_POD_INTEGRATION: _alpha(),
        Gate.REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS: _alpha(adjustable=True),
        Gate.FINISH_ORPHANED_WORKLOADS: _beta(adjustable=True),
        Gate.MULTIKUEUE_INCREMENTAL_DISPATCHER_CONFIG: _beta(adjustable=True),
        Gate.MULTIKUEUE_INCREMENTAL_DISPATCHER_RESPECT_CONFIG_ORDER: _beta(adjustable=True),
        Gate.CONCURRENT_ADMISSION: _alpha(adjustable=True),
        Gate.QUOTA_CHECK_STRATEGY: _beta(adjustable=True),
        Gate.METRIC_FOR_WORKLOAD_CREATION_LATENCY: _beta(adjustable=True),
        Gate.TAS_RESPECT_NODE_AFFINITY_PREFERRED: _alpha(
            Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True
        ),
        Gate.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION: _alpha(adjustable=True),
        Gate.WORKLOAD_IDENTIFIER_ANNOTATIONS: _alike(),
        Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING: _beta(adjustable=True),
        Gate.METRICS_FOR_COHORTS: _beta(adjustable=True),
        Gate.CLEANUP_PROVISIONING_REQUESTS_ON_EVICTION: _beta(adjustable=True),
        Gate.TAS_HANDLE_OVERLAPPING_FLAVORS: _beta(Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True),
        Gate.UNADMITTED_WORKLOADS_OBSERVABILITY: _beta(adjustable=True),
        Gate.TAS_RECOMPUTE_ASSIGNMENT_WITHIN_SCHEDULING_CYCLE: _beta(
            Gate.TOPOLOGY_AWARE_SCHEDULING, adjustable=True
        ),
        Gate.UNADMITTED_WORKLOADS_EXPLICIT_STATUS: _beta(
            Gate.UNADMITTED_WORKLOADS_OBSERVABILITY, default=False, adjustable=True
        ),
        Gate.DEFER_RAY_SERVICE_FINALIZATION_FOR_REDIS_CLEANUP: _beta(),
        Gate.TAS_CACHE_NODE_MATCH_RESULTS: _alike(),
        Gate.TAS_CACHING_REMAINING_RESOURCES: _alike(),
        Gate.TAS_CACHE_TOPOLOGY_TREE: _alike(),
        Gate.SCHEDULER_LIBRARY_INTEGRATION: _alpha(),
        Gate.VECTORIZED_RESOURCE_REQUESTS: _alike(),
        Gate.WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE: _beta(adjustable=True),
        Gate.TAS_VALIDATE_WORKLOAD_SLICE_SIZE: _beta(adjustable=True),
        Gate.WORKLOAD_VALIDATION_FOR_POD_SET_METADATA: _beta(adjustable=True),
        Gate.PRIORITIZE_PREEMPTOR_WORKLOADS: _alpha(adjustable=True),
        Gate.LWS_IMMUTABLE_GROUP_SIZE: _beta(),
        Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS: _beta(
            Gate.FLAVOR_FUNGIBILITY, adjustable=True
        ),
        Gate.SKIP_ANCESTOR_CHECK_FOR_DELETED_WORKLOADS: _beta(),
        Gate.MULTIKUEUE_REMOTE_SPEC_SYNC: _beta(adjustable=True),
        Gate.RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP: _beta(adjustable=True),
        Gate.POD_INTEGRATION_VALIDATE_GROUP_OWNER: _beta(),
        Gate.VALIDATE_RAY_AND_SPARK_JOB_UPDATES: _beta(),
    }
)


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates in force: the defaults, changed by the configuration."""

    overrides: Mapping[Gate, bool] = field(default_factory=dict)

    def enabled(self, gate: Gate) -> bool:
        """Whether a gate and all gates that it requires are on."""
        spec = GATES[gate]
        return self.overrides.get(gate, spec.default) and all(
            self.enabled(requirement) for requirement in spec.requires
        )

    @classmethod
    def of(cls, **settings: bool) -> Gates:
        """Gates by their wire names, for tests and embedders: ``Gates.of(PriorityBoost=True)``."""
        return cls({Gate(name): value for name, value in settings.items()})


def find_gate_errors(settings: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Yield (gate, problem and advice) for each setting that cannot be honoured."""
    for name, value in settings.items():
        problem = _find_problem(name, value, settings)
        if problem is not None:
            yield name, problem


def _find_problem(name: str, value: bool, settings: Mapping[str, bool]) -> str | None:  # noqa: FBT001
    if name not in Gate.__members__.values():
        close = difflib.get_close_matches(name, [gate.value for gate in Gate], n=1)
        hint = f'did you mean "{close[0]}"?' if close else "remove the setting"
        return f"unknown feature gate; {hint}"
    spec = GATES[Gate(name)]
    default = str(spec.default).lower()
    if value != spec.default and spec.stage is Stage.GA:
        return f"is locked to {default}; remove the setting"
    if value != spec.default and not (spec.adjustable or spec.alike):
        return f"only the default, {default}, is implemented yet; remove the setting"
    missing = [r for r in spec.requires if not settings.get(r, GATES[r].default)]
    if value and missing:
        return f"requires {missing[0]}; enable it too, or remove the setting of {name}"
    return None
