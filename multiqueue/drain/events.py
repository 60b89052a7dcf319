"""Events about cordons and drains: on the MultiKueueCluster, and on Workloads that stay."""

from __future__ import annotations

import re

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CORDONED, DRAINED, DrainReason, find_condition
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.dispatch.execute.manager_writes import EVENT_REASON
from multiqueue.drain.chance import Chance
from multiqueue.drain.state import DrainRun
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import reference_of, workload_reference
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS

_FIGURE = re.compile(r"\d+")


class DrainEvents:
    """Records each event once.

    Args:
        context: The manager's context.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._told: dict[tuple[str, str], str] = {}

    def tell_staying(self, run: DrainRun) -> None:
        """Say to each Workload that stays why; changed numbers alone cause no event."""
        for key, why in run.staying.items():
            words = _FIGURE.sub("", why)
            workload = self._context.informers.workloads.store.get(key)
            if workload is None or self._told.get((run.name, key)) == words:
                continue
            self._told[run.name, key] = words
            kind = "Normal" if run.chances.get(key) is Chance.ROOM else "Warning"
            self._context.recorder.event(
                workload_reference(workload),
                kind,
                EVENT_REASON,
                f'Cluster "{run.name}" is being drained; the workload stays there for now: {why}',
            )
        for name, key in list(self._told):
            if name == run.name and key not in run.staying:
                del self._told[name, key]

    def forget(self, name: str) -> None:
        """Forget what was recorded about a worker."""
        for worker, key in list(self._told):
            if worker == name:
                del self._told[worker, key]

    def tell(
        self,
        cluster: api.MultiKueueCluster,
        before: tuple[Condition, ...],
        after: tuple[Condition, ...],
    ) -> None:
        """Record a new state; changed numbers alone cause no event."""
        for type_ in (CORDONED, DRAINED):
            old, new = find_condition(before, type_), find_condition(after, type_)
            if new is None and old is not None and type_ == CORDONED:
                self._event(cluster, "Normal", DrainReason.UNCORDONED, "The worker is used again")
            elif new is not None and (old is None or old.reason != new.reason):
                bad = new.reason in {DrainReason.STUCK, DrainReason.UNCLEAR}
                self._event(cluster, "Warning" if bad else "Normal", new.reason, new.message)

    def _event(self, cluster: api.MultiKueueCluster, kind: str, reason: str, message: str) -> None:
        reference = reference_of(MULTIKUEUE_CLUSTERS, cluster.metadata)
        self._context.recorder.event(reference, kind, reason, message)
