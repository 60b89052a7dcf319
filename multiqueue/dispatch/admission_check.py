"""Whether a MultiKueue AdmissionCheck can do its work: its Active condition (M-60, M-61)."""

from __future__ import annotations

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, ClusterReason, is_true
from multiqueue.capacity.checks import is_multikueue, list_clusters
from multiqueue.jobs.check_condition import write_active
from multiqueue.jobs.context import Informers, ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.workers.kubeconfigs.credentials import ConnectionStatus


def judge_check(check: api.AdmissionCheck, informers: Informers) -> ConnectionStatus:
    """Return the status that the Active condition of a check must have. Reads only."""
    found = list_clusters(check, informers)
    if found.problem:
        return ConnectionStatus(
            active=False, reason=ClusterReason.BAD_CONFIG, message=found.problem
        )
    missing, inactive = [], []
    for name in found.clusters:
        cluster = informers.multikueue_clusters.store.get(name)
        if cluster is None:
            missing.append(name)
        elif not is_true(cluster.status.conditions, ACTIVE):
            inactive.append(name)
    words = [f"missing clusters: {', '.join(missing)}"] if missing else []
    words += [f"inactive clusters: {', '.join(inactive)}"] if inactive else []
    if not words:
        return ConnectionStatus(
            active=True, reason=ClusterReason.ACTIVE, message="The admission check is active"
        )
    if len(missing) + len(inactive) == len(found.clusters):
        return ConnectionStatus(
            active=False,
            reason=ClusterReason.NO_USABLE_CLUSTERS,
            message=f"No cluster can be used; {'; '.join(words)}",
        )
    return ConnectionStatus(
        active=True,
        reason=ClusterReason.SOME_ACTIVE_CLUSTERS,
        message=f"Some clusters cannot be used; {'; '.join(words)}",
    )


class AdmissionCheckReconciler:
    """Keeps the Active condition of MultiKueue checks up to date."""

    name = "multikueue-checks"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)
        informers = context.informers
        informers.admission_checks.add_handler(self._on_check)
        informers.multikueue_configs.add_handler(lambda _old, _new: self._enqueue_all())
        informers.multikueue_clusters.add_handler(self._on_cluster)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(
            informers.admission_checks,
            informers.multikueue_configs,
            informers.multikueue_clusters,
        )
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Write the condition of one check if it changed."""
        informers = self._context.informers
        check = informers.admission_checks.store.get(name)
        if check is None or not is_multikueue(check):
            return DONE
        status = judge_check(check, informers)
        await write_active(
            self._context,
            check,
            active=status.active,
            reason=status.reason,
            message=status.message,
        )
        return DONE

    def _on_check(self, old: api.AdmissionCheck | None, new: api.AdmissionCheck | None) -> None:
        del old
        if new is not None and is_multikueue(new):
            self._reconciler.queue.add(new.metadata.name)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        before = is_true(old.status.conditions, ACTIVE) if old is not None else None
        after = is_true(new.status.conditions, ACTIVE) if new is not None else None
        if before is not after:
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        for check in self._context.informers.admission_checks.store.list():
            if is_multikueue(check):
                self._reconciler.queue.add(check.metadata.name)
