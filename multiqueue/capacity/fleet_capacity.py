"""Whether a worker of a check could ever hold a Workload, all of it on one worker.

The engine asks before quota is reserved, and the loop asks while a Workload waits for a cluster. A
worker that cannot be reached, or whose queues may not be read, counts as able to hold anything.
Only in the first seconds of a manager, an answer that is on its way is waited for, because a gang
that fits nowhere could preempt others meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.capacity.checks import list_clusters
from multiqueue.capacity.exclusions import Exclusions, exclude
from multiqueue.capacity.filters import CONSTRAINTS, list_constraints
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.capacity.owners import find_job
from multiqueue.capacity.workload_view import build_asked_view, build_workload_view
from multiqueue.engine.remote import ChosenFlavors, Impossible
from multiqueue.kube.informer_state import InformerState
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.workload import Workload
from multiqueue.plugins import Fit, Limit, Outlook, WorkloadView, find_refusal
from multiqueue.plugins.limits import NO_FLAVOR, find_impossibility
from multiqueue.workers.connections.connection_state import ConnectionState

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.jobs.registry import SupportedKind
    from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]

SETTLE = timedelta(seconds=3)
"""How long a manager waits for the first answers of its workers after it started."""
MEMO_SIZE = 10_000

Configured = api.AdmissionCheck | api.MultiKueueConfig | api.ResourceFlavor | api.MultiKueueCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStanding:
    """What the clusters of a check could ever hold of a Workload.

    Attributes:
        never: Why a cluster can never hold it, by name; the other clusters can, or might.
        unknown: Clusters whose limits are not known.
        closed: Clusters in `never` that somebody has closed, and may open again.
        absent: Why the clusters that the user names are not in the check.
        count: How many clusters the check has.
    """

    never: Mapping[str, Fit]
    unknown: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    count: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether no cluster can ever hold it, as far as is known."""
        return bool(self.count) and len(self.never) + len(self.unknown) == self.count

    def explain(self, view: WorkloadView) -> Impossible:
        """Say why no cluster can, with the numbers of each.

        Clusters without the hardware are named only if no cluster has it: the Workload may well fit
        there on another flavor.
        """
        if self.closed:
            reasons = [f"{name} {fit.reason}" for name, fit in sorted(self.never.items())]
            words = f"no worker takes this workload now: {'; '.join(reasons)}"
            reason = Reason.WAITING_FOR_QUOTA
        else:
            has = {n: fit for n, fit in self.never.items() if not fit.reason.startswith(NO_FLAVOR)}
            never = has or self.never
            words, reason = find_refusal(view, never), _reason_of(never)
        return Impossible(reason=reason, words="; ".join((words, *self.absent)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """What the clusters could ever hold of a Workload that has its quota.

    Attributes:
        view: The Workload.
        never: Why a cluster can never hold it on its reserved flavors, by name.
        hopeless: Why no cluster can; empty if one can, or might.
    """

    view: WorkloadView
    never: Mapping[str, str]
    hopeless: str = ""


class FleetCapacity:
    """Answers as `multiqueue.engine.remote.FleetOracle` does, and for the dispatch loop.

    Args:
        context: The manager's context.
        fleet: The workers.
        limits: The most that the queues of each worker could ever hold.
        options: How the resource requests of Workloads are read.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, limits: FleetLimits, options: BuildOptions
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._limits = limits
        self._listeners: list[Callable[[], None]] = []
        self._memo: dict[Hashable, Impossible | None] = {}
        self._options = options
        self._prospects: dict[str, tuple[object, Prospects]] = {}
        self._begun_at: datetime | None = None
        self._is_told = True
        informers = context.informers
        informers.admission_checks.add_handler(self._on_object)
        informers.multikueue_configs.add_handler(self._on_object)
        informers.resource_flavors.add_handler(self._on_object)
        informers.multikueue_clusters.add_handler(self._on_object)
        informers.workloads.add_handler(self._on_workload)
        for kind in context.integrations.kinds:
            self._follow(kind)
        context.integrations.add_listener(on_added=self._follow)
        limits.add_listener(self._change)

    def _follow(self, kind: SupportedKind) -> None:
        self._context.informers.jobs[kind.integration.name].add_handler(self._on_job)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever the answers of `ask` may have changed."""
        self._listeners.append(listener)

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Return why no cluster of the check can ever hold a Workload on these flavors."""
        clusters = self._clusters(check)
        excluded = self._excluded(workload.key, clusters)
        chosen = tuple((name, tuple(sorted(of.items()))) for name, of in sorted(flavors.items()))
        key = (workload.shape, workload.queue, check, excluded, chosen)
        if key in self._memo:
            return self._memo[key]
        find_flavor = self._context.informers.resource_flavors.store.get
        view = build_asked_view(workload, flavors, find_flavor)
        standing = self.stand(view, clusters, excluded)
        if not standing.is_hopeless:
            return self._remember(key, None)
        if standing.unknown:
            return self._await(standing.unknown)
        return self._remember(key, standing.explain(view))

    def look(self, workload: api.Workload, clusters: tuple[str, ...]) -> Prospects:
        """Return what each cluster could ever hold of a Workload on its reserved flavors."""
        excluded = self.exclude(workload, clusters)
        metadata = workload.metadata
        # Not by the time of the reservation, which has whole seconds: an unwritten reservation can
        # be replaced by another one within the same second.
        reserved = workload.status.admission
        state = (metadata.uid, metadata.generation, reserved, clusters, excluded)
        known = self._prospects.get(metadata.key)
        if known is not None and known[0] == state:
            return known[1]
        view = build_workload_view(
            workload,
            kind="",
            find_flavor=self._context.informers.resource_flavors.store.get,
            options=self._options,
        )
        standing = self.stand(view, clusters, excluded)
        is_hopeless = standing.is_hopeless and not standing.unknown
        prospects = Prospects(
            view=view,
            never={name: fit.reason for name, fit in standing.never.items()},
            hopeless=standing.explain(view).words if is_hopeless else "",
        )
        if not is_finished(workload.status):
            self._prospects[metadata.key] = (state, prospects)
        return prospects

    def stand(
        self, view: WorkloadView, clusters: tuple[str, ...], excluded: Exclusions
    ) -> FleetStanding:
        """Compare a Workload with what each cluster could ever hold. Cost: clusters x flavors."""
        return stand(clusters, excluded, lambda name: self._judge(name, view))

    def exclude(self, workload: api.Workload, clusters: tuple[str, ...]) -> Exclusions:
        """Return the clusters that the user does not allow, or that take no new Workloads.

        While a worker is cordoned, no quota is reserved for hardware that only it has. Otherwise a
        Workload that could run on other hardware would wait for the end of the cordon.
        """
        store = self._context.informers.multikueue_clusters.store
        return exclude(workload, find_job(workload, self._context), clusters, store.get)

    def _excluded(self, key: str, clusters: tuple[str, ...]) -> Exclusions:
        workload = self._context.informers.workloads.store.get(key)
        return Exclusions() if workload is None else self.exclude(workload, clusters)

    def _clusters(self, check: str) -> tuple[str, ...]:
        found = self._context.informers.admission_checks.store.get(check)
        return () if found is None else list_clusters(found, self._context.informers).clusters

    def _judge(self, name: str, view: WorkloadView) -> Limit | str | None:
        """Return why a cluster can never hold it; "" if it could, None if that is not known."""
        if self._context.informers.multikueue_clusters.store.get(name) is None:
            return "has no MultiKueueCluster"
        limits = self._limits.find(name)
        queue = limits.find(view.namespace, view.queue) if limits is not None else None
        if queue is None or isinstance(queue, str):
            return queue
        return find_impossibility(view, queue)

    def _remember(self, key: Hashable, answer: Impossible | None) -> Impossible | None:
        if len(self._memo) >= MEMO_SIZE:
            self._memo.clear()
        self._memo[key] = answer
        return answer

    # ------------------------------------------------------------ the first seconds

    def _await(self, unknown: tuple[str, ...]) -> Impossible | None:
        """Have a Workload wait for first answers that are on their way; else it may try."""
        now = self._context.clock.now()
        if self._begun_at is None:
            self._begun_at = now
        left = self._begun_at + SETTLE - now
        awaited = [name for name in unknown if self._is_on_its_way(name)]
        if left <= timedelta() or not awaited:
            return None
        asyncio.get_running_loop().call_later(left.total_seconds(), self._change)
        words = f"Waiting for the first answer of {', '.join(awaited)}"
        return Impossible(reason=Reason.PENDING_EVALUATION, words=words)

    def _is_on_its_way(self, name: str) -> bool:
        connection = self._fleet.find(name)
        if connection is None or connection.state is ConnectionState.CONNECTING:
            return True
        session = connection.session
        return session is not None and any(
            informer.state is InformerState.STARTING for informer in session.informers.queues
        )

    # ------------------------------------------------------------ changes

    def _on_object(self, old: Configured | None, new: Configured | None) -> None:
        """Note that spec, labels or annotations of a check, config, flavor or cluster changed."""
        if old is None or new is None or _substance_of(old) != _substance_of(new):
            self._change()

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        """Note that the user's constraints may have changed, or that nobody asks any more."""
        if new is None or is_finished(new.status):
            known = new or old
            assert known is not None, "an event is about an object"
            self._prospects.pop(known.metadata.key, None)
            return
        if old is None or has_quota(new.status):
            return
        if list_constraints(old, None) != list_constraints(new, None):
            self._change()

    def _on_job(self, old: Json | None, new: Json | None) -> None:
        if old is None or new is None:
            return
        before, after = (job["metadata"].get("annotations") or {} for job in (old, new))
        if any(before.get(wanted) != after.get(wanted) for wanted in CONSTRAINTS):
            self._change()

    def _change(self) -> None:
        """Call the listeners, once for all changes of the same moment."""
        self._memo.clear()
        self._prospects.clear()
        if self._is_told:
            self._is_told = False
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_told = True
        for listener in self._listeners:
            listener()


def stand(
    clusters: tuple[str, ...],
    excluded: Exclusions,
    judge: Callable[[str], Limit | str | None],
) -> FleetStanding:
    """Say which clusters could ever hold a Workload.

    Args:
        clusters: The clusters of the check.
        excluded: Those that the user does not allow, or that take no new Workloads.
        judge: Returns why a cluster can never hold it; "" if it could, None if that is not known.
    """
    unwanted = {exclusion.name: exclusion.words for exclusion in excluded.clusters}
    never: dict[str, Fit] = {}
    unknown = []
    for name in clusters:
        found = unwanted.get(name) or judge(name)
        if found is None:
            unknown.append(name)
        elif found:
            limit = found if isinstance(found, Limit) else None
            never[name] = Fit(outlook=Outlook.NEVER, reason=str(found), limit=limit)
    return FleetStanding(
        never=never,
        unknown=tuple(unknown),
        closed=frozenset(each.name for each in excluded.clusters if each.is_closed),
        absent=excluded.absent,
        count=len(clusters),
    )


def _substance_of(obj: Configured) -> tuple[object, object, object]:
    return obj.spec, obj.metadata.labels, obj.metadata.annotations


def _reason_of(never: Mapping[str, Fit]) -> Reason:
    if any(fit.limit is not None for fit in never.values()):
        return Reason.EXCEEDS_MAX_QUOTA
    return Reason.NO_MATCHING_FLAVOR
