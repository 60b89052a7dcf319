"""ProvisioningRequest of autoscaling.x-k8s.io: a request to an autoscaler for capacity.

v1 and v1beta1 have the same fields; the kind belongs to the cluster autoscaler. Our controllers
read these types and write plain dicts.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from multiqueue.api.conditions import ProvisioningCondition, is_true
from multiqueue.api.markers import SUBDOMAIN_PATTERN, SchemaRule, described
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct

GROUP = "autoscaling.x-k8s.io"
VERSIONS = ("v1", "v1beta1")
"""Versions, the newest first; the first one that the server has is used."""


class PodTemplateReference(Struct, frozen=True, kw_only=True):
    """A PodTemplate of the same namespace."""

    name: Annotated[
        str, described("Name of the PodTemplate.", maxLength=253, pattern=SUBDOMAIN_PATTERN)
    ] = ""


class ProvisioningRequestPodSet(Struct, frozen=True, kw_only=True):
    """A number of equal pods."""

    pod_template_ref: Annotated[
        PodTemplateReference, described("What one pod looks like.", required=True)
    ] = PodTemplateReference()
    count: Annotated[int, described("Number of pods.", required=True, minimum=1)] = 1


class ProvisioningRequestSpec(Struct, frozen=True, kw_only=True):
    """The pods that need capacity, all of them or none."""

    pod_sets: Annotated[
        tuple[ProvisioningRequestPodSet, ...],
        described("The pods that shall find room.", required=True, minItems=1, maxItems=32),
    ] = ()
    provisioning_class_name: Annotated[
        str,
        described(
            "How capacity is found, such as check-capacity.autoscaling.x-k8s.io or "
            "best-effort-atomic-scale-up.autoscaling.x-k8s.io.",
            required=True,
            maxLength=253,
            pattern=SUBDOMAIN_PATTERN,
        ),
    ] = ""
    parameters: Annotated[
        dict[str, Annotated[str, described("", maxLength=255)]],
        described("What the class understands beside the pods.", maxProperties=100),
    ] = msgspec.field(default_factory=dict)


class ProvisioningRequestStatus(Struct, frozen=True, kw_only=True):
    """The answer of the autoscaler."""

    conditions: Annotated[
        tuple[Condition, ...],
        described(
            "Accepted, Provisioned, Failed, BookingExpired and CapacityRevoked.",
            list_map_keys=("type",),
        ),
    ] = ()
    provisioning_class_details: Annotated[
        dict[str, Annotated[str, described("", maxLength=32768)]],
        described("What the class has to say about the capacity.", maxProperties=64),
    ] = msgspec.field(default_factory=dict)


class ProvisioningRequest(Struct, frozen=True, kw_only=True):
    """A request for capacity for a group of pods, all of them or none."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ProvisioningRequestSpec,
        described(
            "What is asked for; immutable.",
            required=True,
            rules=(SchemaRule("self == oldSelf", "the spec is immutable"),),
        ),
    ] = ProvisioningRequestSpec()
    status: Annotated[ProvisioningRequestStatus, described("What the autoscaler answered.")] = (
        ProvisioningRequestStatus()
    )

    def has(self, condition: ProvisioningCondition) -> bool:
        """Whether a condition is True."""
        return is_true(self.status.conditions, condition)

    def message(self, condition: ProvisioningCondition) -> str:
        """The message of a condition; empty if it is absent."""
        return next((c.message for c in self.status.conditions if c.type == condition), "")
