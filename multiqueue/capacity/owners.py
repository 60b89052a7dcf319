"""Finds the job of a Workload in the manager's informers. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multiqueue.api import v1beta2 as api
from multiqueue.jobs.framework.gvk import GroupVersionKind

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext

Json = dict[str, Any]


def find_kind(workload: api.Workload) -> GroupVersionKind | None:
    """Return the kind of the job: the controller owner's, or the first owner's (M-81).

    Deviates: annotations that name an owner are not believed, because their writer could have the
    jobs of others deleted (upstream #12548).
    """
    owners = workload.metadata.owner_references
    owner = next((o for o in owners if o.controller), owners[0] if owners else None)
    return GroupVersionKind.of(owner.api_version, owner.kind) if owner is not None else None


def find_job(workload: api.Workload, context: ManagerContext) -> Json | None:
    """Return the job; None while it is not known."""
    kind = find_kind(workload)
    found = context.integrations.find_kind(kind) if kind is not None else None
    if found is None:
        return None
    return found.source(context, found.integration).find_owner(workload)
