"""Status of Cohorts: their share, with fair sharing only (E-66); and their metrics."""

from __future__ import annotations

from functools import partial

from multiqueue.api.config import Gate
from multiqueue.api.names import GROUP
from multiqueue.controllers.metrics.gpus import LentGpus
from multiqueue.controllers.queue_status import cohort_patch, natural
from multiqueue.engine.engine import Engine
from multiqueue.engine.state import CohortState
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.status_writes import write_status
from multiqueue.kube.write_budget import WriteClass


class CohortController:
    """Reconciles Cohorts; also those without an object, because they have metrics too.

    Args:
        context: The manager's context.
        engine: Knows shares.
    """

    name = "cohort"

    def __init__(self, context: ManagerContext, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._lent = LentGpus(context, engine)
        workers = context.config.controller.workers_for("Cohort", GROUP, 1)
        self._reconciler = Reconciler(
            self.name,
            self.reconcile,
            concurrency=workers,
            turn=partial(context.client.limiter.spare, WriteClass.QUEUE_STATUS),
            metrics=context.metrics,
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.cohorts, informers.workloads)
        await self._reconciler.run()

    def enqueue(self, name: str) -> None:
        """Schedule the reconcile of a Cohort."""
        self._reconciler.queue.add(name)

    async def reconcile(self, name: str) -> Result:
        """Write and measure the share of one Cohort, if it changed."""
        state = self._engine.cohort_state(name)
        self._lent.measure(name)
        if self._context.config.gates.enabled(Gate.METRICS_FOR_COHORTS):
            self._measure(name, state)
        if state is None or state.weighted_share is None:
            return DONE
        cohort = self._context.informers.cohorts.store.get(name)
        patch = {} if cohort is None else cohort_patch(cohort, state)
        if cohort is not None and patch:
            client, informer = self._context.client, self._context.informers.cohorts
            await write_status(client, informer, cohort, patch, over_any=True)
        return DONE

    def _measure(self, name: str, state: CohortState | None) -> None:
        metrics = self._context.metrics
        metrics.cohort_info.forget(cohort=name)
        if state is None:
            metrics.forget(cohort=name)
            return
        if state.weighted_share is not None:
            metrics.cohort_weighted_share.child(name).set(state.weighted_share.measured)
        metrics.cohort_info.child(name, state.parent, state.root).set(1)
        metrics.cohort_subtree_admitted_active_workloads.child(name).set(state.admitted)
        for family, amounts in (
            (metrics.cohort_subtree_quota, state.quota),
            (metrics.cohort_subtree_resource_reservations, state.reservation),
        ):
            for flavor, resources in amounts.items():
                for resource, amount in resources.items():
                    family.child(name, flavor, resource).set(natural(resource, amount))
