"""What each gate does when it is on, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from multiqueue.api.config.gates import Gate

_TABLE = """
PartialAdmission: A Job that names the least number of pods may start with fewer pods than it asks
  for.
FlavorFungibility: The search for a flavor follows `flavorFungibility` of the ClusterQueue and goes
  on after the flavor that was tried last.
VisibilityOnDemand: The aggregated API that lists pending Workloads with their positions is served.
DisableWaitForPodsReady: Admitted Workloads may wait for their pods without limit;
  `waitForPodsReady` is off.
PrioritySortingWithinCohort: Workloads of a cohort are considered by priority before their age.
FairSharingPreemptWithinNominal: With fair sharing, a ClusterQueue within its nominal quota may
  preempt whatever the shares are.
FairSharingPrioritizeNonBorrowing: With fair sharing, Workloads that need not borrow are considered
  before those that must.
MultiKueue: Workloads are dispatched to worker clusters.
TopologyAwareScheduling: Pods are placed close together by the levels of a Topology.
LocalQueueMetrics: Metrics of LocalQueues are served.
TASProfileMixed: Pod sets without a requirement go to the domains with the least free room, which
  keeps large domains free.
AdmissionFairSharing: LocalQueues of a ClusterQueue take turns by what they used in the past.
TASFailedNodeReplacement: A node that failed is replaced by another one in the placement of the
  Workload.
ElasticJobsViaWorkloadSlices: Running jobs that ask for it grow and shrink without being stopped.
ElasticJobsViaWorkloadSlicesWithTAS: Elastic jobs also grow and shrink where a topology places their
  pods.
TASFailedNodeReplacementFailFast: A Workload is evicted at once if no other node can replace the one
  that failed.
TASReplaceNodeOnPodTermination: A node that is not ready is replaced once the Workload's pods on it
  ended; without the gate, after 30 seconds.
SkipReassignmentForPodOwnedWorkloads: The Workload of a single pod is not queued again after a
  preemption or the failure of a node, because it ends with its pod.
TASReplaceNodeDueToNotReadyOverFixedTime: A node that is not ready is replaced after 30 seconds,
  whatever its pods do.
ManagedJobsNamespaceSelectorAlwaysRespected: Jobs outside of the selected namespaces are never
  managed, even if they name a queue.
TASBalancedPlacement: With a preferred level, the chosen domains get numbers of slices that are as
  equal as possible.
TASAssignmentsEncodingByHostnamePrefix: Placements are written with the common prefix of host names
  once, which makes them smaller.
KueueDRAIntegration: Devices that pods claim by ResourceClaims count against quota.
KueueDRAIntegrationExtendedResource: Devices that pods request as extended resources of a
  DeviceClass count against quota.
KueueDRARejectWorkloadsWhenDRADisabled: While KueueDRAIntegration is off, Workloads whose pods claim
  devices are not admitted.
KueueDRAIntegrationPartitionableDevices: Parts of devices are counted by the counters that they
  consume.
KueueDRAIntegrationConsumableCapacity: Devices that several claims share are counted by the capacity
  that each claim consumes.
MultiKueueAdaptersForCustomJobs: Kinds that `multiKueue.externalFrameworks` names are dispatched to
  workers.
WorkloadRequestUseMergePatch: The status of Workloads is written by merge patches, without
  server-side apply.
MultiKueueKubeConfigPathValidation: Kubeconfigs in files are read below the allowed folder only.
ReclaimablePods: The quota of pods that ended is free before the whole job has ended.
MultiKueueClusterProfile: MultiKueueClusters may name a ClusterProfile, from which the connection is
  made.
FailureRecoveryPolicy: Pods that may be deleted by force are deleted if their node does not answer
  for long.
TLSOptions: The section `tls` of the configuration is obeyed.
RemoveFinalizersWithStrictPatch: Finalizers are removed only from the version of the object that was
  read.
TASReplaceNodeOnNodeTaints: A node is replaced if it gets a taint that the pods do not tolerate.
AssignQueueLabelsForPods: Pods carry labels with the names of their LocalQueue and ClusterQueue.
TASMultiLayerTopology: A pod set may ask for slices within slices, on several levels of a topology.
SchedulingEquivalenceHashing: In BestEffortFIFO queues, Workloads with equal requirements are set
  aside together if one of them fits nowhere.
CustomMetricLabels: Metrics carry the labels that `metrics.customLabels` names.
SparkApplicationIntegration: SparkApplications can be queued.
MultiKueueOrchestratedPreemption: Only one worker at a time preempts for a Workload that several
  workers consider.
PriorityBoost: An annotation of a Workload raises or lowers its priority in its queue.
AdmissionGatedBy: An annotation keeps a job from being admitted until each controller that it names
  has released it.
ShortWorkloadNames: Names of Workloads are cut to the length of a label value.
FastQuotaReleaseInPodIntegration: Quota of a pod is free as soon as its deletion began, before it
  has ended.
RejectUpdatesToCQWithInvalidOnFlavors: ClusterQueues whose admission checks name flavors that they
  do not have are refused on update, too.
FinishOrphanedWorkloads: Workloads whose owner is gone are finished, with the reason OwnerNotFound.
MultiKueueIncrementalDispatcherConfig: The number of clusters that the incremental dispatcher adds
  in a round can be configured.
MultiKueueIncrementalDispatcherRespectConfigOrder: The incremental dispatcher takes the clusters in
  the order of the MultiKueueConfig.
ConcurrentAdmission: A Workload tries several flavors at the same time, each by a variant of it.
QuotaCheckStrategy: `resources.quotaCheckStrategy` decides about requests for resources without a
  quota.
MetricForWorkloadCreationLatency: The time from the creation of a job to that of its Workload is
  measured.
TASRespectNodeAffinityPreferred: Placement prefers nodes that the pods' preferred node affinity
  names.
MultiKueueManagerQuotaAutomation: The manager's quotas may follow the sum of the workers' quotas.
WorkloadIdentifierAnnotations: Identifiers that may be too long for labels are written as
  annotations.
WorkloadPriorityClassDefaulting: A job without a priority class gets the WorkloadPriorityClass that
  is named `default`, if there is one.
MetricsForCohorts: Metrics of Cohorts are served.
CleanupProvisioningRequestsOnEviction: ProvisioningRequests of a Workload are deleted when it is
  evicted.
TASHandleOverlappingFlavors: Flavors that have a node in common share its capacity.
UnadmittedWorkloadsObservability: The condition QuotaReserved gives the precise reason why a
  Workload waits.
TASRecomputeAssignmentWithinSchedulingCycle: A placement that an earlier Workload of the cycle made
  impossible is computed again in the same cycle.
UnadmittedWorkloadsExplicitStatus: The conditions QuotaReserved and Admitted are there from the
  creation of a Workload, with the status False.
DeferRayServiceFinalizationForRedisCleanup: A deleted RayService keeps its quota until its Redis is
  emptied.
TASCacheNodeMatchResults: Which nodes fit the selectors of a pod set is remembered; this is faster
  and changes no decision.
TASCachingRemainingResources: What is left on each node is remembered; this is faster and changes no
  decision.
TASCacheTopologyTree: The tree of a topology is remembered; this is faster and changes no decision.
SchedulerLibraryIntegration: Nodes are judged by the library of the Kubernetes scheduler.
VectorizedResourceRequests: Requests are added up as vectors; this is faster and changes no
  decision.
WorkloadValidateResourcesAreNonNegative: Workloads with negative requests are refused.
TASValidateWorkloadSliceSize: Workloads whose slices do not divide their pods are refused.
WorkloadValidationForPodSetMetadata: Labels and annotations of pod sets of a Workload are checked.
PrioritizePreemptorWorkloads: A Workload that preempted others is considered first when their quota
  is free.
LWSImmutableGroupSize: The group size of a queued LeaderWorkerSet cannot be changed.
FlavorFungibilityPreserveScanProgress: A Workload that is tried again in the next cycle goes on
  after the flavor that was tried last, even if its ClusterQueue changed.
SkipAncestorCheckForDeletedWorkloads: The owners of a job that is being deleted are not looked for.
MultiKueueRemoteSpecSync: A change of `serveConfigV2` of a RayService reaches its copy on the
  worker.
RecomputeAssignmentUponPreemptionTargetsOverlap: A Workload whose victims another one of the cycle
  took is judged again in the same cycle.
PodIntegrationValidateGroupOwner: A group of pods does not take a Workload of its name that was not
  made for a group.
ValidateRayAndSparkJobUpdates: Changes of queued Ray and Spark jobs are checked.
"""

PURPOSES: Mapping[Gate, str] = MappingProxyType(
    {
        Gate(name): " ".join(purpose.split())
        for name, _, purpose in (
            entry.partition(": ") for entry in re.split(r"\n(?=\S)", _TABLE.strip())
        )
    }
)
"""A sentence for every gate; docs/reference/gates.md shows them."""
