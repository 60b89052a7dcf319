"""Defaults and rules of our kinds: pure functions on wire objects of v1beta2."""

from __future__ import annotations

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
from multiqueue.api.validation.field_error import (
    ErrorType,
    FieldError,
    invalid_status,
    join_errors,
)
from multiqueue.api.validation.kinds import RULES, KindRules
from multiqueue.api.validation.others import (
    validate_admission_check_create,
    validate_admission_check_update,
    validate_local_queue_create,
    validate_local_queue_update,
    validate_multikueue_cluster_create,
    validate_multikueue_cluster_update,
    validate_multikueue_config_create,
    validate_multikueue_config_update,
    validate_topology_create,
    validate_topology_update,
    warn_admission_check,
)
from multiqueue.api.validation.resource_flavor import (
    default_resource_flavor,
    validate_resource_flavor_create,
    validate_resource_flavor_update,
)
from multiqueue.api.validation.workload import default_workload, validate_workload_create
from multiqueue.api.validation.workload_update import validate_workload_update

__all__ = [
    "RULES",
    "ErrorType",
    "FieldError",
    "KindRules",
    "default_cluster_queue",
    "default_resource_flavor",
    "default_workload",
    "invalid_status",
    "join_errors",
    "validate_admission_check_create",
    "validate_admission_check_update",
    "validate_cluster_queue_create",
    "validate_cluster_queue_update",
    "validate_cohort_create",
    "validate_cohort_update",
    "validate_local_queue_create",
    "validate_local_queue_update",
    "validate_multikueue_cluster_create",
    "validate_multikueue_cluster_update",
    "validate_multikueue_config_create",
    "validate_multikueue_config_update",
    "validate_resource_flavor_create",
    "validate_resource_flavor_update",
    "validate_topology_create",
    "validate_topology_update",
    "validate_workload_create",
    "validate_workload_update",
    "warn_admission_check",
    "warn_cluster_queue",
    "warn_cohort",
]
