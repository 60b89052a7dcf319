"""What the rules of the provisioning controller may ask for; each step may be repeated. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.controllers.provisioning.content import Content
from multiqueue.controllers.provisioning.view import ProvisioningView


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningDone:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequests:
    """Delete requests; their templates follow."""

    requests: tuple[ProvisioningRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeChecks:
    """Write the check states that follow from the requests; computed again on a newer Workload."""

    change: Callable[[ProvisioningView], WorkloadStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Create the templates, then the request; `RepairTemplates` gives them to it."""

    check: str
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTemplates:
    """Create missing templates of a request, and make the request the owner of all of them."""

    check: str
    request: ProvisioningRequest
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Write on a check why its request cannot be made."""

    check: str
    message: str


ProvisioningPlan: TypeAlias = (
    ProvisioningDone | DeleteRequests | ChangeChecks | CreateRequest | RepairTemplates | Refuse
)
