"""Rules of Cohorts. A cycle is no error here: the engine deactivates its members."""

from __future__ import annotations

from multiqueue.api.config.gates import Gates
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError
from multiqueue.api.validation.quota import (
    COHORT_RULES,
    validate_resource_groups,
    validate_weight,
    warn_resource_groups,
)


def validate_cohort_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a Cohort."""
    spec = mapping(obj, "spec")
    return [*validate_resource_groups(spec, COHORT_RULES), *validate_weight(spec)]


def validate_cohort_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return what is wrong with a Cohort; every field may change."""
    return validate_cohort_create(new, gates)


def warn_cohort(obj: Object) -> list[str]:
    """Return admission warnings for specs that are accepted here and refused by upstream."""
    return list(warn_resource_groups(mapping(obj, "spec"), COHORT_RULES))
