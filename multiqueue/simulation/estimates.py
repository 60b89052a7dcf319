"""Estimated starts in a simulation, and how they held.

Ranges are widened by how earlier ones held, as `forecast/calibration.py` does it on clusters, from
which this differs in two points: it keeps the first estimate of each stage only, and it does not
know about the line for the manager's own quota.
"""

from __future__ import annotations

import math
from collections import deque
from datetime import datetime
from typing import NamedTuple

from multiqueue.forecast.range_factor import find_factor, find_needed, less_slack, widen
from multiqueue.plugins import DispatchView, Nomination, Prospect, StartEstimate
from multiqueue.simulation.agenda import BEGIN
from multiqueue.simulation.manager import Managed
from multiqueue.simulation.progress import Guess
from multiqueue.views.calibration import WINDOW, StartHorizon, find_horizon
from multiqueue.views.start import SLACK


class Given(NamedTuple):
    """An estimate of a Workload that waits.

    Attributes:
        made: When it was made.
        narrow: The estimate before any factor.
        told: The same with the factor of its time.
    """

    made: datetime
    narrow: StartEstimate
    told: StartEstimate

    @property
    def horizon(self) -> StartHorizon:
        """How far ahead the start was."""
        return find_horizon(self.narrow.at - self.made)

    def find_needed(self, started: datetime) -> float:
        """Return the factor with which its range would have had a start inside."""
        below, above = self.narrow.at - self.narrow.earliest, self.narrow.latest - self.narrow.at
        return find_needed(less_slack(started - self.narrow.at), below, above)


class StartEstimates:
    """Keeps the first estimate of each stage of a wait, and compares it with the start."""

    def __init__(self) -> None:
        self._given: dict[str, dict[tuple[str, str], Given]] = {}
        self._needed: dict[StartHorizon, deque[float]] = {}

    def note(self, managed: Managed, view: DispatchView, nomination: Nomination) -> None:
        """Keep the estimated start of a Workload that has to wait from now on.

        If it is offered to a cluster, that is the cluster's estimate. In the global queue, it is
        that of the cluster where room is kept for it. It may start elsewhere before that.
        """
        place = nomination.global_queue
        if place is not None and place.claim:
            self._keep(managed, view, place.claim, "")
        elif len(nomination.clusters) == 1 and view.nominated != nomination.clusters:
            (name,) = nomination.clusters
            cluster = view.find_cluster(name)
            forecast = cluster.forecast if cluster is not None else None
            if forecast is not None and forecast.prospect is Prospect.WAITS:
                self._keep(managed, view, name, name)

    def _keep(self, managed: Managed, view: DispatchView, cluster: str, stage: str) -> None:
        seen = view.find_cluster(cluster)
        start = seen.forecast.start if seen is not None and seen.forecast is not None else None
        if start is None or start.at <= view.now:
            return
        given = self._given.setdefault(managed.key, {})
        if (managed.epoch, stage) not in given:
            factor = self._find_factor(find_horizon(start.at - view.now), view.now)
            told = widen(start, factor, view.now)
            given[managed.epoch, stage] = Given(view.now, start, told)

    def _find_factor(self, horizon: StartHorizon, now: datetime) -> float:
        """Return by which factor to widen; overdue starts count as those that no factor reaches."""
        overdue = [
            math.inf
            for of_workload in self._given.values()
            for each in of_workload.values()
            if each.horizon is horizon and now > each.told.latest + SLACK
        ]
        return find_factor([*self._needed.get(horizon, ()), *overdue])

    def compare(self, managed: Managed, cluster: str, started: datetime | None) -> None:
        """Compare the estimate of a Workload with its start on a cluster."""
        given = self._given.pop(managed.key, {})
        there, in_line = given.get((managed.epoch, cluster)), given.get((managed.epoch, ""))
        known = there or in_line
        if known is None or started is None:
            return
        needed = self._needed.setdefault(known.horizon, deque(maxlen=WINDOW))
        needed.append(known.find_needed(started))
        moments = (known.told.earliest, known.told.latest, started, known.made, known.told.at)
        earliest, latest, actual, made, at = ((each - BEGIN).total_seconds() for each in moments)
        stage = "worker" if there else "line"
        managed.guesses.append(Guess(earliest, latest, actual, made, at, stage))
