"""Condition types and reasons, and pure functions that read and set conditions.

Parity: the condition types and reasons of Kueue 0.20. Conditions are dicts on the wire and
`Condition` Structs in typed objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from multiqueue.api.v1beta2.meta import Condition, format_time

MAX_MESSAGE = 32_768
"""Longest message of a condition that the API server accepts, in characters."""


class WorkloadCondition(StrEnum):
    """Types of Workload conditions."""

    QUOTA_RESERVED = "QuotaReserved"
    """Quota is reserved for it; False: why it waits."""
    ADMITTED = "Admitted"
    """It has quota and all of its checks are ready: its pods may start."""
    FINISHED = "Finished"
    """It ended; the message is that of the job."""
    PODS_READY = "PodsReady"
    """All of its pods are ready, or have ended well."""
    EVICTED = "Evicted"
    """It lost its quota, or is losing it; the job is being stopped."""
    PREEMPTED = "Preempted"
    """It was evicted to make room for another Workload."""
    REQUEUED = "Requeued"
    """Whether it waits in its queue again after an eviction."""
    DEACTIVATION_TARGET = "DeactivationTarget"
    """It is about to be deactivated."""
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    """It could preempt others, and may not until its gates are open."""
    WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"
    """Pods of its group failed and others have to replace them."""


DISRUPTED = "multiqueue.dev/Disrupted"
"""On Workloads: when and why they were stopped for others; `api.disruptions` reads it. Ours."""
PREEMPTION_NOTICE = "multiqueue.dev/PreemptionNotice"
"""On Workloads: it will be stopped for another one, and may save its work before. Ours."""


class NoticeEnd(StrEnum):
    """Reasons of PreemptionNotice=False."""

    SAVED = "Saved"
    """It saved its work, and was stopped."""
    TIMED_OUT = "TimedOut"
    """It was stopped without having said that it saved its work."""
    ENDED = "Ended"
    """All its pods were gone before its time was over, so nothing was left to save."""
    RESCINDED = "Rescinded"
    """It runs on: nobody needs its room any more."""


ACTIVE = "Active"
"""Condition type of ClusterQueue, LocalQueue, AdmissionCheck and MultiKueueCluster."""
CREDENTIALS_EXPIRING = "CredentialsExpiring"
"""On MultiKueueClusters: the manager's credentials for the worker expire soon. Ours."""
ORIGIN_SHARED = "OriginShared"
"""On MultiKueueClusters: another manager with the same origin has objects there. Ours."""
SERVER_KNOWN = "ServerKnown"
"""On MultiKueueClusters: the cluster that the manager last used under this name. Ours."""
CORDONED = "Cordoned"
DRAINED = "Drained"
"""Condition types of MultiKueueCluster, present while a cordon or drain is ordered. Ours."""

HEALTHY = "Healthy"
CANARY = "Canary"
"""Condition types of DispatchProfile, beside Active. Ours."""


class ProfileReason(StrEnum):
    """Reasons of conditions of DispatchProfiles."""

    # Active
    READY = "Ready"
    """The dispatcher was loaded and decides."""
    INVALID = "Invalid"
    """The spec cannot be used; the message names the field."""
    FAILING = "Failing"
    """The dispatcher cannot be loaded, or fails."""
    # Healthy
    AS_PROMISED = "AsPromised"
    """The dispatcher answered as it must."""
    PROMISES_BROKEN = "PromisesBroken"
    """An answer broke a rule; the message names it."""
    SIDE_FAILING = "SideFailing"
    """The shadow or the canary fails."""
    # Canary
    RUNNING = "Running"
    """The canary decides for its share of the Workloads."""
    RETURNED = "Returned"
    """The canary did worse than its limits allow; the base decides for all again."""
    BROKEN = "Broken"
    """The canary cannot be loaded."""


class Reason(StrEnum):
    """Reasons of Workload conditions."""

    # QuotaReserved
    QUOTA_RESERVED = "QuotaReserved"
    """Quota was reserved."""
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    """No flavor has the resources, labels and taints that the pods ask for."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Others use the quota that it needs."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """It asks for more than its ClusterQueue could ever get."""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    """There is quota, but the topology has no place for the pods."""
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    """It preempted others, which have not left yet."""
    MISCONFIGURED = "Misconfigured"
    """Its queue does not exist, or it cannot be counted; the message says what to do."""
    SUSPENDED = "Suspended"
    """Its LocalQueue or ClusterQueue is not active."""
    PENDING_EVALUATION = "PendingEvaluation"
    """No cycle has looked at it yet."""
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    """Nobody is admitted until the pods of another Workload are ready."""
    ON_HOLD = "OnHold"
    """Its LocalQueue or ClusterQueue is held."""
    ADMISSION_GATED = "AdmissionGated"
    """A controller that an annotation names has not released it."""
    # QuotaReserved without the gate UnadmittedWorkloadsObservability
    PENDING = "Pending"
    """It waits; the message says why."""
    INADMISSIBLE = "Inadmissible"
    """It cannot be admitted as it is."""
    WAITING = "Waiting"
    """It waits for the pods of another Workload."""
    # BlockedOnPreemptionGates
    PREEMPTION_GATED = "PreemptionGated"
    """A gate is closed: on a worker, the manager has not given it its turn."""
    # Admitted
    ADMITTED = "Admitted"
    """It was admitted."""
    NO_RESERVATION = "NoReservation"
    """It has no quota."""
    UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
    """It has quota, and not all of its checks are ready."""
    PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"
    """It has quota, and its pods get their places after its checks."""
    # Finished
    SUCCEEDED = "Succeeded"
    """The job succeeded."""
    FAILED = "Failed"
    """The job failed."""
    OUT_OF_SYNC = "OutOfSync"
    """The job no longer is what its prebuilt Workload says."""
    OWNER_NOT_FOUND = "OwnerNotFound"
    """The job is gone."""
    FAILED_TO_START = "FailedToStart"
    """The job cannot start with what was admitted."""
    WORKLOAD_SLICE_REPLACED = "WorkloadSliceReplaced"
    """Another slice of the elastic job took its place."""
    # Evicted, Requeued
    PREEMPTED = "Preempted"
    """It made room for another Workload."""
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    """Its pods were not ready in time."""
    ADMISSION_CHECK = "AdmissionCheck"
    """One of its checks is to be retried or was rejected."""
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    """Its ClusterQueue was stopped."""
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    """Its LocalQueue was stopped."""
    NODE_FAILURES = "NodeFailures"
    """Nodes failed, and no others could replace them."""
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    """The job changed, and no longer fits its Workload."""
    FLAVOR_MIGRATION = "FlavorMigration"
    """A variant with a better flavor takes its place."""
    VARIANT_EVICTED = "VariantEvicted"
    """The variant that ran was evicted."""
    CONCURRENT_ADMISSION = "ConcurrentAdmission"
    """It held quota that belongs to its variants."""
    DEACTIVATED = "Deactivated"
    """It was deactivated: spec.active is false."""
    REACTIVATED = "Reactivated"
    """It was activated again."""
    BACKOFF_FINISHED = "BackoffFinished"
    """The wait after its eviction is over."""
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    """Its ClusterQueue is no longer stopped."""
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
    """Its LocalQueue is no longer stopped."""
    # Preempted
    IN_CLUSTER_QUEUE = "InClusterQueue"
    """For a Workload of the same ClusterQueue."""
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    """For a ClusterQueue of the cohort that took back its quota."""
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    """For a ClusterQueue of the cohort with a smaller share."""
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    """For a Workload of the cohort that borrows; priorities allowed it."""
    # DeactivationTarget
    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    """Its pods were not ready in time too often."""
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
    """It ran for longer than it may."""
    EVICTED_ON_MANAGER_CLUSTER = "EvictedOnManagerCluster"
    """The manager that dispatched it stopped it."""
    # PodsReady
    WAIT_FOR_START = "WaitForStart"
    """Its pods are not ready yet."""
    STARTED = "Started"
    """Its pods are ready for the first time."""
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    """Its pods were ready, and are not any more."""
    RECOVERED = "Recovered"
    """Its pods are ready again."""


class QueueReason(StrEnum):
    """Reasons of the Active condition of ClusterQueues and LocalQueues."""

    READY = "Ready"
    """It can admit Workloads."""
    TERMINATING = "Terminating"
    """It is being deleted."""
    STOPPED = "Stopped"
    """spec.stopPolicy stops it."""
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    """A ResourceFlavor that it names does not exist."""
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    """An AdmissionCheck that it names does not exist."""
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    """An AdmissionCheck that it names is not active."""
    MULTIPLE_MULTIKUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    """It has two checks that dispatch; one is allowed."""
    MULTIKUEUE_CHECK_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    """A check that dispatches is for some flavors only; it must be for all."""
    MULTIKUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    """It has a check that dispatches and one that provisions."""
    MULTIKUEUE_WITH_CONCURRENT_ADMISSION = "MultiKueueWithConcurrentAdmission"
    """It dispatches, and admits by variants."""
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    """A Topology that one of its flavors names does not exist."""
    UNKNOWN = "Unknown"
    """Another reason; the message says which."""
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    """The ClusterQueue of the LocalQueue does not exist."""
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"
    """The ClusterQueue of the LocalQueue is not active."""


QUOTA_AUTOMATION = "MultiKueueManagerQuotaAutomation"
"""Type of the condition of ClusterQueues whose quotas may follow the workers (M-203)."""


class AutomationReason(StrEnum):
    """Reasons of that condition."""

    QUOTA_AUTOMATED = "QuotaAutomated"
    """Its quotas follow those of the workers."""
    NOT_REQUESTED = "NotRequested"
    """Its MultiKueueConfig does not ask for it."""
    UNSUPPORTED_CONFIGURATION = "UnsupportedConfiguration"
    """It asks for it, and cannot have it; the message says why."""


class ClusterReason(StrEnum):
    """Reasons of Active of MultiKueueClusters and MultiKueue AdmissionChecks (M-60, M-222)."""

    ACTIVE = "Active"
    """It is connected, or can be used."""
    BAD_KUBE_CONFIG = "BadKubeConfig"
    """The kubeconfig is missing or cannot be read."""
    INSECURE_KUBE_CONFIG = "InsecureKubeConfig"
    """The kubeconfig asks for what the manager refuses, such as a program or no TLS."""
    BAD_CLUSTER_PROFILE = "BadClusterProfile"
    """The ClusterProfile is missing or cannot be used."""
    BAD_REST_CONFIG = "BadRestConfig"
    """No connection can be made from what the ClusterProfile says."""
    CLUSTER_PROFILE_FEATURE_DISABLED = "MultiKueueClusterProfileFeatureDisabled"
    """It names a ClusterProfile, and the gate is off."""
    CLIENT_CONNECTION_FAILED = "ClientConnectionFailed"
    """The worker does not answer, or refuses the manager."""
    EXPIRING = "Expiring"
    """The credentials expire soon."""
    NOT_EXPIRING = "NotExpiring"
    """The credentials do not expire soon."""
    OTHER_MANAGER = "OtherManager"
    """Another manager with the same origin has objects there."""
    NO_OTHER_MANAGER = "NoOtherManager"
    """No other manager with the same origin has objects there."""
    IDENTIFIED = "Identified"
    """The worker has stated which cluster it is."""
    BAD_CONFIG = "BadConfig"
    """The MultiKueueConfig of the check is missing or cannot be used."""
    SOME_ACTIVE_CLUSTERS = "SomeActiveClusters"
    """Some of its workers cannot be used; the others can."""
    NO_USABLE_CLUSTERS = "NoUsableClusters"
    """None of its workers can be used."""


class DrainReason(StrEnum):
    """Reasons of Cordoned and Drained of MultiKueueClusters, and of Events about them. Ours."""

    CORDONED = "Cordoned"
    """It gets no new jobs."""
    UNCORDONED = "Uncordoned"
    """It gets new jobs again."""
    DRAINING = "Draining"
    """Jobs are being moved, or will be when it is their turn."""
    WAITING = "Waiting"
    """The drain waits for room elsewhere, for the worker to answer, or for its start time."""
    STUCK = "Stuck"
    """The remaining jobs fit nowhere until somebody solves a problem, or forces the drain."""
    DRAINED = "Drained"
    """None of its jobs is left there."""
    UNCLEAR = "Unclear"
    """The annotation cannot be read."""


class CheckReason(StrEnum):
    """Reasons of Active of ProvisioningRequest AdmissionChecks.

    `ClusterReason` has those of MultiKueue checks.
    """

    ACTIVE = "Active"
    """It can be used."""
    BAD_PARAMETERS_REF = "BadParametersRef"
    """Its ProvisioningRequestConfig is missing or is not one."""
    KIND_UNAVAILABLE = "ProvisioningRequestUnavailable"
    """Ours: the requests could not be created, or could not be watched."""


class ProvisioningCondition(StrEnum):
    """Types of ProvisioningRequest conditions (E-156)."""

    ACCEPTED = "Accepted"
    """An autoscaler works on it."""
    PROVISIONED = "Provisioned"
    """The capacity is there."""
    FAILED = "Failed"
    """The capacity cannot be had."""
    BOOKING_EXPIRED = "BookingExpired"
    """The capacity is no longer held for the pods."""
    CAPACITY_REVOKED = "CapacityRevoked"
    """The capacity is being taken away."""


class CheckState(StrEnum):
    """States of one admission check of a Workload (E-153)."""

    PENDING = "Pending"
    """It has not been decided."""
    READY = "Ready"
    """The Workload may start, as far as this check goes."""
    RETRY = "Retry"
    """The Workload is evicted and tried again."""
    REJECTED = "Rejected"
    """The Workload is deactivated."""


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, or None."""
    for condition in conditions:  # a generator would take twice as long in this hot function
        if condition.type == type_:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition of that type is present and True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def set_condition(
    conditions: Sequence[Condition],
    *,
    type_: str,
    status: bool,
    reason: str,
    message: str,
    now: datetime,
    observed_generation: int = 0,
) -> tuple[Condition, ...]:
    """Return the list with that condition set; its time changes only with its status."""
    old = find_condition(conditions, type_)
    wire_status = "True" if status else "False"
    keep_time = old is not None and old.status == wire_status
    new = Condition(
        type=type_,
        status=wire_status,
        reason=str(reason),
        message=message[:MAX_MESSAGE],
        last_transition_time=old.last_transition_time
        if old is not None and keep_time
        else format_time(now),
        observed_generation=observed_generation,
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if c.type == type_ else c for c in conditions)
