"""Makes quotas of ClusterQueues follow the workers, behind a gate (M-17, M-200 to M-205).

Any change of the sum's inputs causes a reconcile; changes within one second are handled together.
Only the resource groups and one condition are written, and only if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import QUOTA_AUTOMATION, find_condition, set_condition
from multiqueue.api.serde import decode, encode
from multiqueue.capacity.checks import is_multikueue, list_clusters
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.capacity.quota_automation import (
    AUTOMATED,
    NOT_REQUESTED,
    QuotaVerdict,
    WorkerShare,
    change_of,
    decide_quota,
    read_percent,
    sum_up,
    unsupported,
)
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import CLUSTER_QUEUES
from multiqueue.kube.status_writes import write_status
from multiqueue.model.cluster_queue import build_cluster_queue

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.workers.connections.fleet import Fleet

BATCH_SECONDS = 1.0
"""Changes come in bursts, and each would cause a write (M-204)."""

Json = dict[str, Any]

log = structlog.get_logger("multiqueue.dispatch")


class QuotaAutomation:
    """Keeps quotas and the condition of ClusterQueues with a MultiKueue check up to date.

    Args:
        context: The manager's context.
        fleet: The workers.
        limits: The most that the workers' queues could ever hold.
    """

    name = "multikueue-quotas"

    def __init__(self, context: ManagerContext, fleet: Fleet, limits: FleetLimits) -> None:
        self._context = context
        self._fleet = fleet
        self._limits = limits
        self._timeout = context.config.multi_kueue.worker_lost_timeout
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)
        informers = context.informers
        informers.cluster_queues.add_handler(self._on_cluster_queue)
        informers.local_queues.add_handler(self._on_local_queue)
        informers.admission_checks.add_handler(_on_spec(self._enqueue_all))
        informers.multikueue_configs.add_handler(_on_config(self._enqueue_all))
        informers.multikueue_clusters.add_handler(_on_spec(self._enqueue_all))
        limits.add_listener(self._enqueue_all)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(
            informers.cluster_queues,
            informers.local_queues,
            informers.admission_checks,
            informers.multikueue_configs,
            informers.multikueue_clusters,
        )
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Bring one ClusterQueue up to date."""
        queue = self._context.informers.cluster_queues.store.get(name)
        if queue is None or queue.metadata.deletion_timestamp:
            return DONE
        check = self._find_check(queue)
        if check is None:
            await self._write_condition(queue, None)
            return DONE
        config = self._find_config(check)
        if isinstance(config, str):
            await self._write_condition(queue, unsupported(config))
            return DONE
        if config.spec.quota_management != AUTOMATED:
            await self._write_condition(queue, NOT_REQUESTED)
            return DONE
        try:
            percent = read_percent(config.metadata.annotations)
        except ValueError as error:
            words = f'MultiKueueConfig "{config.metadata.name}": {error}'
            await self._write_condition(queue, unsupported(words))
            return DONE
        model = build_cluster_queue(queue)
        shares = [self._share(cluster, queue) for cluster in config.spec.clusters]
        verdict = decide_quota(model, shares, percent)
        if verdict.nominal is not None:
            queue = await self._write_quotas(queue, change_of(model, verdict.nominal)) or queue
        await self._write_condition(queue, verdict)
        return self._look_again(config.spec.clusters)

    # ------------------------------------------------------------ reading

    def _find_check(self, queue: api.ClusterQueue) -> api.AdmissionCheck | None:
        strategy = queue.spec.admission_checks_strategy
        names = sorted(rule.name for rule in strategy.admission_checks) if strategy else []
        store = self._context.informers.admission_checks.store
        found = (store.get(name) for name in names)
        return next((check for check in found if check is not None and is_multikueue(check)), None)

    def _find_config(self, check: api.AdmissionCheck) -> api.MultiKueueConfig | str:
        """Return the configuration of a check, or why there is none."""
        informers = self._context.informers
        problem = list_clusters(check, informers).problem
        parameters = check.spec.parameters
        config = informers.multikueue_configs.store.get(parameters.name) if parameters else None
        return config if config is not None and not problem else problem

    def _share(self, cluster: str, queue: api.ClusterQueue) -> WorkerShare:
        """Return what one worker has for the LocalQueues of a ClusterQueue."""
        limits = self._limits.find(cluster)
        if limits is None:
            if self._is_gone(cluster):
                return WorkerShare(cluster=cluster, totals={})
            if self._is_unreadable(cluster):
                return WorkerShare(cluster=cluster, is_unreadable=True)
            limits = self._limits.recall(cluster)
        if limits is None:
            return WorkerShare(cluster=cluster)
        local = self._context.informers.local_queues.store
        targets = {
            target
            for lq in local.by_index(BY_CLUSTER_QUEUE, queue.metadata.name)
            if (target := limits.find_target(lq.metadata.namespace, lq.metadata.name)) is not None
        }
        found = [limits.find_cluster_queue(target) for target in sorted(targets)]
        readable = [q for q in found if q is not None]
        if len(readable) < len(found):
            return WorkerShare(cluster=cluster, is_unreadable=True)
        return WorkerShare(cluster=cluster, totals=sum_up(readable))

    def _is_unreadable(self, cluster: str) -> bool:
        """Whether a worker answers and will not say what its queues are."""
        session = self._fleet.find_session(cluster)
        if session is None:
            return False
        queues = session.informers
        return any(
            informer.last_error is not None
            for informer in (queues.local_queues, queues.cluster_queues, queues.flavors)
        )

    def _is_gone(self, cluster: str) -> bool:
        """Whether a cluster is no worker any more, or was given up."""
        if self._context.informers.multikueue_clusters.store.get(cluster) is None:
            return True
        left = self._grace_left(cluster)
        return left is not None and left <= timedelta()

    def _grace_left(self, cluster: str) -> timedelta | None:
        """How long a worker that is out of reach may still come back; None while it is not."""
        lost_for = self._fleet.lost_for(cluster)
        return self._timeout - lost_for if lost_for is not None else None

    def _look_again(self, clusters: Iterable[str]) -> Result:
        """Look again when a worker is given up."""
        left = [self._grace_left(cluster) for cluster in clusters]
        waits = [time.total_seconds() for time in left if time is not None and time > timedelta()]
        return Result(requeue_after=min(waits)) if waits else DONE

    # ------------------------------------------------------------ writing

    async def _write_quotas(
        self, queue: api.ClusterQueue, groups: list[Json] | None
    ) -> api.ClusterQueue | None:
        if groups is None:
            return None
        name = queue.metadata.name
        patch = {
            "metadata": {"resourceVersion": queue.metadata.resource_version},
            "spec": {"resourceGroups": groups},
        }
        try:
            written = await self._context.client.patch(
                CLUSTER_QUEUES, name, patch, decode=partial(decode, api.ClusterQueue)
            )
        except NotFound:
            return None
        self._context.informers.cluster_queues.observe(written)
        log.info("quotas follow the workers", cluster_queue=name, quotas=groups[0]["flavors"])
        return written

    async def _write_condition(self, queue: api.ClusterQueue, verdict: QuotaVerdict | None) -> None:
        """Set the condition, or take it away from a ClusterQueue that runs its jobs here."""
        before = queue.status.conditions
        if verdict is None:
            if find_condition(before, QUOTA_AUTOMATION) is None:
                return
            after = tuple(c for c in before if c.type != QUOTA_AUTOMATION)
        else:
            after = set_condition(
                before,
                type_=QUOTA_AUTOMATION,
                status=verdict.is_automated,
                reason=verdict.reason,
                message=verdict.message,
                now=self._context.clock.now(),
                observed_generation=queue.metadata.generation,
            )
        if after == before:
            return
        status = {"conditions": [encode(condition) for condition in after]}
        informer = self._context.informers.cluster_queues
        await write_status(self._context.client, informer, queue, status)

    # ------------------------------------------------------------ events

    def _on_cluster_queue(self, old: api.ClusterQueue | None, new: api.ClusterQueue | None) -> None:
        """Its spec changed, or somebody took our condition away."""
        if new is None:
            return
        if old is None or old.spec != new.spec or _condition_of(old) != _condition_of(new):
            self._enqueue(new.metadata.name)

    def _on_local_queue(self, old: api.LocalQueue | None, new: api.LocalQueue | None) -> None:
        for queue in {q.spec.cluster_queue for q in (old, new) if q is not None}:
            if old is None or new is None or old.spec != new.spec:
                self._enqueue(queue)

    def _enqueue_all(self) -> None:
        for queue in self._context.informers.cluster_queues.store.list():
            if queue.spec.admission_checks_strategy is not None:
                self._enqueue(queue.metadata.name)

    def _enqueue(self, name: str) -> None:
        self._reconciler.queue.add_after(name, BATCH_SECONDS)


def _condition_of(queue: api.ClusterQueue) -> object:
    return find_condition(queue.status.conditions, QUOTA_AUTOMATION)


def _on_spec(call: Callable[[], None]) -> Callable[[Any, Any], None]:
    """Call after an object came, went, or got another spec."""

    def handle(old: Any, new: Any) -> None:
        if old is None or new is None or old.spec != new.spec:
            call()

    return handle


def _on_config(call: Callable[[], None]) -> Callable[[Any, Any], None]:
    """Call after a MultiKueueConfig came, went, or says something else in spec or annotations."""

    def handle(old: Any, new: Any) -> None:
        if old is None or new is None or _told(old) != _told(new):
            call()

    return handle


def _told(config: api.MultiKueueConfig) -> tuple[object, object]:
    return config.spec, config.metadata.annotations
