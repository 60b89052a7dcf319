"""Estimate when waiting Workloads of a worker start; keeps the forecast input. Pure."""

from __future__ import annotations

from datetime import datetime

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import find_declared_run
from multiqueue.forecast.curve import UNKNOWN, Curve
from multiqueue.forecast.estimates import Budget, Estimates, StartQuestion
from multiqueue.forecast.forecast_input import ForecastInput
from multiqueue.forecast.runs import Runs, build_run
from multiqueue.forecast.timeline import QUICK, TRIES, estimate
from multiqueue.forecast.waiting_classes import (
    FindRank,
    WaitingClasses,
    find_submission_rank,
)
from multiqueue.model.cluster_queue import ClusterQueue, QueueingStrategy
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Runtime, StartEstimate

UNKNOWN_CURVE = Curve.of(UNKNOWN)


class Starts:
    """The running Workloads of a worker with their expected ends, and the waiting ones.

    Args:
        find_rank: Finds the rank of a waiting Workload.
    """

    def __init__(self, find_rank: FindRank = find_submission_rank) -> None:
        self._lines = WaitingClasses(find_rank)
        self._runs: dict[str, Runs] = {}
        self._curves: dict[str, Curve] = {}
        self._estimates = Estimates()

    @property
    def unsettled_count(self) -> int:
        """How many Workloads the next estimate puts in order first."""
        running = sum(runs.unsettled_count for runs in self._runs.values())
        return self._lines.unsettled_count + running

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """Add, change or (None) remove a ResourceFlavor."""
        self._lines.set_flavor(name, flavor)

    def set_cluster_queue(self, name: str, cluster_queue: ClusterQueue | None) -> None:
        """Add, change or (None) remove a ClusterQueue."""
        self._lines.set_cluster_queue(name, cluster_queue)

    def set_local_queue(self, key: str, cluster_queue: str | None) -> None:
        """Add, change or (None) remove a LocalQueue."""
        self._lines.set_local_queue(key, cluster_queue)

    def forget_estimates(self) -> None:
        """Forget all estimates, since the quota has grown or shrunk."""
        self._estimates.clear()

    def rank_again(self, cluster_queue: str) -> None:
        """Follow a change of the ranks in a queue."""
        if self._lines.rank_again(cluster_queue):
            self._estimates.clear()

    def put(
        self,
        before: Workload | None,
        workload: Workload,
        runtime: Runtime | None,
        now: datetime,
    ) -> None:
        """Add or change a Workload; without a runtime, its known runtime stays."""
        curve = Curve.of(runtime) if runtime is not None else self._curves.get(workload.key)
        if before is not None and before.reservation != workload.reservation:
            self.drop(before)
        if curve is not None:
            self._curves[workload.key] = curve
        curve = curve or UNKNOWN_CURVE
        if workload.reservation is None:
            self._lines.put(workload, curve)
            return
        self._lines.drop(workload.key)
        run = build_run(workload, workload.reservation, curve)
        runs = self._runs.setdefault(run.queue, Runs())
        known = runs.by_key.get(run.key)
        if known is None or known.curve != curve or known.is_leaving != run.is_leaving:
            runs.put(run, now.timestamp())
        if run.is_leaving and known is not None and not known.is_leaving:
            self._estimates.clear()  # quota becomes free sooner than expected

    def drop(self, workload: Workload | None) -> None:
        """Forget a Workload, given as it was last known."""
        if workload is None:
            return
        self._curves.pop(workload.key, None)
        self._lines.drop(workload.key)
        if workload.reservation is not None:
            runs = self._runs.get(workload.reservation.admission.cluster_queue)
            if runs is not None:
                runs.drop(workload.key)

    def estimate(
        self, tree: Tree, workload: Workload, now: datetime, budget: Budget | None
    ) -> StartEstimate | None:
        """Return when a Workload that does not fit now would start.

        Args:
            tree: The cohort tree of its queue.
            workload: The Workload that asks.
            now: The current time.
            budget: What the decision may still spend; None: no limit.
        """
        arrivals, own = self._lines.arrivals, self._lines.knows(workload.key)
        question = StartQuestion(
            workload.queue,
            _size(workload),
            workload.shape,
            workload.key if own else "",
            find_declared_run(workload),
        )
        known = self._estimates.find(question, arrivals, now)
        if known is not None:
            return known
        quick = budget is not None and budget.left <= 0
        if quick:
            known = self._estimates.find_stale(question, arrivals, now)
            if known is not None:
                return known
        forecast_input = self._set(tree, workload, now)
        if forecast_input is None:
            return None
        tries = TRIES if budget is None else max(QUICK, min(TRIES, budget.left))
        found, used = estimate(forecast_input, tries)
        if budget is not None:
            budget.left -= used
        self._estimates.keep(question, arrivals, now, found, quick=quick)
        return found

    def _set(self, tree: Tree, workload: Workload, now: datetime) -> ForecastInput | None:
        asked = self._lines.build_line(workload, UNKNOWN_CURVE)
        if asked is None:
            return None
        queues = tree.queues
        active = sorted(name for name, queue in queues.items() if queue.is_active)
        return ForecastInput(
            tree=tree,
            runs=[self._runs[name] for name in sorted(queues) if name in self._runs],
            lines=[*self._lines.of(active, without=workload.key), asked],
            strict=frozenset(
                name
                for name in active
                if queues[name].spec.strategy is QueueingStrategy.STRICT_FIFO
            ),
            now=now.timestamp(),
        )


def _size(workload: Workload) -> int:
    """Return how many devices a Workload needs; without devices, the largest total request."""
    totals: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            totals[resource] = totals.get(resource, 0) + amount * pod_set.count
    devices = [amount for resource, amount in totals.items() if "/" in resource]
    return max(devices or totals.values(), default=0)
