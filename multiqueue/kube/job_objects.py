"""The objects that Workloads belong to. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.v1beta2 import Workload
from multiqueue.kube.resources import WORKLOADS, Resource, resource_of


class UnknownJobKindError(ValueError):
    """A Workload belongs to an object of a kind that is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job, or a Workload without a job."""

    resource: Resource
    namespace: str
    name: str
    uid: str


def list_job_objects(workload: Workload) -> list[JobObject]:
    """Return the jobs of a Workload; the Workload itself if it has none.

    Raises:
        UnknownJobKindError: a job is of a kind that is not known here.
    """
    metadata = workload.metadata
    found = []
    for owner in metadata.owner_references:
        row = find_job_kind(owner.api_version, owner.kind)
        if row is None:
            raise UnknownJobKindError(
                f'Workload "{metadata.key}" belongs to {owner.kind} "{owner.name}", and '
                f"{owner.api_version} {owner.kind} is no kind of jobs known here; delete it "
                "with kubectl"
            )
        resource = resource_of(owner.api_version, row.plural, row.kind)
        found.append((resource, owner.name, owner.uid))
    return [
        JobObject(resource=resource, namespace=metadata.namespace, name=name, uid=uid)
        for resource, name, uid in found or [(WORKLOADS, metadata.name, metadata.uid)]
    ]
