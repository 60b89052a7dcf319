"""Finds the slices before and after a slice, from the manager and the workers. Reads only.

Each Workload names the slice that it replaces. If some slices of a chain were deleted here, the job
on the worker closes the gap: it has the name of the job here, and names the slice that owns it now.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.api.slices import is_elastic, list_earlier, replaced_key
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.capacity.owners import find_kind
from multiqueue.dispatch.decide.slice_chain import Successor, find_successor
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.job_source import BY_OWNER_KEY, owner_key
from multiqueue.jobs.informers import BY_REPLACED
from multiqueue.workers.connections.informers import list_workload_keys

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import Informers
    from multiqueue.workers.connections.fleet import Fleet


class Lineage:
    """Finds the slices of elastic jobs.

    Args:
        informers: The manager's informers.
        fleet: The workers.
    """

    def __init__(self, informers: Informers, fleet: Fleet) -> None:
        self._informers = informers
        self._fleet = fleet

    def list_earlier(self, workload: api.Workload) -> tuple[str, ...]:
        """Return the keys of the slices whose quota a Workload took over, the last one first."""
        if not is_elastic(workload) or not replaced_key(workload):
            return ()
        known = tuple(list_earlier(workload, self._informers.workloads.store.get))
        named = self._find_named(workload)
        if named is None or named in {workload.metadata.key, *known}:
            return known
        return (*known, named)

    def find_successor(self, key: str, workload: api.Workload | None) -> Successor | None:
        """Return the slice that took over from this one and may keep its job."""
        store = self._informers.workloads.store
        successor = find_successor(key, partial(store.by_index, BY_REPLACED))
        if successor is not None or not _is_over(workload):
            return successor
        found = [w for w in self._list_namesakes(key) if key in self.list_earlier(w)]
        return find_successor(key, lambda each: found if each == key else ())

    def list_later(self, key: str) -> list[str]:
        """Return the keys of all slices that take over from this one and may wait for its job."""
        store = self._informers.workloads.store
        later = [key]
        for each in later:
            successor_slices = store.by_index(BY_REPLACED, each)
            later += [w.metadata.key for w in successor_slices if w.metadata.key not in later]
        if key not in store:
            known = (w.metadata.key for w in self._list_namesakes(key))
            later += [each for each in known if each not in later]
        return later[1:]

    def _find_named(self, workload: api.Workload) -> str | None:
        """Return the slice that the job names, on the cluster that runs it."""
        kind, cluster = find_kind(workload), workload.status.cluster_name
        session = self._fleet.find_session(cluster) if cluster is not None else None
        if kind is None or session is None:
            return None
        jobs, namespace = session.informers.jobs.get(kind), workload.metadata.namespace
        named: list[str] = []
        for owner in workload.metadata.owner_references:
            job = jobs.store.get(key_of(namespace, owner.name)) if jobs is not None else None
            if job is not None and session.owner.owns_job(job):
                named += self._list_keys(kind, job)
        return named[0] if named else None

    def _list_keys(self, kind: GroupVersionKind, job: dict[str, Any]) -> list[str]:
        adapter = next((each for each in self._fleet.adapters if each.gvk == kind), None)
        return list_workload_keys(adapter, job) if adapter is not None else []

    def _list_namesakes(self, key: str) -> Iterator[api.Workload]:
        """Yield the elastic Workloads with quota whose job this slice has on some worker."""
        store = self._informers.workloads.store
        for name in sorted(self._fleet.find_holders(key)):
            session = self._fleet.find_session(name)
            for kind, job in session.find_jobs(key) if session is not None else ():
                metadata = job["metadata"]
                owner = owner_key(kind, metadata.get("namespace", ""), metadata["name"])
                for workload in store.by_index(BY_OWNER_KEY, owner):
                    is_here = workload.status.cluster_name == name and workload.metadata.key != key
                    if is_here and is_elastic(workload) and has_quota(workload.status):
                        yield workload


def _is_over(workload: api.Workload | None) -> bool:
    return workload is None or is_finished(workload.status)
