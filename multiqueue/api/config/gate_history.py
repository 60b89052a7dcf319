"""The history of each gate in upstream: versions with stage and default."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TABLE = """
PartialAdmission: 0.4 Alpha=false, 0.5 Beta=true
FlavorFungibility: 0.5 Beta=true
VisibilityOnDemand: 0.6 Alpha=false, 0.9 Beta=true
DisableWaitForPodsReady: 0.19 Alpha=false
PrioritySortingWithinCohort: 0.6 Beta=true
FairSharingPreemptWithinNominal: 0.17 Beta=true
FairSharingPrioritizeNonBorrowing: 0.17 Beta=true
MultiKueue: 0.6 Alpha=false, 0.9 Beta=true
TopologyAwareScheduling: 0.9 Alpha=false, 0.14 Beta=true
LocalQueueMetrics: 0.10 Alpha=false, 0.17 Beta=true
TASProfileMixed: 0.10 Alpha=false, 0.15 Beta=true
AdmissionFairSharing: 0.12 Alpha=false, 0.15 Beta=true
TASFailedNodeReplacement: 0.12 Alpha=false, 0.14 Beta=true
ElasticJobsViaWorkloadSlices: 0.13 Alpha=false, 0.18 Beta=true
ElasticJobsViaWorkloadSlicesWithTAS: 0.17 Alpha=false
TASFailedNodeReplacementFailFast: 0.13 Alpha=false, 0.14 Beta=true
TASReplaceNodeOnPodTermination: 0.13 Alpha=false, 0.14 Beta=true
SkipReassignmentForPodOwnedWorkloads: 0.19 Beta=true
TASReplaceNodeDueToNotReadyOverFixedTime: 0.17 Beta=true, 0.19 Deprecated=false
ManagedJobsNamespaceSelectorAlwaysRespected: 0.13 Alpha=false, 0.15 Beta=true, 0.19 GA=true locked
TASBalancedPlacement: 0.15 Alpha=false
TASAssignmentsEncodingByHostnamePrefix: 0.19 Beta=true
KueueDRAIntegration: 0.18 Beta=true
KueueDRAIntegrationExtendedResource: 0.18 Alpha=false, 0.19 Beta=true
KueueDRARejectWorkloadsWhenDRADisabled: 0.18 Beta=true
KueueDRAIntegrationPartitionableDevices: 0.18 Alpha=false, 0.19 Beta=true
KueueDRAIntegrationConsumableCapacity: 0.19 Alpha=false
MultiKueueAdaptersForCustomJobs: 0.14 Alpha=false, 0.15 Beta=true
WorkloadRequestUseMergePatch: 0.14 Alpha=false
MultiKueueKubeConfigPathValidation: 0.19 Alpha=false, 0.20 Beta=true
ReclaimablePods: 0.15 Beta=true
MultiKueueClusterProfile: 0.15 Alpha=false
FailureRecoveryPolicy: 0.15 Alpha=false
TLSOptions: 0.16 Beta=true, 0.20 GA=true locked
RemoveFinalizersWithStrictPatch: 0.17 Beta=true
TASReplaceNodeOnNodeTaints: 0.17 Beta=true
AssignQueueLabelsForPods: 0.17 Beta=true
TASMultiLayerTopology: 0.17 Alpha=false, 0.19 Beta=true
SchedulingEquivalenceHashing: 0.17 Beta=false, 0.18 Beta=true
CustomMetricLabels: 0.17 Alpha=false
SparkApplicationIntegration: 0.17 Alpha=false
MultiKueueOrchestratedPreemption: 0.17 Alpha=false
PriorityBoost: 0.17 Alpha=false
AdmissionGatedBy: 0.17 Alpha=false, 0.19 Beta=true
ShortWorkloadNames: 0.17 Alpha=false
FastQuotaReleaseInPodIntegration: 0.17 Alpha=false
RejectUpdatesToCQWithInvalidOnFlavors: 0.18 Alpha=false
FinishOrphanedWorkloads: 0.18 Beta=true
MultiKueueIncrementalDispatcherConfig: 0.19 Beta=true
MultiKueueIncrementalDispatcherRespectConfigOrder: 0.19 Beta=true
ConcurrentAdmission: 0.18 Alpha=false
QuotaCheckStrategy: 0.18 Alpha=false, 0.19 Beta=true
MetricForWorkloadCreationLatency: 0.18 Beta=true
TASRespectNodeAffinityPreferred: 0.18 Alpha=false
MultiKueueManagerQuotaAutomation: 0.18 Alpha=false
WorkloadIdentifierAnnotations: 0.18 Beta=true
WorkloadPriorityClassDefaulting: 0.18 Alpha=false, 0.20 Beta=true
MetricsForCohorts: 0.18 Beta=true
CleanupProvisioningRequestsOnEviction: 0.19 Beta=true
TASHandleOverlappingFlavors: 0.18 Beta=true
UnadmittedWorkloadsObservability: 0.19 Beta=true
TASRecomputeAssignmentWithinSchedulingCycle: 0.19 Beta=true
UnadmittedWorkloadsExplicitStatus: 0.19 Beta=false
DeferRayServiceFinalizationForRedisCleanup: 0.19 Beta=true
TASCacheNodeMatchResults: 0.19 Beta=true
TASCachingRemainingResources: 0.19 Beta=true
TASCacheTopologyTree: 0.20 Beta=true
SchedulerLibraryIntegration: 0.19 Alpha=false
VectorizedResourceRequests: 0.19 Beta=true
WorkloadValidateResourcesAreNonNegative: 0.20 Beta=true
TASValidateWorkloadSliceSize: 0.20 Beta=true
WorkloadValidationForPodSetMetadata: 0.20 Beta=true
PrioritizePreemptorWorkloads: 0.20 Alpha=false
LWSImmutableGroupSize: 0.20 Beta=true
FlavorFungibilityPreserveScanProgress: 0.20 Beta=true
SkipAncestorCheckForDeletedWorkloads: 0.20 Beta=true
MultiKueueRemoteSpecSync: 0.20 Beta=true
RecomputeAssignmentUponPreemptionTargetsOverlap: 0.20 Beta=true
PodIntegrationValidateGroupOwner: 0.18 Beta=true
ValidateRayAndSparkJobUpdates: 0.18 Beta=true
"""

HISTORY: Mapping[str, str] = MappingProxyType(
    dict(line.split(": ", 1) for line in _TABLE.strip().splitlines())
)
"""``0.4 Alpha=false, 0.5 Beta=true`` by gate."""
