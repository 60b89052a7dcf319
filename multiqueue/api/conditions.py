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
    ADMITTED = "Admitted"
    FINISHED = "Finished"
    PODS_READY = "PodsReady"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    REQUEUED = "Requeued"
    DEACTIVATION_TARGET = "DeactivationTarget"
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"


DISRUPTED = "multiqueue.dev/Disrupted"
"""On Workloads: when and why they were stopped for others; `api.disruptions` reads it. Ours."""
ACTIVE = "Active"
"""Condition type of ClusterQueue, LocalQueue, AdmissionCheck and MultiKueueCluster."""
CREDENTIALS_EXPIRING = "CredentialsExpiring"
"""On MultiKueueClusters: the manager's credentials for the worker expire soon. Ours."""
ORIGIN_SHARED = "OriginShared"
"""On MultiKueueClusters: another manager with the same origin has objects there. Ours."""
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
    INVALID = "Invalid"
    FAILING = "Failing"
    # Healthy
    AS_PROMISED = "AsPromised"
    PROMISES_BROKEN = "PromisesBroken"
    SIDE_FAILING = "SideFailing"
    # Canary
    RUNNING = "Running"
    RETURNED = "Returned"
    BROKEN = "Broken"


class Reason(StrEnum):
    """Reasons of Workload conditions."""

    # QuotaReserved
    QUOTA_RESERVED = "QuotaReserved"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    ON_HOLD = "OnHold"
    ADMISSION_GATED = "AdmissionGated"
    # QuotaReserved without the gate UnadmittedWorkloadsObservability
    PENDING = "Pending"
    INADMISSIBLE = "Inadmissible"
    WAITING = "Waiting"
    # BlockedOnPreemptionGates
    PREEMPTION_GATED = "PreemptionGated"
    # Admitted
    ADMITTED = "Admitted"
    NO_RESERVATION = "NoReservation"
    UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
    PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"
    # Finished
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    OWNER_NOT_FOUND = "OwnerNotFound"
    FAILED_TO_START = "FailedToStart"
    WORKLOAD_SLICE_REPLACED = "WorkloadSliceReplaced"
    # Evicted, Requeued
    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    FLAVOR_MIGRATION = "FlavorMigration"
    VARIANT_EVICTED = "VariantEvicted"
    CONCURRENT_ADMISSION = "ConcurrentAdmission"
    DEACTIVATED = "Deactivated"
    REACTIVATED = "Reactivated"
    BACKOFF_FINISHED = "BackoffFinished"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
    # Preempted
    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    # DeactivationTarget
    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
    EVICTED_ON_MANAGER_CLUSTER = "EvictedOnManagerCluster"
    # PodsReady
    WAIT_FOR_START = "WaitForStart"
    STARTED = "Started"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    RECOVERED = "Recovered"


class QueueReason(StrEnum):
    """Reasons of the Active condition of ClusterQueues and LocalQueues."""

    READY = "Ready"
    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    MULTIPLE_MULTIKUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_CHECK_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    MULTIKUEUE_WITH_CONCURRENT_ADMISSION = "MultiKueueWithConcurrentAdmission"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    UNKNOWN = "Unknown"
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"


QUOTA_AUTOMATION = "MultiKueueManagerQuotaAutomation"
"""Type of the condition of ClusterQueues whose quotas may follow the workers (M-203)."""


class AutomationReason(StrEnum):
    """Reasons of that condition."""

    QUOTA_AUTOMATED = "QuotaAutomated"
    NOT_REQUESTED = "NotRequested"
    UNSUPPORTED_CONFIGURATION = "UnsupportedConfiguration"


class ClusterReason(StrEnum):
    """Reasons of Active of MultiKueueClusters and MultiKueue AdmissionChecks (M-60, M-222)."""

    ACTIVE = "Active"
    BAD_KUBE_CONFIG = "BadKubeConfig"
    INSECURE_KUBE_CONFIG = "InsecureKubeConfig"
    BAD_CLUSTER_PROFILE = "BadClusterProfile"
    BAD_REST_CONFIG = "BadRestConfig"
    CLUSTER_PROFILE_FEATURE_DISABLED = "MultiKueueClusterProfileFeatureDisabled"
    CLIENT_CONNECTION_FAILED = "ClientConnectionFailed"
    EXPIRING = "Expiring"
    NOT_EXPIRING = "NotExpiring"
    OTHER_MANAGER = "OtherManager"
    NO_OTHER_MANAGER = "NoOtherManager"
    BAD_CONFIG = "BadConfig"
    SOME_ACTIVE_CLUSTERS = "SomeActiveClusters"
    NO_USABLE_CLUSTERS = "NoUsableClusters"


class DrainReason(StrEnum):
    """Reasons of Cordoned and Drained of MultiKueueClusters, and of Events about them. Ours."""

    CORDONED = "Cordoned"
    UNCORDONED = "Uncordoned"
    DRAINING = "Draining"
    """Jobs are being moved, or will be when it is their turn."""
    WAITING = "Waiting"
    """The drain waits for room elsewhere, for the worker to answer, or for its start time."""
    STUCK = "Stuck"
    """The remaining jobs fit nowhere until somebody solves a problem, or forces the drain."""
    DRAINED = "Drained"
    UNCLEAR = "Unclear"
    """The annotation cannot be read."""


class CheckReason(StrEnum):
    """Reasons of Active of ProvisioningRequest AdmissionChecks.

    `ClusterReason` has those of MultiKueue checks.
    """

    ACTIVE = "Active"
    BAD_PARAMETERS_REF = "BadParametersRef"
    KIND_UNAVAILABLE = "ProvisioningRequestUnavailable"
    """Ours: the requests could not be created, or could not be watched."""


class ProvisioningCondition(StrEnum):
    """Types of ProvisioningRequest conditions (E-156)."""

    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    BOOKING_EXPIRED = "BookingExpired"
    CAPACITY_REVOKED = "CapacityRevoked"


class CheckState(StrEnum):
    """States of one admission check of a Workload (E-153)."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


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
