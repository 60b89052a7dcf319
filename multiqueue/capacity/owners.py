"""Finds the job of a Workload in the manager's informers. Reads only."""

from __future__ import annotations

from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind

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
    integration = context.integrations.find_by_gvk(kind) if kind is not None else None
    if integration is None:
        return None
    store = context.informers.jobs[integration.name].store
    for owner in workload.metadata.owner_references:
        job = store.get(key_of(workload.metadata.namespace, owner.name))
        if job is not None and job["metadata"].get("uid") == owner.uid:
            return job
    return None
