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

from multiqueue.api.config.gate_history import HISTORY


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
    """Whether both settings mean the same here."""


REQUIRED: Mapping[Gate, tuple[Gate, ...]] = MappingProxyType(
    {
        Gate.TAS_PROFILE_MIXED: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.TAS_FAILED_NODE_REPLACEMENT: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_TAS: (
            Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES,
            Gate.TOPOLOGY_AWARE_SCHEDULING,
        ),
        Gate.TAS_FAILED_NODE_REPLACEMENT_FAIL_FAST: (
            Gate.TOPOLOGY_AWARE_SCHEDULING,
            Gate.TAS_FAILED_NODE_REPLACEMENT,
        ),
        Gate.TAS_REPLACE_NODE_ON_POD_TERMINATION: (
            Gate.TOPOLOGY_AWARE_SCHEDULING,
            Gate.TAS_FAILED_NODE_REPLACEMENT,
        ),
        Gate.TAS_REPLACE_NODE_DUE_TO_NOT_READY_OVER_FIXED_TIME: (
            Gate.TOPOLOGY_AWARE_SCHEDULING,
            Gate.TAS_FAILED_NODE_REPLACEMENT,
        ),
        Gate.TAS_BALANCED_PLACEMENT: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.KUEUE_DRA_INTEGRATION_EXTENDED_RESOURCE: (Gate.KUEUE_DRA_INTEGRATION,),
        Gate.KUEUE_DRA_INTEGRATION_PARTITIONABLE_DEVICES: (Gate.KUEUE_DRA_INTEGRATION,),
        Gate.KUEUE_DRA_INTEGRATION_CONSUMABLE_CAPACITY: (Gate.KUEUE_DRA_INTEGRATION,),
        Gate.TAS_REPLACE_NODE_ON_NODE_TAINTS: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.TAS_MULTI_LAYER_TOPOLOGY: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.TAS_RESPECT_NODE_AFFINITY_PREFERRED: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.TAS_HANDLE_OVERLAPPING_FLAVORS: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.TAS_RECOMPUTE_ASSIGNMENT_WITHIN_SCHEDULING_CYCLE: (Gate.TOPOLOGY_AWARE_SCHEDULING,),
        Gate.UNADMITTED_WORKLOADS_EXPLICIT_STATUS: (Gate.UNADMITTED_WORKLOADS_OBSERVABILITY,),
        Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS: (Gate.FLAVOR_FUNGIBILITY,),
    }
)
"""The gates that must be on where a gate is on."""
ALIKE = frozenset(
    {
        Gate.WORKLOAD_IDENTIFIER_ANNOTATIONS,
        Gate.TAS_CACHE_NODE_MATCH_RESULTS,
        Gate.TAS_CACHING_REMAINING_RESOURCES,
        Gate.TAS_CACHE_TOPOLOGY_TREE,
        Gate.VECTORIZED_RESOURCE_REQUESTS,
        Gate.WORKLOAD_REQUEST_USE_MERGE_PATCH,
    }
)
"""Gates whose settings mean the same here: upstream's caches, which change no decision; the place
of identifiers, which are written to labels and annotations and read from both; and merge patches,
which are always what is written."""
_SOURCES = "devices count by number; counters and capacities of devices do not count yet"

WHY: Mapping[Gate, str] = MappingProxyType(
    {
        Gate.MULTIKUEUE: "always on; without MultiKueue objects it does nothing",
        Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_TAS: "elastic jobs that a topology places keep "
        "their size while they run",
        Gate.SKIP_REASSIGNMENT_FOR_POD_OWNED_WORKLOADS: "the Workload of a pod ends with its "
        "pod, so it is never queued again",
        Gate.TAS_ASSIGNMENTS_ENCODING_BY_HOSTNAME_PREFIX: "one encoding is written; all are read",
        Gate.KUEUE_DRA_INTEGRATION_PARTITIONABLE_DEVICES: _SOURCES,
        Gate.KUEUE_DRA_INTEGRATION_CONSUMABLE_CAPACITY: _SOURCES,
        Gate.MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS: "always on; without "
        "externalFrameworks it does nothing",
        Gate.MULTIKUEUE_KUBE_CONFIG_PATH_VALIDATION: "files elsewhere are never read: whoever "
        "makes a MultiKueueCluster must not choose what the manager opens",
        Gate.REMOVE_FINALIZERS_WITH_STRICT_PATCH: "finalizers are always removed from the version "
        "that was read",
        Gate.TAS_MULTI_LAYER_TOPOLOGY: "layers of slices are always obeyed",
        Gate.CUSTOM_METRIC_LABELS: "metrics have no labels of their users' choice yet",
        Gate.FAST_QUOTA_RELEASE_IN_POD_INTEGRATION: "quota is held until evicted pods have "
        "ended or are overdue",
        Gate.DEFER_RAY_SERVICE_FINALIZATION_FOR_REDIS_CLEANUP: "a deleted RayService always keeps "
        "its quota until its Redis is empty",
        Gate.SCHEDULER_LIBRARY_INTEGRATION: "it names a Go library; nodes are judged by rules of "
        "our own",
        Gate.LWS_IMMUTABLE_GROUP_SIZE: "the size of the groups of a queued LeaderWorkerSet never "
        "changes",
        Gate.SKIP_ANCESTOR_CHECK_FOR_DELETED_WORKLOADS: "nobody looks for the ancestors of what "
        "is deleted",
        Gate.POD_INTEGRATION_VALIDATE_GROUP_OWNER: "a group takes only Workloads of groups",
        Gate.VALIDATE_RAY_AND_SPARK_JOB_UPDATES: "every change of a job that has or had a "
        "queue is checked",
    }
)
"""Why only the default of a gate is accepted."""


def _read(gate: Gate) -> GateSpec:
    """Return what the newest version in the history says of a gate, with what it requires."""
    newest = HISTORY[gate].rpartition(", ")[2].split()[1]
    stage, _, default = newest.partition("=")
    return GateSpec(
        stage=Stage(stage),
        default=default == "true",
        requires=REQUIRED.get(gate, ()),
        adjustable=stage != Stage.GA and gate not in ALIKE and gate not in WHY,
        alike=gate in ALIKE,
    )


GATES: Mapping[Gate, GateSpec] = MappingProxyType({gate: _read(gate) for gate in Gate})


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
