"""What the provisioning controller knows when it decides about one Workload. Pure."""

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
        name: Of the AdmissionCheck.
        config: What its requests look like; None: it cannot be resolved, the check is not active.
    """

    name: str
    config: ProvisioningRequestConfigSpec | None = None

    @property
    def retry(self) -> ProvisioningRequestRetryStrategy:
        """When a failed request is tried again."""
        strategy = self.config.retry_strategy if self.config else None
        return strategy or ProvisioningRequestRetryStrategy()

    @property
    def limit(self) -> int:
        """How often a failed request is tried again."""
        limit = self.retry.backoff_limit_count
        return limit if limit is not None else 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningView:
    """One Workload, its checks and everything that was made for it.

    Attributes:
        checks: In the order of their names.
        requests: Those that the Workload owns.
        template_owners: Owners of the PodTemplates of its namespace that are ours, by name.
        flavors: Those that were assigned, by name; what does not exist is absent.
        cleanup: Requests go with an eviction (gate CleanupProvisioningRequestsOnEviction).
        jitter: A random number in [0, 1) that spreads retries.
        api_version: In which ProvisioningRequests are written.
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
        """Return what a pod set was given.

        Raises:
            InconsistentAssignmentError: nothing.
        """
        admission = self.workload.status.admission
        for assignment in admission.pod_set_assignments if admission else ():
            if assignment.name == pod_set.name:
                return assignment
        raise InconsistentAssignmentError(
            f'Workload "{self.workload.metadata.key}": the assignments are inconsistent, there is '
            f'none for pod set "{pod_set.name}"'
        )
