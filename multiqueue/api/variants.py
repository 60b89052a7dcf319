"""Parents and variants of concurrent admission: who is which, and which flavors a variant may use.

A parent is the Workload of a job. Its variants are Workloads that it owns, one for each flavor;
they queue and hold quota in its place (E-170). Pure.
"""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import OwnerReference
from multiqueue.lib.digits import is_number


def is_parent(workload: Workload) -> bool:
    """Whether variants of this Workload queue in its place."""
    return workload.metadata.labels.get(names.CONCURRENT_ADMISSION_PARENT) == "true"


def parent_of(workload: Workload) -> OwnerReference | None:
    """Return the Workload that owns this one; None unless it is a variant."""
    for owner in workload.metadata.owner_references:
        if owner.kind == "Workload" and owner.api_version.partition("/")[0] == names.GROUP:
            return owner
    return None


def allowed_flavors(workload: Workload) -> tuple[str, ...] | None:
    """Return the only flavors that the Workload may use, in order; None if it may use all."""
    raw = workload.metadata.annotations.get(names.WORKLOAD_ALLOWED_FLAVORS)
    if raw is None:
        return None
    return tuple(name for part in raw.split(",") if (name := part.strip()))


def variant_order(workload: Workload) -> int:
    """Return the place of a variant among those of its parent; 0 if it is not known."""
    raw = workload.metadata.annotations.get(names.VARIANT_ORDER, "")
    return int(raw) if is_number(raw) else 0


def variant_flavor(workload: Workload) -> str:
    """Return the flavor of a variant, "" if it has none."""
    return next(iter(allowed_flavors(workload) or ()), "")
