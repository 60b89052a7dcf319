"""The input for a decision of the provisioning controller about one Workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import (
    AdmissionCheckState,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Workload,
)
from multiqueue.api.v1beta2.admission_check import (
    ProvisioningRequestConfigSpec,
    ProvisioningRequestRetryStrategy,
)
from multiqueue.api.v1beta2.meta import OwnerReference
from multiqueue.api.workload_checks import find_check


class InconsistentAssignmentError(Exception):
    """The admission of a Workload lacks one of its pod sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningCheck:
    """One check of the Workload that this controller decides.

    Attributes:
        name: The name of the AdmissionCheck.
        config: The configuration of its requests; None if it cannot be resolved: the check is
            inactive.
    """

    name: str
    config: ProvisioningRequestConfigSpec | None = None

    @property
    def retry(self) -> ProvisioningRequestRetryStrategy:
        """How failed requests are retried."""
        strategy = self.config.retry_strategy if self.config else None
        return strategy or ProvisioningRequestRetryStrategy()

    @property
    def limit(self) -> int:
        """How often a failed request is retried."""
        limit = self.retry.backoff_limit_count
        return limit if limit is not None else 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningView:
    """One Workload, its checks and everything that was made for it.

    Attributes:
        checks: The Workload's provisioning checks, by name.
        requests: The requests that the Workload owns.
        template_owners: Owners of our PodTemplates in its namespace, by name.
        flavors: The assigned flavors, by name; those that do not exist are absent.
        cleanup: Whether an eviction deletes the requests (gate
            CleanupProvisioningRequestsOnEviction).
        jitter: A random number in [0, 1) that spreads retries.
        api_version: The version in which ProvisioningRequests are written.
    """

    workload: Workload
    checks: tuple[ProvisioningCheck, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    template_owners: Mapping[str, tuple[OwnerReference, ...]] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    cleanup: bool = True
    jitter: float = 0.0
    api_version: str = "autoscaling.x-k8s.io/v1"
    now: datetime

    def state_of(self, check: ProvisioningCheck) -> AdmissionCheckState:
        """Return the state of one of the checks."""
        return find_check(self.workload.status, check.name) or AdmissionCheckState(name=check.name)

    def is_in(self, check: ProvisioningCheck, state: CheckState) -> bool:
        """Whether one of the checks is in that state."""
        return self.state_of(check).state == state

    def assignment_of(self, pod_set: PodSet) -> PodSetAssignment:
        """Return the assignment of a pod set.

        Raises:
            InconsistentAssignmentError: the pod set has none.
        """
        admission = self.workload.status.admission
        for assignment in admission.pod_set_assignments if admission else ():
            if assignment.name == pod_set.name:
                return assignment
        raise InconsistentAssignmentError(
            f'Workload "{self.workload.metadata.key}": the assignments are inconsistent, there is '
            f'none for pod set "{pod_set.name}"'
        )
