"""Notices over random histories with lost writes and new managers: none is longer than it said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.disruptions import StopCause
from multiqueue.engine.plan import CyclePlan, EndNotice, Preempt, RescindNotice
from multiqueue.model.disruption_policy import ProtectionRule, SaveHabits
from tests.builders.engine import NAMESPACE
from tests.notice_world import RULES, NoticeWorld

QUEUES = (("a", 4), ("b", 4))
LONGEST = RULES.cost.longest_notice
PROTECTING = replace(RULES, protection=ProtectionRule(min_run={StopCause.QUEUE: 200}))

jobs = st.tuples(
    st.just("submit"),
    st.sampled_from(["a", "b"]),
    st.sampled_from([2, 4]),
    st.integers(0, 5),
    st.sampled_from([90, 0, 1000, None]),
)
events = st.one_of(
    jobs,
    st.tuples(st.sampled_from(["save", "finish", "delete", "leave"]), st.integers(1, 8)),
    st.tuples(st.just("wait"), st.sampled_from([10, 60, 150, 300])),
    st.tuples(st.sampled_from(["restart", "lose", "policy", "no policy"])),
)


class Shell:
    """Applies events; a manager may end and lose what it decided and did not write."""

    def __init__(self) -> None:
        self.world = NoticeWorld(RULES, *QUEUES)
        self.number = 0
        self.ends: dict[str, tuple[int, int]] = {}  # (given at, by) of each notice in force

    def apply(self, event: tuple[object, ...]) -> None:
        kind, *rest = event
        world = self.world
        if kind == "submit":
            queue, gpus, priority, seconds = rest
            saves = None if seconds is None else SaveHabits(on_notice=True, notice_seconds=seconds)
            self.number += 1
            name = f"job-{self.number}"
            world.submit(world.job(name, gpus, queue=queue, priority=priority, saves=saves))
        elif kind == "wait":
            world.now += timedelta(seconds=int(rest[0]))
        elif kind == "restart":
            self.restart()
        elif kind == "lose":
            self.lose()
        elif kind in {"policy", "no policy"}:
            world.engine.upsert_disruption_policy(PROTECTING if kind == "policy" else RULES)
        else:
            self.change(str(kind), int(rest[0]))
        self.settle()

    def change(self, kind: str, number: int) -> None:
        name = f"job-{number}"
        workload = self.world.workloads.get(f"{NAMESPACE}/{name}")
        if workload is None or workload.finished:
            return
        if kind == "save":
            self.world.save(name, self.world.now)
        elif kind == "finish" and workload.reservation is not None:
            self.world.finish(name)
        elif kind == "delete":
            self.world.delete(name)
            del self.world.workloads[workload.key]
        elif kind == "leave" and workload.evicted is not None:
            self.world.leave(name)

    def restart(self) -> None:
        """A new manager knows what the API says, and nothing else."""
        old, self.world = self.world, NoticeWorld(RULES, *QUEUES)
        self.world.now = old.now
        for workload in old.workloads.values():
            self.world.submit(workload)

    def lose(self) -> None:
        """All evictions and notices of one round cannot be written."""
        plan = self.world.cycle(after=1)
        told = [d for d in plan.decisions if isinstance(d, EndNotice | RescindNotice)]
        victims = [v for d in plan.decisions if isinstance(d, Preempt) for v in d.victims]
        self.world.write(CyclePlan(decisions=tuple(d for d in plan.decisions if is_other(d))))
        for each in (*told, *(victim for victim in victims if victim.is_new)):
            self.world.engine.preemption_failed(each.workload, self.world.now)

    def settle(self) -> None:
        self.world.run()
        self.check()

    def check(self) -> None:
        now = int(self.world.now.timestamp())
        found = {}
        for key, workload in self.world.workloads.items():
            notice = workload.notice
            if notice is None or workload.finished or workload.reservation is None:
                continue
            assert workload.evicted is None
            assert notice.by - notice.given_at <= LONGEST
            assert now <= notice.by + 3, "it is longer than it said"
            before = self.ends.get(key)
            if before is not None and before[0] == notice.given_at:
                assert before[1] == notice.by, "it was made longer"
            found[key] = (notice.given_at, notice.by)
        self.ends = found


def is_other(decision: object) -> bool:
    return not isinstance(decision, Preempt | EndNotice | RescindNotice)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.one_of(jobs, events), min_size=8, max_size=30))
def test_no_notice_is_longer_than_it_said(history: list[tuple[object, ...]]) -> None:
    """P-52, and after the last one nobody leaves for nobody (P-56)."""
    shell = Shell()
    for event in history:
        shell.apply(event)
    for key in [key for key, workload in shell.world.workloads.items() if not workload.reservation]:
        shell.world.delete(key.partition("/")[2])
        del shell.world.workloads[key]
    shell.world.run()
    shell.world.run()
    assert [w.key for w in shell.world.workloads.values() if w.notice and w.evicted is None] == []
