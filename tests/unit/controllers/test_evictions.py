"""Who is told to leave, and what becomes of writes that fail; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import complete_eviction, find, finish, is_evicted
from multiqueue.controllers.evictions import Eviction, EvictionWriter
from multiqueue.controllers.plan_applier import PendingAdmission
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.plan import Admit, CyclePlan, Evict, Preempt, PreemptedWorkload
from multiqueue.kube.errors import NotFound, ServerError
from multiqueue.model.workload import Admission
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import T0, admitted, evicted, make_workload, with_status
from tests.virtual_time import LoopClock, virtual_time

VICTIM, PREEMPTOR = "team-a/victim", "team-a/urgent"
EVICTION = Eviction(
    workload=VICTIM,
    uid="uid-victim",
    reason=Reason.IN_CLUSTER_QUEUE,
    message="for another",
    preemptor=PREEMPTOR,
    cluster_queue="cq",
)


def make_victim() -> Workload:
    return admitted(make_workload("victim", priority=1))


def make_plan(*names: str, is_new: bool = True) -> CyclePlan:
    victims = tuple(
        PreemptedWorkload(
            f"team-a/{name}", f"uid-{name}", Reason.IN_CLUSTER_QUEUE, "for another", is_new
        )
        for name in names or ("victim",)
    )
    explanation = Explanation(workload=PREEMPTOR, cluster_queue="cq")
    preempt = Preempt(
        workload=PREEMPTOR, cluster_queue="cq", victims=victims, explanation=explanation
    )
    return CyclePlan(decisions=(preempt,))


class EvictionFixture:
    """The writer with a store instead of a server; ``errors`` are what the next writes raise."""

    def __init__(self, *workloads: Workload) -> None:
        self.workloads = {workload.metadata.key: workload for workload in workloads}
        self.errors: list[Exception] = []
        self.unwritten: dict[str, PendingAdmission] = {}
        self.backlog: list[PendingAdmission] = []
        self.failed: list[tuple[str, float]] = []
        self.events: list[tuple[str, str, str]] = []
        self.metrics = ManagerMetrics()
        store = SimpleNamespace(get=self.workloads.get)
        informer = SimpleNamespace(store=store, add_handler=lambda _: None)
        context: Any = SimpleNamespace(
            informers=SimpleNamespace(workloads=informer),
            writer=self,
            recorder=SimpleNamespace(event=self._event, take_back=self._take_back),
            metrics=self.metrics,
            clock=LoopClock(),
            config=Configuration(),
        )
        self.writer = EvictionWriter(
            context,
            find_unwritten=self.unwritten.get,
            take_back=self._take_admission_back,
            on_failed=self._on_failed,
        )

    async def update_status(self, key: str, change: Any) -> Workload:
        if self.errors:
            raise self.errors.pop(0)
        self.workloads[key] = with_status(self.workloads[key], change(self.workloads[key]))
        return self.workloads[key]

    def admitting(self, *, began: bool) -> PendingAdmission:
        """Decide on the victim's admission; ``began``: a writer has it."""
        admission = self.unwritten[VICTIM] = PendingAdmission(
            decision=Admit(
                workload=VICTIM,
                cluster_queue="cq",
                admission=Admission(cluster_queue="cq", pod_sets=()),
            ),
            since=0.0,
            decided_at=0.0,
            uid="uid-victim",
            generation=1,
            resource_version="1",
        )
        if not began:
            self.backlog.append(admission)
        return admission

    def _take_admission_back(self, admission: PendingAdmission) -> bool:
        if admission not in self.backlog:
            return False
        self.backlog.remove(admission)
        del self.unwritten[VICTIM]
        return True

    def _on_failed(self, key: str) -> None:
        self.failed.append((key, round(asyncio.get_running_loop().time() - 1000.0, 3)))

    def _event(
        self,
        regarding: dict[str, str],
        kind: str,
        reason: str,
        message: str,
        *,
        hold_seconds: float = 0.0,
    ) -> None:
        assert bool(hold_seconds) == (reason == "PreemptedWorkload")
        self.events.append((regarding["name"], reason, message))

    def _take_back(self, regarding: dict[str, str], reason: str) -> str | None:
        held = [each for each in self.events if each[:2] == (regarding["name"], reason)]
        self.events = [each for each in self.events if each not in held]
        return held[0][2] if held else None

    @property
    def preempted(self) -> float:
        labels = {
            "preempting_cluster_queue": "cq",
            "reason": "InClusterQueue",
            "replica_role": "standalone",
        }
        name = "kueue_preempted_workloads_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0


@asynccontextmanager
async def applied(shell: EvictionFixture, plan: CyclePlan) -> AsyncIterator[None]:
    task = asyncio.create_task(shell.writer.run())
    try:
        shell.writer.apply(plan)
        await asyncio.sleep(1)
        yield
        assert not task.done(), "the writer ended"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual_time
async def test_a_victim_whose_admission_waits_to_be_written_costs_no_write() -> None:
    shell = EvictionFixture(make_workload("victim"), make_workload("urgent", priority=10))
    before = shell.workloads[VICTIM]
    shell.admitting(began=False)
    async with applied(shell, make_plan()):
        assert not shell.backlog
    assert shell.workloads[VICTIM] is before
    assert (shell.events, shell.failed, shell.preempted) == ([], [], 0)


@virtual_time
async def test_a_victim_is_told_to_leave_and_both_sides_hear_of_it() -> None:
    shell = EvictionFixture(make_victim(), make_workload("urgent", priority=10))
    async with applied(shell, make_plan()):
        status = shell.workloads[VICTIM].status
    assert is_evicted(status)
    preempted = find(status, WorkloadCondition.PREEMPTED)
    assert preempted is not None
    assert (preempted.reason, preempted.message) == ("InClusterQueue", "for another")
    ranks = (
        "preemptor effective priority: 10 (base: 10, boost: 0); "
        "preemptee effective priority: 1 (base: 1, boost: 0)"
    )
    assert shell.events == [
        (
            "urgent",
            "PreemptedWorkload",
            "Preempted workload team-a/victim (UID: uid-victim) due to InClusterQueue",
        ),
        ("victim", "Preempted", f"for another; {ranks}"),
    ]
    assert shell.preempted == 1


@virtual_time
async def test_the_victims_of_a_preemption_are_one_event_of_the_preemptor() -> None:
    urgent = make_workload("urgent", priority=10)
    victims = (admitted(make_workload(name, priority=1)) for name in ("a", "b"))
    shell = EvictionFixture(urgent, *victims)
    async with applied(shell, make_plan("a", "b")):
        pass
    want = "; ".join(
        f"Preempted workload team-a/{name} (UID: uid-{name}) due to InClusterQueue"
        for name in ("a", "b")
    )
    assert [told for name, _, told in shell.events if name == "urgent"] == [want]
    assert shell.preempted == 2


@virtual_time
async def test_who_leaves_already_is_not_told_again() -> None:
    shell = EvictionFixture(make_victim())
    async with applied(shell, make_plan(is_new=False)):
        assert not is_evicted(shell.workloads[VICTIM].status)
    assert shell.events == []


@virtual_time
async def test_an_eviction_for_nobody_is_no_preemption() -> None:
    shell = EvictionFixture(make_victim())
    evict = Evict(
        workload=VICTIM, cluster_queue="cq", reason=Reason.NODE_FAILURES, message="no node"
    )
    async with applied(shell, CyclePlan(decisions=(evict,))):
        status = shell.workloads[VICTIM].status
    condition = find(status, WorkloadCondition.EVICTED)
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == (
        "True",
        "NodeFailures",
        "no node",
    )
    assert find(status, WorkloadCondition.PREEMPTED) is None
    assert shell.preempted == 0


@virtual_time
async def test_failures_are_told_later_each_time_until_a_success() -> None:
    shell = EvictionFixture(make_victim())
    for expected in ([0.1], [0.1, 1.2]):
        shell.errors = [ServerError(500)]
        async with applied(shell, make_plan()):
            assert [at for _, at in shell.failed] == expected
    assert {key for key, _ in shell.failed} == {VICTIM}
    async with applied(shell, make_plan()):
        assert is_evicted(shell.workloads[VICTIM].status)
    assert len(shell.failed) == 2


@virtual_time
async def test_a_surprise_about_one_does_not_end_the_writing_of_others() -> None:
    shell = EvictionFixture(make_victim())
    shell.errors = [RuntimeError("a bug")]
    async with applied(shell, make_plan()):
        assert [key for key, _ in shell.failed] == [VICTIM]


@virtual_time
async def test_who_is_gone_has_left() -> None:
    shell = EvictionFixture(make_victim())
    shell.errors = [NotFound(404)]
    async with applied(shell, make_plan()):
        assert shell.failed == []


@virtual_time
async def test_an_admission_on_its_way_is_awaited() -> None:
    shell = EvictionFixture(make_workload("victim"))
    shell.admitting(began=True)
    async with applied(shell, make_plan()):
        assert [key for key, _ in shell.failed] == [VICTIM]


@virtual_time
async def test_a_victim_whose_admission_was_written_meanwhile_is_evicted() -> None:
    shell = EvictionFixture(make_victim())
    admission = shell.admitting(began=True)
    async with applied(shell, CyclePlan()):
        shell.writer.apply(make_plan())
        del shell.unwritten[VICTIM]
        admission.written = True
        await asyncio.sleep(1)
    assert is_evicted(shell.workloads[VICTIM].status)


@virtual_time
async def test_a_victim_whose_admission_failed_meanwhile_keeps_what_it_got_since_then() -> None:
    shell = EvictionFixture(make_victim())
    admission = shell.admitting(began=True)
    async with applied(shell, CyclePlan()):
        shell.writer.apply(make_plan())
        admission.written = False
        shell.admitting(began=True)
        await asyncio.sleep(1)
    assert not is_evicted(shell.workloads[VICTIM].status)
    assert [key for key, _ in shell.failed] == [VICTIM], "it is decided again"


@pytest.mark.parametrize(
    "workload",
    [
        make_workload("victim"),
        make_workload("other"),
        evicted(make_victim(), Reason.PODS_READY_TIMEOUT),
        with_status(make_victim(), finish(make_victim().status, "Succeeded", "done", now=T0)),
        with_status(
            evicted(make_victim()), complete_eviction(evicted(make_victim()).status, now=T0)
        ),
    ],
    ids=["without quota", "another of that name", "leaving anyway", "finished", "has left"],
)
def test_nothing_is_written_to_who(workload: Workload) -> None:
    assert EVICTION.change(workload, T0) is workload.status
