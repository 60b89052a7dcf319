"""An engine whose policy gives notice, with a shell that writes at once what is decided."""

from __future__ import annotations

from datetime import datetime

from multiqueue.api.conditions import Reason
from multiqueue.api.notices import Notice
from multiqueue.engine.plan import Admit, CyclePlan, EndNotice, Preempt, RescindNotice
from multiqueue.model.cluster_queue import Preemption, PreemptionPolicy
from multiqueue.model.disruption_policy import CostRule, DisruptionRules, SaveHabits
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    with_changes,
)
from tests.engine_world import EngineWorld

POLICY = "gentle"
SAVES = SaveHabits(on_notice=True, notice_seconds=90)
NOTICE = 150
RULES = DisruptionRules(name=POLICY, cost=CostRule(longest_notice=300))
LOWER = Preemption(
    within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
    reclaim_within_cohort=PreemptionPolicy.ANY,
)


class NoticeWorld(EngineWorld):
    """Queues whose policy gives notice; the shell writes at once what is decided."""

    def __init__(self, rules: DisruptionRules | None = RULES, *queues: tuple[str, int]) -> None:
        made = queues or (("cq", 4),)
        super().__init__(
            *(
                make_queue(
                    name,
                    flavor_quotas("default", gpu=gpus),
                    cohort="all",
                    preemption=LOWER,
                    disruption_policy=POLICY,
                )
                for name, gpus in made
            )
        )
        if rules is not None:
            self.engine.upsert_disruption_policy(rules)

    def job(
        self, name: str, gpu: int, *, saves: SaveHabits | None = SAVES, **fields: object
    ) -> Workload:
        return make_workload(
            name,
            uid=f"uid-{name}",
            job_uid=f"job-{name}",
            pod_sets=[pod_set(gpu=gpu)],
            saves=saves,
            at=fields.pop("at", self.now),
            **fields,
        )

    def old(self, name: str) -> Workload:
        return self.workloads[f"{NAMESPACE}/{name}"]

    def run(self, *, after: float = 1, writes: bool = True) -> CyclePlan:
        """Let time pass, decide, and let all that was decided become visible."""
        plans = []
        for wait in (after, 0, 2):
            plan = self.cycle(after=wait)
            plans.append(plan)
            if writes:
                self.write(plan)
        return CyclePlan(decisions=tuple(d for plan in plans for d in plan.decisions))

    def write(self, plan: CyclePlan) -> None:
        for decision in plan.decisions:
            if isinstance(decision, Admit):
                old = with_changes(self.workloads[decision.workload], evicted=None)
                self.submit(reserved(old, decision.admission, at=self.now))
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    if victim.notice and victim.is_new:
                        self.tell(victim.workload, victim.notice, victim.reason, victim.message)
                    elif victim.is_new:
                        self.evict(victim.workload)
            elif isinstance(decision, EndNotice):
                self.evict(decision.workload)
            elif isinstance(decision, RescindNotice):
                self.submit(with_changes(self.workloads[decision.workload], notice=None))

    def tell(self, key: str, by: int, reason: Reason, message: str) -> None:
        preemptor = message.partition("(UID: ")[2].partition(",")[0]
        notice = Notice(int(self.now.timestamp()), by, reason, message, preemptor)
        self.submit(with_changes(self.workloads[key], notice=notice))

    def evict(self, key: str) -> None:
        evicted = condition("Evicted", status=True, reason="Preempted", at=self.now)
        self.submit(with_changes(self.workloads[key], evicted=evicted, notice=None))

    def leave(self, name: str) -> None:
        """The job has stopped: its quota is released, and it queues again."""
        self.submit(with_changes(self.old(name), reservation=None))

    def save(self, name: str, at: datetime) -> bool:
        return self.engine.set_last_checkpoint(f"job-{name}", at)

    def holds(self, name: str) -> bool:
        return self.old(name).reservation is not None

    def notice(self, name: str) -> Notice | None:
        return self.old(name).notice


def submit(world: NoticeWorld, *jobs: Workload) -> CyclePlan:
    for each in jobs:
        world.submit(each)
    return world.run()
