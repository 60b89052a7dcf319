"""Every label, annotation, finalizer, gate and controller name of the API, in one place.

Parity: the names of Kueue 0.20. Nothing else in the code spells these strings.
"""

from __future__ import annotations

from typing import Final, NewType

GROUP: Final = "kueue.x-k8s.io"
V1BETA1: Final = f"{GROUP}/v1beta1"
V1BETA2: Final = f"{GROUP}/v1beta2"
OWN_GROUP: Final = "multiqueue.dev"
"""API group of the kinds that upstream does not have."""
V1ALPHA1: Final = f"{OWN_GROUP}/v1alpha1"

WorkloadKey = NewType("WorkloadKey", str)
"""``namespace/name`` of a Workload."""
LocalQueueKey = NewType("LocalQueueKey", str)
"""``namespace/name`` of a LocalQueue."""
ClusterQueueName = NewType("ClusterQueueName", str)
CohortName = NewType("CohortName", str)
FlavorName = NewType("FlavorName", str)
ResourceName = NewType("ResourceName", str)

# Labels
QUEUE_NAME: Final = f"{GROUP}/queue-name"
PRIORITY_CLASS: Final = f"{GROUP}/priority-class"
MAX_EXEC_TIME_SECONDS: Final = f"{GROUP}/max-exec-time-seconds"
JOB_UID: Final = f"{GROUP}/job-uid"
MANAGED: Final = f"{GROUP}/managed"
PODSET: Final = f"{GROUP}/podset"
CLUSTER_QUEUE_NAME: Final = f"{GROUP}/cluster-queue-name"
LOCAL_QUEUE_NAME: Final = f"{GROUP}/local-queue-name"
MULTIKUEUE_ORIGIN: Final = f"{GROUP}/multikueue-origin"
MULTIKUEUE_WORKER_WORKLOAD_POD: Final = f"{GROUP}/multikueue-worker-workload-pod"
CONCURRENT_ADMISSION_PARENT: Final = f"{GROUP}/concurrent-admission-parent"

# Annotations
PREBUILT_WORKLOAD_NAME: Final = f"{GROUP}/prebuilt-workload-name"
"""Annotation; also a label for old readers, if the name has at most 63 characters."""
WORKLOAD: Final = f"{GROUP}/workload"
MULTIKUEUE_ORIGIN_UID: Final = f"{GROUP}/multikueue-origin-uid"
JOB_OWNER_GVK: Final = f"{GROUP}/job-owner-gvk"
JOB_OWNER_NAME: Final = f"{GROUP}/job-owner-name"
COMPONENT_WORKLOAD_INDEX: Final = f"{GROUP}/component-workload-index"
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"
WORKLOAD_ALLOWED_FLAVORS: Final = f"{GROUP}/workload-allowed-resource-flavors"
JOB_MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
JOB_COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
STOPPING: Final = f"{GROUP}/stopping"
ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
RAY_CLUSTER_GENERATION: Final = f"{GROUP}/raycluster-generation"
"""On elastic RayJobs and RayServices: the generation of their RayCluster."""
WORKLOAD_SLICE_NAME: Final = f"{GROUP}/workload-slice-name"
WORKLOAD_SLICE_REPLACEMENT_FOR: Final = f"{GROUP}/workload-slice-replacement-for"
MULTIKUEUE_CLUSTER_NAMES: Final = f"{GROUP}/multikueue-cluster-names"
PROVREQ_PREFIX: Final = f"provreq.{GROUP}/"
CONSUME_PROVISIONING_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
PROVISIONING_CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""On pods: the ProvisioningRequest whose capacity they may use, and its class (E-156)."""
PODSET_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
PODSET_PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
PODSET_UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
PODSET_SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
PODSET_SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
PODSET_SLICE_CONSTRAINTS: Final = f"{GROUP}/podset-slice-required-topology-constraints"
PODSET_GROUP_NAME: Final = f"{GROUP}/podset-group-name"
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
"""On Workloads that stand for a group of pods."""
POD_INDEX_OFFSET: Final = f"{GROUP}/pod-index-offset"
"""On pods: the index of the first pod of their pod set, if it is not 0 (E-147)."""
SAFE_TO_FORCEFULLY_DELETE: Final = f"{GROUP}/safe-to-forcefully-delete"
"""On pods that may be deleted if nobody can tell whether they still run (E-191)."""
CLUSTER_NAMES: Final = f"{GROUP}/multikueue-cluster-names"
"""On jobs and Workloads: the MultiKueueClusters that may run them, separated by commas."""
CLUSTER_SELECTOR: Final = "multiqueue.dev/cluster-selector"
"""On jobs and Workloads: a label selector over MultiKueueClusters. Ours."""
CLUSTER_TOLERATIONS: Final = "multiqueue.dev/cluster-tolerations"
"""On jobs and Workloads: the taints of clusters that they tolerate. Ours."""
CLUSTER_TAINTS: Final = "multiqueue.dev/taints"
"""On MultiKueueClusters: taints such as ``key=value:NoSchedule``, separated by commas. Ours."""
CORDON: Final = "multiqueue.dev/cordon"
"""On MultiKueueClusters: ``true``, or the reason: the worker gets no new jobs. Ours."""
DRAIN: Final = "multiqueue.dev/drain"
"""On MultiKueueClusters: ``true``, or settings: its jobs are moved elsewhere. Ours."""
CHECKPOINT_SECONDS: Final = "multiqueue.dev/checkpoint-seconds"
"""On jobs and pod templates: the time that saving a checkpoint takes. Ours."""
DISPATCHER: Final = "multiqueue.dev/dispatcher"
"""On MultiKueueConfigs: the dispatcher for their Workloads. Ours."""
QUOTA_PERCENT: Final = "multiqueue.dev/quota-percent"
"""On MultiKueueConfigs with automated quotas: their share of the workers' quotas. Ours."""
DISPATCH_PROFILE: Final = "multiqueue.dev/dispatch-profile"
"""On LocalQueues, ClusterQueues and MultiKueueConfigs: their DispatchProfile. Ours."""
RUNTIME: Final = "multiqueue.dev/runtime"
"""On jobs: the runtime on the reference hardware, such as ``90m``. Ours."""
SPEEDS: Final = "multiqueue.dev/speeds"
"""On jobs: the speed by hardware, such as ``a100=1,h100=2.2``. Ours."""
ALTERNATIVES: Final = "multiqueue.dev/alternatives"
"""On jobs: the number of pods that suffice on some hardware, such as ``h100=4``. Ours."""
RUNS_WITH: Final = "multiqueue.dev/runs-with"
"""On jobs with alternatives that run with fewer pods: ``4 of 8``, the number of pods and the number
that the user requested, which is restored when the job stops. Ours."""
JOB_CLASS: Final = "multiqueue.dev/job-class"
"""On jobs: their job class; jobs of one class have similar runtimes and speeds. Ours."""
DATA: Final = "multiqueue.dev/data"
"""On jobs: names of the data sets that they read; on MultiKueueClusters: of those there. Ours."""
PRICES: Final = "multiqueue.dev/prices"
"""On MultiKueueClusters: price of a device per hour by flavor, such as ``a100=1.80``. Ours."""
PROJECTED_FROM: Final = "multiqueue.dev/projected-from"
"""On objects of workers that ``clusters sync`` made: the uid of the manager's kube-system. Ours."""
REGISTERED_AS: Final = "multiqueue.dev/registered-as"
"""On Secrets of workers that tokens are bound to: the name of the MultiKueueCluster. Ours."""
CLUSTER: Final = "multiqueue.dev/cluster"
"""On pods and events that the manager shows: the worker that has them. Ours."""
EQUIVALENT_FLAVORS: Final = "multiqueue.dev/equivalent-flavors"
"""On a manager's ResourceFlavor: names of others, separated by commas. Workloads that reserved this
flavor may also run on the hardware of the others."""
RAN_ON: Final = "multiqueue.dev/ran-on"
"""On a manager's Workload: the flavors that a worker uses instead of those of its admission."""
MANAGER: Final = "multiqueue.dev/manager"
"""On remote objects: the uid of the kube-system namespace of the manager's cluster. Ours."""
DISPATCH_EPOCH: Final = "multiqueue.dev/dispatch-epoch"
"""On remote objects: the dispatch epoch (the reservation) that they were made for. Ours."""
DISPATCH_DIGEST: Final = "multiqueue.dev/dispatch-digest"
"""On remote Workloads: the digest of the spec that they were made from. Ours."""
OFFERED_AT: Final = "multiqueue.dev/offered-at"
"""On remote Workloads: their creation time, by the manager's clock. Ours."""
WEBHOOK_PROBLEM: Final = "multiqueue.dev/webhook-problem"
"""On webhook configurations and CRDs: why the API server cannot call the manager. Ours."""

# Finalizers, gates, controllers
RESOURCE_IN_USE: Final = f"{GROUP}/resource-in-use"
ADMISSION_GATE: Final = f"{GROUP}/admission"
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
ELASTIC_GATE: Final = f"{GROUP}/elastic-job"
VARIANT_GATE: Final = f"{GROUP}/concurrent-admission"
"""Preemption gate of every variant of concurrent admission (E-173)."""
VARIANT_ORDER: Final = f"{OWN_GROUP}/variant-order"
"""On variants: the place of their flavor in the ClusterQueue, from 0."""
MULTIKUEUE_GATE: Final = f"{GROUP}/multikueue"
MULTIKUEUE_CONTROLLER: Final = f"{GROUP}/multikueue"
"""AdmissionCheck controllerName, Job managedBy and preemption gate name (M-2, M-28, M-136)."""
PROVISIONING_REQUEST_CONTROLLER: Final = f"{GROUP}/provisioning-request"
KUBERNETES_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"

# Dispatchers and defaults
DISPATCHER_ALL_AT_ONCE: Final = f"{GROUP}/multikueue-dispatcher-all-at-once"
DISPATCHER_INCREMENTAL: Final = f"{GROUP}/multikueue-dispatcher-incremental"
INCREMENTAL: Final = "incremental"
"""The short name of that dispatcher. Ours."""
DEFAULT_ORIGIN: Final = "multikueue"
DEFAULT_PODSET: Final = "main"
DEFAULT_QUEUE: Final = "default"
DEFAULT_NAMESPACE: Final = "kueue-system"

# Field managers: one per writer, so that ownership stays readable in managedFields.
FIELD_MANAGER: Final = "kueue"
ADMISSION_FIELD_MANAGER: Final = "kueue-admission"
PROJECTION_FIELD_MANAGER: Final = "multiqueue-projection"


def key_of(namespace: str, name: str) -> str:
    """Join the two halves of a namespaced key."""
    return f"{namespace}/{name}"


def split_key(key: str) -> tuple[str, str]:
    """Return (namespace, name) of a key made by `key_of`."""
    namespace, _, name = key.partition("/")
    return namespace, name
