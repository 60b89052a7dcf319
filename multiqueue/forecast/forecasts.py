"""Add forecasts to the views that dispatchers get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from multiqueue.api import v1beta2 as api
from multiqueue.api.declarations import parse_data, parse_prices, read
from multiqueue.api.names import DATA, PRICES
from multiqueue.engine.queues.entry import find_declared_run
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.history import RuntimeHistory
from multiqueue.forecast.learning import Learning
from multiqueue.forecast.worker_forecast import WorkerForecast, follow_workers, runtime_on
from multiqueue.jobs.context import ManagerContext
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.workload import Workload
from multiqueue.plugins import ClusterView, Forecast, Runtime, WorkloadView, foresee
from multiqueue.workers.connections.fleet import Fleet

NOT_READ = "the Workloads there are not known"


class Forecasts:
    """Forecasts for Workloads on all workers.

    Args:
        context: The manager's context.
        fleet: The workers.
        options: How requests are read.

    Attributes:
        history: Runtimes learned from finished Workloads.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet, options: BuildOptions) -> None:
        self._fleet = fleet
        self._now = context.clock.now
        self._flavors = context.informers.resource_flavors
        self._workloads = context.informers.workloads
        self.history = RuntimeHistory()
        self._learning = Learning(context, self.history, options)
        follow_workers(
            fleet,
            self.history,
            find_traits=self._learning.find_traits,
            context=context,
            options=options,
        )

    def complete_workload(
        self, view: WorkloadView, workload: api.Workload, *, tells: bool = True
    ) -> WorkloadView:
        """Return the view with the Workload's runtime, speeds and data sets.

        Args:
            view: The view of the Workload.
            workload: The Workload.
            tells: Whether malformed declarations are reported.
        """
        traits = self._learning.read_traits(workload, tells=tells)
        return replace(
            view,
            runtime=self.history.runtime(traits),
            speeds=self.history.speeds(traits),
            data=read(view.annotations, DATA, parse_data) or frozenset(),
        )

    def find_runtime(self, key: str, used: Mapping[tuple[str, str], int]) -> Runtime | None:
        """Return how long one of the manager's Workloads runs on what it uses.

        None if there is no such Workload.
        """
        traits = self._learning.find_traits(key)
        return runtime_on(self.history, traits, used, self._flavors) if traits else None

    def find_expected_run(self, workload: Workload) -> int:
        """Return the seconds that one of the manager's Workloads runs on average.

        Of one that does not exist, only what it declares is known. This is the run time that counts
        for turns in the global queue, too (P-85).
        """
        known = self._workloads.store.get(workload.key)
        if known is None:
            return find_declared_run(workload)
        traits = self._learning.read_traits(known, tells=False, pod_sets=workload.pod_sets)
        return max(1, int(self.history.runtime(traits).mean.total_seconds()))

    def ask(self, workload: WorkloadView) -> Asking:
        """Begin a decision about a Workload."""
        return Asking(workload, self._now())

    def complete_cluster(
        self, view: ClusterView, cluster: api.MultiKueueCluster | None, asking: Asking
    ) -> ClusterView:
        """Return the view with its prices, its data sets, and the Workload's forecast."""
        annotations = cluster.metadata.annotations if cluster is not None else {}
        return replace(
            view,
            forecast=self._forecast(view, asking),
            prices=read(annotations, PRICES, parse_prices) or {},
            data=read(annotations, DATA, parse_data) or frozenset(),
        )

    def send(self, cluster: ClusterView, workload: WorkloadView) -> None:
        """Count a Workload that is sent to a cluster, until the cluster reports it."""
        forecast = self._fleet.find_part(cluster.name, WorkerForecast)
        if forecast is not None and cluster.queue is not None:
            forecast.assume(workload, cluster.queue)

    def withhold(self, cluster: str, key: str) -> None:
        """Stop counting a Workload on a cluster."""
        forecast = self._fleet.find_part(cluster, WorkerForecast)
        if forecast is not None:
            forecast.forget(key)

    def _forecast(self, view: ClusterView, asking: Asking) -> Forecast | None:
        if view.unusable or view.queue is None:
            return None
        forecast = self._fleet.find_part(view.name, WorkerForecast)
        if forecast is None or not forecast.is_known:
            found = foresee(asking.view, view)
            return replace(found, reason=f"{found.reason}; {NOT_READ}") if found else None
        return forecast.forecast(asking, view.queue)
