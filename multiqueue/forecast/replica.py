"""A copy of a worker's queues in memory, to try decisions on.

Its input is what is known of the worker: its quotas, and all Workloads there. It does not imitate
the worker's own decisions, but uses them as they are reported. The only decisions made here are
about Workloads that were sent and are not reported yet, so that a burst does not see the same room
twice. Pure: no clock, no randomness, no I/O. Owned by one worker's session, or one simulated
worker.

Its nodes are in `node_model`. It knows nothing about admission checks: what fits by quota may still
wait for machines (`check_times`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from multiqueue.api.names import PROVISIONING_REQUEST_CONTROLLER
from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.forecast import answers
from multiqueue.forecast.asked import build_asked
from multiqueue.forecast.estimates import Budget
from multiqueue.forecast.node_model import NodeModel
from multiqueue.forecast.starts import Starts
from multiqueue.forecast.strict_fifo import StrictFifoQueues
from multiqueue.forecast.verdicts import Verdicts
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    ClusterQueue,
    Cohort,
    LocalQueue,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Reservation, Workload
from multiqueue.plugins.forecast import Forecast, Prospect, Runtime
from multiqueue.plugins.view import WorkloadView

OPTIONS = EngineOptions()
EVERY_NAMESPACE = LabelSelector()


class Replica:
    """The queues of one worker.

    All updates are upserts of the current state, as with the `Engine`; their order does not matter.

    Args:
        options: Options of the worker's engine, as far as they are known.

    Attributes:
        node_model: The worker's nodes.
        starts: Estimates when Workloads start.
        verdicts: Forecasts whether Workloads fit.
    """

    def __init__(self, options: EngineOptions = OPTIONS) -> None:
        self._engine = Engine(options)
        self.node_model = NodeModel(self._engine)
        self._node_model_changes = 0
        self._workloads: dict[str, Workload] = {}
        self.starts = Starts()
        self._strict_lines = StrictFifoQueues()
        self.verdicts = Verdicts(self._engine, self.node_model, self._strict_lines)
        self._assumed: dict[str, Workload] = {}
        self._namespaces: set[str] = set()

    # ------------------------------------------------------------ queues and flavors

    def upsert_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or change a ResourceFlavor."""
        self.node_model.upsert_flavor(flavor)
        self.starts.set_flavor(flavor.name, flavor)
        self._forget_answers()

    def delete_flavor(self, name: str) -> None:
        """Remove a ResourceFlavor."""
        self.node_model.delete_flavor(name)
        self.starts.set_flavor(name, None)
        self._forget_answers()

    def upsert_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        """Add or change a ClusterQueue."""
        # The labels of the worker's namespaces are unknown: a LocalQueue is enough to be let in.
        for rule in cluster_queue.checks:
            self._engine.upsert_admission_check(_check(rule.name))
        self._engine.upsert_cluster_queue(
            replace(cluster_queue, namespace_selector=EVERY_NAMESPACE)
        )
        self.starts.set_cluster_queue(cluster_queue.name, cluster_queue)
        self._forget_answers()

    def delete_cluster_queue(self, name: str) -> None:
        """Remove a ClusterQueue."""
        self._engine.delete_cluster_queue(name)
        self.starts.set_cluster_queue(name, None)
        self._forget_answers()

    def upsert_cohort(self, cohort: Cohort) -> None:
        """Add or change a Cohort."""
        self._engine.upsert_cohort(cohort)
        self._forget_answers()

    def delete_cohort(self, name: str) -> None:
        """Remove a Cohort."""
        self._engine.delete_cohort(name)
        self._forget_answers()

    def upsert_local_queue(self, local_queue: LocalQueue) -> None:
        """Add or change a LocalQueue."""
        self._engine.upsert_local_queue(local_queue)
        self.starts.set_local_queue(local_queue.key, local_queue.cluster_queue)
        is_open = local_queue.stop_policy is StopPolicy.NONE and not local_queue.terminating
        self.verdicts.set_open(local_queue.key, is_open=is_open)
        self._forget_answers()

    def delete_local_queue(self, key: str) -> None:
        """Remove a LocalQueue."""
        self._engine.delete_local_queue(key)
        self.starts.set_local_queue(key, None)
        self._forget_answers()

    def _forget_answers(self) -> None:
        self.verdicts.forget()
        self._strict_lines.forget()
        self.starts.forget_estimates()

    # ------------------------------------------------------------ Workloads

    def upsert_workload(
        self, workload: Workload, now: datetime, *, runtime: Runtime | None = None
    ) -> None:
        """Add or change a Workload of any owner: waiting, holding quota, or finished.

        Args:
            workload: The Workload as it is on the worker.
            now: The current time.
            runtime: How long it runs on its flavors; None if nothing is known.
        """
        if workload.finished:
            self.delete_workload(workload.key, now)
            return
        assumed = self._assumed.get(workload.key)
        if workload.reservation is not None:
            self._assumed.pop(workload.key, None)
        elif assumed is not None and assumed.reservation is not None:
            # The worker has the Workload but has not decided about it yet.
            workload = _with_reservation(workload, assumed.reservation)
        self._put(workload, now, runtime)

    def delete_workload(self, key: str, now: datetime) -> None:
        """Remove a Workload."""
        self._assumed.pop(key, None)
        self.starts.drop(self._workloads.pop(key, None))
        self._engine.delete_workload(key, now)
        self._strict_lines.note(key)

    def assume(
        self, asked: WorkloadView | Workload, now: datetime, *, runtime: Runtime | None = None
    ) -> None:
        """Count a Workload that was sent there as admitted, until the worker reports it.

        If the worker does not admit it for too long, the caller must call `forget`.
        """
        workload = build_asked(asked, now)
        if workload.key in self._workloads:
            return
        self._place_again(now)
        self._know_namespace(workload.namespace)
        admission = self.verdicts.find_admission(workload)
        if admission is not None:
            reservation = Reservation(admission=admission, reserved_at=now)
            workload = _with_reservation(workload, reservation)
        self._assumed[workload.key] = workload
        self._put(workload, now, runtime)

    def forget(self, key: str, now: datetime) -> None:
        """Stop assuming a Workload; what the worker reports about it stays."""
        assumed = self._assumed.pop(key, None)
        known = self._workloads.get(key)
        if assumed is None or known is None:
            return
        if known is assumed:
            self.delete_workload(key, now)
        elif known.reservation is assumed.reservation:
            self._put(_with_reservation(known, None), now, None)

    def find_assumed(self, key: str) -> Workload | None:
        """Return an assumed Workload; None if the key is not assumed."""
        return self._assumed.get(key)

    def find_held(self, key: str) -> Reservation | None:
        """Return the reservation of a Workload there, real or assumed; None if it has none."""
        known = self._workloads.get(key)
        return known.reservation if known is not None else None

    @property
    def assumed(self) -> frozenset[str]:
        """Keys of the assumed Workloads."""
        return frozenset(self._assumed)

    # ------------------------------------------------------------ forecasts

    def forecast(
        self, asked: WorkloadView | Workload, now: datetime, *, budget: Budget | None = None
    ) -> Forecast | None:
        """Return the forecast of a Workload on this worker.

        None if there is no LocalQueue of that name, or its ClusterQueue is missing or inactive.

        Args:
            asked: The Workload to try; what it holds there itself does not count against it.
            now: The current time.
            budget: What one decision may spend on estimates; None: no limit.
        """
        return self.forecast_built(build_asked(asked, now), now, budget=budget)

    def forecast_built(
        self, workload: Workload, now: datetime, *, budget: Budget | None = None
    ) -> Forecast | None:
        """Return the forecast of a Workload that `build_asked` has prepared."""
        self._place_again(now)
        self._know_namespace(workload.namespace)
        known = self._workloads.get(workload.key)
        if known is not None and known.reservation is not None:
            trial = self.verdicts.attempt(workload)
            if trial is None:
                return None
            return answers.answer_held(known.reservation.admission.usage(), trial.queue, now)
        said = self.verdicts.find(workload, now)
        if said is None:
            return None
        found = said.at(now)
        if found.prospect is Prospect.WAITS:
            start = self.starts.estimate(said.tree, workload, now, budget)
            return replace(found, start=start)
        return found

    def fits_without(self, workload: Workload, gone: Collection[str]) -> bool:
        """Whether a Workload that `build_asked` has prepared fits if these Workloads are gone."""
        self._know_namespace(workload.namespace)
        return self.verdicts.fits_without(workload, gone)

    def _put(self, workload: Workload, now: datetime, runtime: Runtime | None) -> None:
        self._know_namespace(workload.namespace)
        before = self._workloads.get(workload.key)
        self._workloads[workload.key] = workload
        self._engine.upsert_workload(workload, now)
        self._strict_lines.note(workload.key)
        self.starts.put(before, workload, runtime, now)

    def _place_again(self, now: datetime) -> None:
        """Assign placed pods to nodes again, if flavors have changed."""
        if self._node_model_changes == self.node_model.changes:
            return
        self._node_model_changes = self.node_model.changes
        for workload in self._workloads.values():
            if workload.reservation is not None and _has_places(workload.reservation):
                self._engine.upsert_workload(workload, now)

    def _know_namespace(self, name: str) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            self._engine.upsert_namespace(name, {})


def _check(name: str) -> AdmissionCheckInfo:
    """Return the worker's check as a provisioning check: places are assigned after it."""
    return AdmissionCheckInfo(name=name, controller_name=PROVISIONING_REQUEST_CONTROLLER)


def _has_places(reservation: Reservation) -> bool:
    return any(pod_set.topology is not None for pod_set in reservation.admission.pod_sets)


def _with_reservation(workload: Workload, reservation: Reservation | None) -> Workload:
    return replace(workload, reservation=reservation)
