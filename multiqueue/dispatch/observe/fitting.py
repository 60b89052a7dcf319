"""Adapts copies and jobs to their worker: the requested hardware and the number of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from multiqueue.api import v1beta2 as api
from multiqueue.api.alternatives import find_alternatives
from multiqueue.api.names import OFFERED_AT
from multiqueue.api.slices import counts_of
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import has_quota
from multiqueue.capacity.copy_selectors import add_copy_selectors
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.framework.multikueue import NO_PODS
from multiqueue.plugins import QueueView, WorkloadView
from multiqueue.plugins.capacity import find_room

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]

SETTLE = timedelta(seconds=5)
"""How long a copy is left alone: a worker with room admits within a second or two, and meanwhile
other copies sent there seem to take the room."""


class Misfit(NamedTuple):
    """Why a copy should be made again; or when to check again, as no event would cause it."""

    why: str = ""
    again_at: datetime | None = None


FITS = Misfit()


class Fitting:
    """Adapts copies and jobs to the workers.

    Args:
        context: The manager's context.
        fleet: The workers.
        limits: The most that the workers' queues could ever hold.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet, limits: FleetLimits) -> None:
        self._context = context
        self._fleet = fleet
        self._limits = limits

    def fit(self, body: Json, workload: api.Workload) -> Callable[[str], Json]:
        """Return a function from a cluster's name to the copy's body for that cluster."""
        shown = self._view(workload)
        return lambda cluster: add_copy_selectors(
            body, shown, self._find_queue(cluster, workload, shown)
        )

    def find_misfit(self, cluster: str, workload: api.Workload, now: datetime) -> Misfit:
        """Say whether a copy that waits on a cluster should be made again.

        That is so if it has the pod count of one hardware, and only other hardware has room
        meanwhile.
        """
        if not find_alternatives(workload.metadata.annotations):
            return FITS
        session = self._fleet.find_session(cluster)
        copy = session.find_copy(workload.metadata.key) if session is not None else None
        if copy is None or has_quota(copy.status):
            return FITS
        settled_at = _made_at(copy) + SETTLE
        if now < settled_at:
            return Misfit(again_at=settled_at)
        shown = self._view(workload)
        queue = self._find_queue(cluster, workload, shown)
        way = find_room(shown, queue) if queue is not None else None
        if way is None:
            return FITS
        wanted = {pod_set.name: pod_set.count for pod_set in way.workload.pod_sets}
        if wanted == counts_of(copy.spec.pod_sets):
            return FITS
        return Misfit(why=f"there is room for {way} there")

    def find_pods(self, cluster: str, workload: api.Workload) -> Mapping[str, int] | None:
        """Return the pod counts of a job on a cluster if they differ from those in its spec.

        They are those of its copy there; None if the copy is gone.
        """
        if not find_alternatives(workload.metadata.annotations):
            return NO_PODS
        session = self._fleet.find_session(cluster)
        copy = session.find_copy(workload.metadata.key) if session is not None else None
        return counts_of(copy.spec.pod_sets) if copy is not None else None

    def _view(self, workload: api.Workload) -> WorkloadView:
        find_flavor = self._context.informers.resource_flavors.store.get
        options = build_options(self._context.config)
        return build_workload_view(workload, kind="", find_flavor=find_flavor, options=options)

    def _find_queue(
        self, cluster: str, workload: api.Workload, shown: WorkloadView
    ) -> QueueView | None:
        """Return a worker's queue; with its free quota if the pod count depends on that."""
        limits, state = self._limits.find(cluster), self._fleet.find_part(cluster, WorkerState)
        queue = limits.find_for(workload) if limits is not None else None
        if queue is None or state is None or not find_alternatives(workload.metadata.annotations):
            return queue
        return state.queue_view(shown.namespace, shown.queue, without=shown.key) or queue


def _made_at(copy: api.Workload) -> datetime:
    """Return when we made a copy; if that cannot be read, the worker's creation time."""
    try:
        made = parse_time(copy.metadata.annotations.get(OFFERED_AT))
    except ValueError:
        made = None
    return made or copy.metadata.created_at
