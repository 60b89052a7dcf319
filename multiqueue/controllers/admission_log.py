"""A log of the admission loop, one line for each decision, for queues that ask for it.

The annotation `names.LOG_ADMISSION` ("true") on a ClusterQueue or LocalQueue switches it on while
the manager runs. Without such a queue it costs one comparison a cycle. A decision that repeats the
last one about the same Workload is not in the plan, so it is not logged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from multiqueue.api.names import LOG_ADMISSION
from multiqueue.api.v1beta2 import ClusterQueue, LocalQueue
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, CyclePlan, Decision, Preempt, Refused, Requeue, Skip
from multiqueue.jobs.context import ManagerContext

MAX_WORDS = 1000
"""Characters of a reason in a line: a Workload of many pod sets has a long one."""

log = structlog.get_logger("multiqueue.admission")


class AdmissionLog:
    """Logs what a plan decides about the Workloads of chosen queues.

    Args:
        context: The manager's context, whose informers tell the queues.
        engine: Asked for the present head of a queue when its log is switched on.
    """

    def __init__(self, context: ManagerContext, engine: Engine) -> None:
        self._engine = engine
        self._decides = False
        self._cluster_queues: set[str] = set()
        self._local_queues: set[str] = set()
        context.informers.cluster_queues.add_handler(self._on_cluster_queue)
        context.informers.local_queues.add_handler(self._on_local_queue)

    def report(self, plan: CyclePlan) -> None:
        """Log the decisions of a plan that are about chosen queues."""
        self._decides = True
        if not (self._cluster_queues or self._local_queues):
            return
        for decision in plan.decisions:
            queue = self._queue_of(decision)
            if decision.cluster_queue in self._cluster_queues or queue in self._local_queues:
                log.info(
                    "admission decided",
                    workload=decision.workload,
                    cluster_queue=decision.cluster_queue,
                    local_queue=queue,
                    **_describe(decision),
                )

    def _queue_of(self, decision: Decision) -> str:
        workload = self._engine.find_workload(decision.workload)
        return "" if workload is None else workload.queue

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        for name in _switched(self._cluster_queues, old, new):
            self._tell_head(name)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        for key in _switched(self._local_queues, old, new):
            self._tell_head(self._engine.local_queue_target(key) or "")

    def _tell_head(self, cluster_queue: str) -> None:
        """Log why the present head waits, because no cycle may decide about it for long.

        A standby decides nothing, so it knows no reason.
        """
        pending = self._engine.parts.pending.get(cluster_queue) if self._decides else None
        waiting = None if pending is None else pending.first()
        if waiting is None:
            return
        reason = self._engine.workload_reason(waiting.key)
        log.info(
            "head of the queue",
            workload=waiting.key,
            cluster_queue=cluster_queue,
            reason=str(reason.reason) if reason is not None else "",
            message=reason.message[:MAX_WORDS] if reason is not None else "",
        )


def _switched(
    known: set[str], old: ClusterQueue | LocalQueue | None, new: ClusterQueue | LocalQueue | None
) -> Iterator[str]:
    """Keep the set of chosen queues; yield the queue if its log was switched on now."""
    obj = new or old
    assert obj is not None, "an event is about an object"
    key = obj.metadata.key
    is_on = new is not None and new.metadata.annotations.get(LOG_ADMISSION) == "true"
    if is_on == (key in known):
        return
    log.info("admission log switched", queue=key, on=is_on)
    if is_on:
        known.add(key)
        yield key
    else:
        known.remove(key)


def _describe(decision: Decision) -> Mapping[str, object]:
    """Return the outcome of a decision, and for a refused head why, in words."""
    if isinstance(decision, Admit):
        flavors = sorted({f for ps in decision.admission.pod_sets for f in ps.flavors.values()})
        return {"outcome": "quota reserved", "flavors": flavors, "borrows": decision.borrowing > 0}
    if not isinstance(decision, Refused):
        return {"outcome": type(decision).__name__, "message": getattr(decision, "message", "")}
    told: dict[str, object] = {
        "outcome": _outcome(decision),
        "reason": str(decision.reason),
        "message": decision.message[:MAX_WORDS],
    }
    if decision.explanation.taken_by:
        told["taken_by"] = list(decision.explanation.taken_by)
    return told


def _outcome(decision: Refused) -> str:
    if isinstance(decision, Requeue):
        until = "until something changes" if decision.parked else "and stays first"
        return f"waits {until} ({decision.requeue_reason or 'Generic'})"
    if isinstance(decision, Skip):
        return "passed over, tried again"
    if isinstance(decision, Preempt):
        victims = ", ".join(victim.workload for victim in decision.victims)
        return f"preempts {victims}"
    return "refused"
