"""The owners of jobs: from the informers, and from the API server if no informer has them."""

from __future__ import annotations

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.names import key_of
from multiqueue.jobs.context import Informers
from multiqueue.jobs.framework.ancestors import MAX_DEPTH, OwnerNotFoundError, find_ancestor
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.registry import IntegrationRegistry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import Resource


class InformerOwners:
    """An `OwnerLookup` over the informers of the enabled kinds.

    Owners of known kinds that are not enabled are followed only once they were read.
    """

    def __init__(self, informers: Informers, integrations: IntegrationRegistry) -> None:
        self._informers = informers
        self._integrations = integrations
        self._read: dict[tuple[GroupVersionKind, str], Job | None] = {}

    def is_known(self, kind: GroupVersionKind) -> bool:
        """Whether the kind has an integration here or upstream, in this very version (J-24)."""
        if self.is_enabled(kind):
            return True
        row = find_job_kind(kind.api_version, kind.kind)
        return row is not None and bool(row.framework) and row.version == kind.version

    def is_enabled(self, kind: GroupVersionKind) -> bool:
        """Whether the kind has an integration here (J-25)."""
        if kind in self._integrations.owners:
            return True
        found = self._integrations.find_kind(kind)
        return found is not None and found.owns_jobs and found.integration.gvk == kind

    def find_owner(self, kind: GroupVersionKind, namespace: str, name: str) -> Job | None:
        """Return an owner that was seen, or read."""
        key = key_of(namespace, name)
        integration = self._integrations.find_by_gvk(kind)
        known: Job | None = None
        if integration is not None:
            known = self._informers.jobs[integration.name].store.get(key)
        return known or self._read.get((kind, key))

    async def ancestor_of(self, job: Job, client: KubeClient, *, manage_all: bool) -> Job | None:
        """Return the job that manages this one; owners that no informer has are read.

        Raises:
            NestingTooDeepError: there are too many owners, or a cycle.
            OwnerNotFoundError: an owner is gone.
            KubeError: the API server cannot be asked.
        """
        namespace = job["metadata"].get("namespace", "")
        for _ in range(MAX_DEPTH):
            try:
                return find_ancestor(job, self, manage_all=manage_all)
            except OwnerNotFoundError as error:
                if (error.kind, key_of(namespace, error.name)) in self._read:
                    raise
                await self._fetch(error.kind, namespace, error.name, client)
        return find_ancestor(job, self, manage_all=manage_all)

    async def _fetch(
        self, kind: GroupVersionKind, namespace: str, name: str, client: KubeClient
    ) -> None:
        row = find_job_kind(kind.api_version, kind.kind)
        integration = self._integrations.find_by_gvk(kind)
        if integration is not None:
            resource = integration.resource
        elif row is None:
            return  # its kind is external, and not served or not listed yet
        else:
            resource = Resource(
                group=kind.group,
                version=kind.version,
                plural=row.plural,
                kind=kind.kind,
                namespaced=True,
            )
        found: Job | None = None
        try:
            found = await client.get(resource, name, namespace=namespace)
        except Forbidden:
            # A kind that is not enabled needs no rights: then the search ends at its objects.
            found = {"metadata": {"uid": None}}
        except NotFound:
            found = None
        self._read[(kind, key_of(namespace, name))] = found
