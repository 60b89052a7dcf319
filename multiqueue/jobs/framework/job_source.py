"""How the reconciler of a kind finds its jobs: each object is one, or several are one together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from multiqueue.api.names import PREBUILT_WORKLOAD_NAME, key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration, Job

if TYPE_CHECKING:
    from multiqueue.jobs.context import ManagerContext

BY_OWNER = "owner"
"""Workloads by the uid of each owner."""
BY_OWNER_KEY = "owner-key"
"""Workloads by `owner_key` of each owner: finds those whose owner is gone."""
BY_PREBUILT = "prebuilt"
"""Jobs by the key of their prebuilt Workload."""
BY_CONTROLLER = "controller"
"""Jobs by the uid of the object that controls them."""


def prebuilt_name(job: Job) -> str:
    """Return the name of the Workload that was made before the job (E-183), or an empty string."""
    metadata = job["metadata"]
    annotation = (metadata.get("annotations") or {}).get(PREBUILT_WORKLOAD_NAME)
    return str(annotation or (metadata.get("labels") or {}).get(PREBUILT_WORKLOAD_NAME) or "")


class JobSource(Protocol):
    """Finds the jobs of one kind by the keys that are reconciled. Reads informers only."""

    def key_of(self, obj: Job) -> str:
        """Return the key of the job that an object belongs to."""

    def delay(self, old: Job | None, new: Job | None) -> float:
        """Return the seconds after which a change of an object causes a reconcile."""

    def find(self, key: str) -> Job | None:
        """Return a job; None if nothing of it is known."""

    def list_workloads(self, job: Job) -> Sequence[Workload]:
        """Return the Workloads of a job, oldest first."""

    def find_owner(self, workload: Workload) -> Job | None:
        """Return the job that owns a Workload; None while it is not known."""

    def keys_for(self, workload: Workload) -> Iterable[str]:
        """Return the keys of the jobs that a change of a Workload concerns."""

    def left_behind(self, key: str, job: Job | None) -> Sequence[Workload]:
        """Return the Workloads of that key none of whose owners is known, oldest first."""


class SingleObjects:
    """The source of kinds whose jobs are one object each.

    Args:
        context: The manager's context.
        integration: The integration of the kind.
    """

    def __init__(self, context: ManagerContext, integration: Integration) -> None:
        self._gvk = integration.gvk
        self._jobs = context.informers.jobs[integration.name].store
        self._workloads = context.informers.workloads.store

    def key_of(self, obj: Job) -> str:
        """Return namespace and name."""
        return key_of(obj["metadata"]["namespace"], obj["metadata"]["name"])

    def delay(self, old: Job | None, new: Job | None) -> float:
        """Return 0."""
        return 0.0

    def find(self, key: str) -> Job | None:
        """Return the object."""
        return self._jobs.get(key)

    def list_workloads(self, job: Job) -> Sequence[Workload]:
        """Return the Workloads that the object owns."""
        return sorted(self._workloads.by_index(BY_OWNER, job["metadata"]["uid"]), key=age)

    def find_owner(self, workload: Workload) -> Job | None:
        """Return the first owner that is known."""
        for owner in workload.metadata.owner_references:
            job = self._jobs.get(key_of(workload.metadata.namespace, owner.name))
            if job is not None and job["metadata"].get("uid") == owner.uid:
                return job
        return None

    def keys_for(self, workload: Workload) -> Iterable[str]:
        """Yield the keys of the owners, and of objects that name this Workload."""
        for owner in workload.metadata.owner_references:
            gvk = GroupVersionKind.of(owner.api_version, owner.kind)
            if (gvk.group, gvk.kind) == (self._gvk.group, self._gvk.kind):
                yield key_of(workload.metadata.namespace, owner.name)
        for job in self._jobs.by_index(BY_PREBUILT, workload.metadata.key):
            yield self.key_of(job)

    def left_behind(self, key: str, job: Job | None) -> Sequence[Workload]:
        """Return the Workloads whose owner had this key but another uid: that owner is gone."""
        namespace, _, name = key.partition("/")
        uid = None if job is None else job["metadata"]["uid"]
        found = self._workloads.by_index(BY_OWNER_KEY, owner_key(self._gvk, namespace, name))
        return sorted(
            (
                workload
                for workload in found
                if all(owner.uid != uid for owner in workload.metadata.owner_references)
            ),
            key=age,
        )


def owner_key(gvk: GroupVersionKind, namespace: str, name: str) -> str:
    """Return the identity of an owner in the cluster, without version and uid."""
    return f"{gvk.group}/{gvk.kind}/{namespace}/{name}"


def age(workload: Workload) -> tuple[str, str]:
    """Return what Workloads are sorted by, oldest first."""
    return (workload.metadata.creation_timestamp, workload.metadata.name)
