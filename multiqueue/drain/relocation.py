"""Whether a Workload that runs on a worker could run elsewhere: now, later, or nowhere.

The manager reserves quota again for each leaving Workload, maybe on another flavor, and that
decides which clusters may take it. So each way to reserve is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.capacity.filters import Candidate, why_not
from multiqueue.capacity.own_quota import Choice, OwnQuota, QuotaClaim
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.drain.chance import Chance
from multiqueue.drain.stop_time import find_cut_off
from multiqueue.jobs.framework.multikueue import NO_PODS
from multiqueue.model.build_workload import BuildOptions
from multiqueue.plugins import ClusterView, Fit, Outlook, WorkloadView, judge

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.dispatch.observe.observe import Observation, Observer
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.workers.connections.fleet import Fleet

_CHANCES = {
    Outlook.FITS: Chance.NOW,
    Outlook.UNKNOWN: Chance.NOW,
    Outlook.WAITS: Chance.ROOM,
    Outlook.UNAVAILABLE: Chance.MEND,
    Outlook.NEVER: Chance.NEVER,
}
_ORDER = list(Chance)
_OUTLOOKS = list(_CHANCES)
_WORDS = {
    Chance.ROOM: "no other cluster has room for it now",
    Chance.MEND: "no other cluster can take it",
    Chance.NEVER: "no other cluster can ever hold it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocationProspect:
    """What other clusters offer a Workload.

    Attributes:
        chance: The best chance of all other clusters.
        why: Why it should stay: it would not run at once, cluster by cluster, or its checkpoint
            would be cut off; empty for no reason.
        cluster: With `Chance.NOW`: the cluster on which it is expected.
        claim: The manager's quota that it is expected to take; None: not known.
    """

    chance: Chance
    why: str = ""
    cluster: str = ""
    claim: QuotaClaim | None = None


class Relocation:
    """Finds other clusters for the Workloads of a drained worker.

    Args:
        context: The manager's context.
        fleet: The workers.
        observer: Builds the view of a Workload.
        options: How the resource requests of Workloads are read.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, observer: Observer, options: BuildOptions
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._options = options
        self._observer = observer
        self._own = OwnQuota(
            cluster_queues=context.informers.cluster_queues.store.list,
            cohorts=context.informers.cohorts.store.list,
            flavors=context.informers.resource_flavors.store.list,
        )

    def refresh(self, claims: Iterable[QuotaClaim]) -> None:
        """Read the manager's quota again; these claims are of Workloads that already leave."""
        self._own.refresh(claims)

    def take(self, claim: QuotaClaim) -> None:
        """Count the claim of a Workload that is sent away now."""
        self._own.take(claim)

    def judge(
        self, key: str, *, leaving: str, notice: int = 0, avoid: Collection[str] = ()
    ) -> RelocationProspect:
        """Say what other clusters than the one that it leaves offer a Workload.

        It gets ``notice`` seconds to save its work before it is stopped, and goes to none of the
        clusters to ``avoid``.

        A cluster whose queues cannot be read counts as one with room: it decides for itself.
        Cost: one fit per cluster of the MultiKueueConfig and way to reserve.
        """
        seen = self._observer.survey(key)
        workload = seen.workload
        if workload is None:
            return RelocationProspect(chance=Chance.NEVER, why="it is gone")
        shown = self.view(with_flavors(workload, None))
        others = [name for name in seen.clusters if name != leaving and name not in avoid]
        ways = []
        for choice, asked in list_ways(workload, self._own.choices(workload, shown)):
            view = self.view(asked, kind=_kind_of(seen))
            ways.append((choice, view, [self._cluster(n, seen, asked, view) for n in others]))
        return judge_ways(ways, cut_off=find_cut_off(workload, seen.job, notice=notice))

    def expect(self, workload: api.Workload, cluster: str) -> None:
        """Count a Workload on its expected cluster, until its copy appears there."""
        state = self._fleet.find_part(cluster, WorkerState)
        if state is not None:
            state.intend(self.view(with_flavors(workload, None)))

    def forget(self, key: str, cluster: str) -> None:
        """Count a Workload no more that was expected on a cluster."""
        state = self._fleet.find_part(cluster, WorkerState)
        if state is not None:
            state.forget_intent(key)

    def view(self, workload: api.Workload, *, kind: str = "") -> WorkloadView:
        """Return a Workload as a dispatcher would see it."""
        return build_workload_view(
            workload,
            kind=kind,
            find_flavor=self._context.informers.resource_flavors.store.get,
            options=self._options,
        )

    def _cluster(
        self, name: str, seen: Observation, asked: api.Workload, view: WorkloadView
    ) -> ClusterView:
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        state, queues = seen.view.find_cluster(name), self._fleet.find_part(name, WorkerState)
        if cluster is None:
            return ClusterView(name=name, connected=False, unusable="has no MultiKueueCluster")
        if state is None or queues is None or not state.reachable or seen.workload is None:
            return ClusterView(name=name, connected=False, unusable="is not connected")
        refusal = state.refusal
        if refusal == why_not(Candidate(cluster=cluster, workload=seen.workload, job=seen.job)):
            refusal = why_not(Candidate(cluster=cluster, workload=asked, job=seen.job))
        known = queues.is_known
        return ClusterView(
            name=name,
            unusable=refusal,
            queue=queues.queue_view(view.namespace, view.queue, without=view.key)
            if known
            else None,
            queue_known=known,
        )


def list_ways(
    workload: api.Workload, choices: list[Choice]
) -> Iterator[tuple[Choice | None, api.Workload]]:
    """Yield the Workload with each choice; without a reservation if there is no choice."""
    for choice in choices:
        yield choice, with_flavors(workload, choice.flavors, choice.pods)
    if not choices:
        yield None, with_flavors(workload, None)


def judge_ways(
    ways: Iterable[tuple[Choice | None, WorkloadView, Iterable[ClusterView]]], *, cut_off: str
) -> RelocationProspect:
    """Return what other clusters offer a Workload. Pure.

    Args:
        ways: Each way to reserve, with the Workload and the other clusters as seen with it.
        cut_off: Why its checkpoint would be cut off; empty if it would not be.
    """
    best: dict[str, tuple[Fit, QuotaClaim | None]] = {}
    for choice, view, clusters in ways:
        for cluster in clusters:
            fit = _with_room(judge(view, cluster), choice)
            if cluster.name not in best or _rank(fit) < _rank(best[cluster.name][0]):
                best[cluster.name] = (fit, choice.claim if choice is not None else None)
    prospect = combine({name: fit for name, (fit, _) in best.items()})
    if prospect.cluster:
        prospect = replace(prospect, claim=best[prospect.cluster][1])
    return replace(prospect, why=cut_off) if cut_off and not prospect.why else prospect


def combine(fits: Mapping[str, Fit]) -> RelocationProspect:
    """Return the best of what the other clusters offer, by name, in order of preference. Pure."""
    if not fits:
        return RelocationProspect(chance=Chance.NEVER, why="no other cluster is configured for it")
    first = min(fits, key=lambda name: _rank(fits[name]))
    best = min((_CHANCES[fit.outlook] for fit in fits.values()), key=_ORDER.index)
    if best is Chance.NOW:
        return RelocationProspect(chance=best, cluster=first)
    reasons = "; ".join(f"{name} {fit.reason}" for name, fit in fits.items())
    return RelocationProspect(chance=best, why=f"{_WORDS[best]}: {reasons}")


def with_flavors(
    workload: api.Workload,
    flavors: Mapping[str, Mapping[str, str]] | None,
    pods: Mapping[str, int] = NO_PODS,
) -> api.Workload:
    """Return a Workload as if it had another reservation.

    Args:
        workload: The Workload.
        flavors: By pod set and resource; None: nothing is reserved.
        pods: By pod set, if they differ from those of its reservation.
    """
    admission = workload.status.admission
    if flavors is None or admission is None:
        admission = None
    else:
        assignments = tuple(
            msgspec.structs.replace(
                assignment,
                flavors=dict(flavors.get(assignment.name, {})),
                count=pods.get(assignment.name, assignment.count),
            )
            for assignment in admission.pod_set_assignments
        )
        admission = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    status = msgspec.structs.replace(workload.status, admission=admission)
    return msgspec.structs.replace(workload, status=status)


def _with_room(fit: Fit, choice: Choice | None) -> Fit:
    """Return the fit of a cluster if the manager has quota on its hardware; else it waits."""
    if choice is None or choice.has_room or _CHANCES[fit.outlook] is not Chance.NOW:
        return fit
    words = (
        f'would take it, but ClusterQueue "{choice.claim.queue}" here has no {choice.words} left'
    )
    return Fit(outlook=Outlook.WAITS, reason=words)


def _rank(fit: Fit) -> int:
    """Order known room before unknown room, and that before no room."""
    return _OUTLOOKS.index(fit.outlook)


def _kind_of(seen: Observation) -> str:
    return seen.adapter.gvk.dotted if seen.adapter is not None else ""
