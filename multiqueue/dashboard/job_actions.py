"""What the actions on a job write: on the job itself, or on a Workload without one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from multiqueue.api.names import PRIORITY_CLASS
from multiqueue.api.v1beta2 import Workload, WorkloadPriorityClass
from multiqueue.api.workload_state import has_quota
from multiqueue.jobs.framework.compose import build_priority
from multiqueue.jobs.framework.priority import WORKLOAD_PRIORITY_CLASS, workload_priority
from multiqueue.kube.job_objects import JobObject, UnknownJobKindError, list_job_objects
from multiqueue.kube.resources import WORKLOADS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionWrite:
    """A patch of an object; a deletion if there is no patch."""

    target: JobObject
    patch: Json = field(default_factory=dict)

    @property
    def verb(self) -> str:
        """The right that it needs."""
        return "patch" if self.patch else "delete"


def evict(workload: Workload, chosen: WorkloadPriorityClass | None) -> Sequence[ActionWrite]:
    """Stop the Workload; whoever writes this resumes it once it is evicted."""
    del chosen
    if not has_quota(workload.status):
        return ()
    metadata = workload.metadata
    target = JobObject(
        resource=WORKLOADS, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
    )
    return (ActionWrite(target=target, patch={"spec": {"active": False}}),)


def cancel(workload: Workload, chosen: WorkloadPriorityClass | None) -> Sequence[ActionWrite]:
    """Delete the job as ``multiqueue delete workload`` does."""
    del chosen
    return [ActionWrite(target=each) for each in _list_objects(workload)]


def set_priority(workload: Workload, chosen: WorkloadPriorityClass | None) -> Sequence[ActionWrite]:
    """Set the class of the job; nothing if the Workload would not follow it (E-187).

    A Workload follows the class of its job if its priority is not that of a PriorityClass. One
    without any class accepts one only while it has no quota.

    Args:
        workload: The Workload.
        chosen: The class; None: not chosen yet.
    """
    reference = workload.spec.priority_class_ref
    if reference is None and has_quota(workload.status):
        return ()
    if reference is not None and reference.kind != WORKLOAD_PRIORITY_CLASS:
        return ()
    patch: Json = {"metadata": {"labels": {PRIORITY_CLASS: chosen.metadata.name if chosen else ""}}}
    own = {"spec": build_priority(workload_priority(chosen))} if chosen else patch
    return [
        ActionWrite(target=each, patch=own if each.resource is WORKLOADS else patch)
        for each in _list_objects(workload)
    ]


def _list_objects(workload: Workload) -> Sequence[JobObject]:
    try:
        return list_job_objects(workload)
    except UnknownJobKindError:
        return ()
