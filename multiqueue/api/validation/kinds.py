"""The table of the rules of every kind, for webhooks, the manager and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from multiqueue.api.config.gates import Gates
from multiqueue.api.validation import others
from multiqueue.api.validation.access import Object
from multiqueue.api.validation.cluster_queue import (
    default_cluster_queue,
    validate_cluster_queue_create,
    validate_cluster_queue_update,
    warn_cluster_queue,
)
from multiqueue.api.validation.cohort import (
    validate_cohort_create,
    validate_cohort_update,
    warn_cohort,
)
from multiqueue.api.validation.field_error import FieldError
from multiqueue.api.validation.resource_flavor import (
    default_resource_flavor,
    validate_resource_flavor_create,
    validate_resource_flavor_update,
)
from multiqueue.api.validation.workload import default_workload, validate_workload_create
from multiqueue.api.validation.workload_update import validate_workload_update


class Default(Protocol):
    """Returns a defaulted copy."""

    def __call__(self, obj: Object, gates: Gates) -> dict[str, Any]:
        """Default one object."""


class ValidateCreate(Protocol):
    """Returns the errors of a new object."""

    def __call__(self, obj: Object, gates: Gates | None = None, /) -> list[FieldError]:
        """Check one object."""


class ValidateUpdate(Protocol):
    """Returns the errors of a change."""

    def __call__(self, new: Object, old: Object, gates: Gates | None = None, /) -> list[FieldError]:
        """Check one change."""


class Warn(Protocol):
    """Returns admission warnings."""

    def __call__(self, obj: Object, /) -> list[str]:
        """Return the warnings about one object."""


def _same(obj: Object, gates: Gates) -> dict[str, Any]:
    _ = gates
    return dict(obj)


def _no_errors(_obj: Object, _gates: Gates | None = None, /) -> list[FieldError]:
    return []


def _no_update_errors(
    _new: Object, _old: Object, _gates: Gates | None = None, /
) -> list[FieldError]:
    return []


def _no_warnings(_obj: Object, /) -> list[str]:
    return []


def _default_cluster_queue(obj: Object, gates: Gates) -> dict[str, Any]:
    _ = gates
    return default_cluster_queue(obj)


def _default_resource_flavor(obj: Object, gates: Gates) -> dict[str, Any]:
    _ = gates
    return default_resource_flavor(obj)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """Defaults and rules of one kind, for objects of v1beta2."""

    default: Default = _same
    validate_create: ValidateCreate = _no_errors
    validate_update: ValidateUpdate = _no_update_errors
    warn: Warn = _no_warnings

    @property
    def has_defaults(self) -> bool:
        """Whether objects of the kind get defaults."""
        return self.default is not _same

    @property
    def has_rules(self) -> bool:
        """Whether new objects of the kind are checked."""
        return self.validate_create is not _no_errors


RULES: Mapping[str, KindRules] = MappingProxyType(
    {
        "AdmissionCheck": KindRules(
            validate_create=others.validate_admission_check_create,
            validate_update=others.validate_admission_check_update,
            warn=others.warn_admission_check,
        ),
        "ClusterQueue": KindRules(
            default=_default_cluster_queue,
            validate_create=validate_cluster_queue_create,
            validate_update=validate_cluster_queue_update,
            warn=warn_cluster_queue,
        ),
        "Cohort": KindRules(
            validate_create=validate_cohort_create,
            validate_update=validate_cohort_update,
            warn=warn_cohort,
        ),
        "LocalQueue": KindRules(
            validate_create=others.validate_local_queue_create,
            validate_update=others.validate_local_queue_update,
        ),
        "MultiKueueCluster": KindRules(
            validate_create=others.validate_multikueue_cluster_create,
            validate_update=others.validate_multikueue_cluster_update,
        ),
        "MultiKueueConfig": KindRules(
            validate_create=others.validate_multikueue_config_create,
            validate_update=others.validate_multikueue_config_update,
        ),
        "ProvisioningRequestConfig": KindRules(),
        "ResourceFlavor": KindRules(
            default=_default_resource_flavor,
            validate_create=validate_resource_flavor_create,
            validate_update=validate_resource_flavor_update,
        ),
        "Topology": KindRules(
            validate_create=others.validate_topology_create,
            validate_update=others.validate_topology_update,
        ),
        "Workload": KindRules(
            default=default_workload,
            validate_create=validate_workload_create,
            validate_update=validate_workload_update,
        ),
        "WorkloadPriorityClass": KindRules(),
    }
)
"""Rules by kind."""
