"""A fleet in which queues take from each other: preemption, and fair sharing with weights."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.engine.plan import Admit, Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Preemption, PreemptionPolicy
from multiqueue.model.workload import Workload
from tests.bench.engine_fleet import Fleet
from tests.builders.engine import condition, with_changes

PREEMPTION = Preemption(
    within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
    reclaim_within_cohort=PreemptionPolicy.ANY,
)


@dataclass
class ContendedFleet(Fleet):
    """A fleet that writes preemptions back in two steps, as the job reconciler does (E-104).

    Shape: ``preempted`` counts victims.
    """

    preempted: int = 0

    @classmethod
    def with_fair_sharing(cls, queues: int) -> ContendedFleet:
        return cls(queues, options=EngineOptions(fair_sharing=FairSharing()))

    def queue_spec(self, index: int) -> ClusterQueue:
        spec = super().queue_spec(index)
        return ClusterQueue(
            **{name: getattr(spec, name) for name in spec.__slots__} | {"preemption": PREEMPTION}
        )

    def drain(self) -> None:
        """Run cycles, admissions and evictions until nothing more happens now."""
        while True:
            plans = self.run_cycles()
            echoes = self.admissions_in(plans)
            for plan in plans:
                for decision in plan.decisions:
                    if isinstance(decision, Preempt):
                        echoes += self._evictions_in(decision)
            self.tell(echoes)
            if not any(isinstance(d, Admit | Preempt) for plan in plans for d in plan.decisions):
                return

    def _evictions_in(self, decision: Preempt) -> list[Workload]:
        echoes = []
        for victim in decision.victims:
            workload = self.workloads.get(victim.workload)
            if not victim.is_new or workload is None or workload.reservation is None:
                continue
            self.preempted += 1
            del self.running[victim.workload]
            evicted = condition(
                WorkloadCondition.EVICTED, status=True, reason=Reason.PREEMPTED, at=self.now
            )
            requeued = condition(
                WorkloadCondition.REQUEUED, status=True, reason=Reason.PREEMPTED, at=self.now
            )
            stopped = with_changes(workload, evicted=evicted)
            released = with_changes(stopped, reservation=None, requeued=requeued)
            self.workloads[victim.workload] = released
            echoes += [stopped, released]
        return echoes

    def reset(self) -> None:
        super().reset()
        self.preempted = 0
