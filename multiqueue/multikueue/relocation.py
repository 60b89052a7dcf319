"""Whether what runs on a worker could run elsewhere: now, later, or nowhere.

Judged as if the manager had not reserved a flavor yet: it reserves anew once the Workload left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.jobs.context import ManagerContext
from multiqueue.model.build import BuildOptions
from multiqueue.multikueue.dispatch_view import describe_kind
from multiqueue.multikueue.filters import why_not
from multiqueue.multikueue.filters.candidate import Candidate
from multiqueue.multikueue.fleet import Fleet
from multiqueue.multikueue.memory import GroupMemory
from multiqueue.multikueue.observe import Observation, Observer
from multiqueue.multikueue.stop_time import find_cut_off
from multiqueue.multikueue.workload_view import build_workload_view
from multiqueue.plugins import ClusterView, Fit, Outlook, WorkloadView, judge


class Chance(Enum):
    """Whether another cluster would take a Workload."""

    NOW = "Now"
    ROOM = "Room"
    """One can hold it, once it has room."""
    MEND = "Mend"
    """One might, once somebody mends something: a connection, a queue, a restriction."""
    NEVER = "Never"


_CHANCES = {
    Outlook.FITS: Chance.NOW,
    Outlook.UNKNOWN: Chance.NOW,
    Outlook.WAITS: Chance.ROOM,
    Outlook.UNAVAILABLE: Chance.MEND,
    Outlook.NEVER: Chance.NEVER,
}
_ORDER = list(Chance)
_WORDS = {
    Chance.ROOM: "no other cluster has room for it now",
    Chance.MEND: "no other cluster can take it",
    Chance.NEVER: "no other cluster can ever hold it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What there is for a Workload elsewhere.

    Attributes:
        chance: The best of all other clusters.
        why: Why it is better left where it is: it would not run at once, cluster by cluster, or
            its checkpoint would be cut off; empty for no reason.
        cluster: With `Chance.NOW`: which one it is expected on.
    """

    chance: Chance
    why: str = ""
    cluster: str = ""


class Relocation:
    """Looks for other clusters.

    Args:
        context: Of the manager.
        fleet: The workers.
        options: How requests of Workloads are read.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet, options: BuildOptions) -> None:
        self._context = context
        self._fleet = fleet
        self._options = options
        self._observer = Observer(context, fleet)

    def judge(self, key: str, *, leaving: str) -> Prospect:
        """Say what there is for a Workload on other clusters than the one that it leaves.

        A cluster whose queues cannot be read counts as one with room: it decides for itself.
        Cost: a look at each cluster of the MultiKueueConfig.
        """
        seen = self._observer.observe(key, GroupMemory(), 0)
        if seen.workload is None:
            return Prospect(chance=Chance.NEVER, why="it is gone")
        shown = self.view(seen.workload, kind=_kind_of(seen))
        bare = _without_reservation(seen.workload)
        fits = {
            name: judge(shown, self._cluster(name, seen, bare, shown))
            for name in seen.clusters
            if name != leaving
        }
        prospect = combine(fits)
        cut_off = find_cut_off(seen.workload, seen.job)
        if not cut_off or prospect.why:
            return prospect
        return replace(prospect, why=cut_off)

    def expect(self, workload: api.Workload, cluster: str) -> None:
        """Count a Workload at the cluster that it is expected on, until its copy shows up there."""
        state = self._fleet.find_state(cluster)
        if state is not None:
            state.intend(self.view(workload, kind=""))

    def view(self, workload: api.Workload, *, kind: str) -> WorkloadView:
        """Return a Workload as it will look once it has left."""
        return build_workload_view(
            _without_reservation(workload),
            kind=kind,
            find_flavor=self._context.informers.resource_flavors.store.get,
            options=self._options,
        )

    def _cluster(
        self, name: str, seen: Observation, bare: api.Workload, shown: WorkloadView
    ) -> ClusterView:
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        state, queues = seen.view.find_cluster(name), self._fleet.find_state(name)
        if cluster is None:
            return ClusterView(name=name, connected=False, unusable="has no MultiKueueCluster")
        if state is None or queues is None or not state.reachable or seen.workload is None:
            return ClusterView(name=name, connected=False, unusable="is not connected")
        refusal = state.refusal
        if refusal == why_not(Candidate(cluster=cluster, workload=seen.workload, job=seen.job)):
            refusal = why_not(Candidate(cluster=cluster, workload=bare, job=seen.job))
        known = queues.is_known
        return ClusterView(
            name=name,
            unusable=refusal,
            queue=queues.queue_view(shown.namespace, shown.queue, without=shown.key)
            if known
            else None,
            queue_known=known,
        )


def combine(fits: dict[str, Fit]) -> Prospect:
    """Return the best of what the other clusters offer, by name, in order of preference. Pure."""
    if not fits:
        return Prospect(chance=Chance.NEVER, why="no other cluster is configured for it")
    chances = {name: _CHANCES[fit.outlook] for name, fit in fits.items()}
    best = min(chances.values(), key=_ORDER.index)
    if best is Chance.NOW:
        first = min(fits, key=lambda name: (chances[name] is not best, _guess(fits[name])))
        return Prospect(chance=best, cluster=first)
    reasons = "; ".join(f"{name} {fit.reason}" for name, fit in fits.items())
    return Prospect(chance=best, why=f"{_WORDS[best]}: {reasons}")


def _guess(fit: Fit) -> bool:
    """Known room comes before unknown."""
    return fit.outlook is not Outlook.FITS


def _kind_of(seen: Observation) -> str:
    return describe_kind(seen.adapter.gvk) if seen.adapter is not None else ""


def _without_reservation(workload: api.Workload) -> api.Workload:
    status = msgspec.structs.replace(workload.status, admission=None)
    return msgspec.structs.replace(workload, status=status)
