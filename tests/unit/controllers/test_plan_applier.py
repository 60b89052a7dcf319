"""What becomes of an admission whose write ends in no ordinary way; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.plan_applier import (
    MAX_RETRY_SECONDS,
    WRITERS,
    PendingAdmission,
    PlanApplier,
)
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.jobs.fleet_gate import NoFleet
from multiqueue.kube.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    RequestTimeout,
    ServerError,
)
from multiqueue.model.build_workload import build_workload
from multiqueue.model.cluster_queue import LocalQueue
from multiqueue.model.workload import Admission
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.engine import make_queue
from tests.builders.workloads import NAMESPACE, make_workload, reserved, with_status
from tests.engine_world import EngineWorld
from tests.virtual_time import LoopClock, virtual_time

KEY = f"{NAMESPACE}/wl"


class FakeServer:
    """Workloads, and what happens to the next writes and reads; no outcome means success."""

    def __init__(self) -> None:
        self.workload: Workload | None = None
        self.writes: list[float] = []
        self.outcomes: list[Exception | Callable[[], Exception]] = []
        self.read_errors: list[KubeError] = []
        self.on_change: Callable[[Workload], None] = lambda _: None
        self.on_write: Callable[[], object] = lambda: None
        self.hold = asyncio.Event()
        self.hold.set()
        self._lock = asyncio.Lock()
        self.store = self

    def put(self, workload: Workload) -> None:
        version = str(len(self.writes) + 100)
        metadata = msgspec.structs.replace(workload.metadata, resource_version=version)
        self.workload = msgspec.structs.replace(workload, metadata=metadata)
        self.on_change(self.workload)

    def get(self, key: str) -> Workload | None:
        return self.workload if key == KEY else None

    def add_handler(self, handler: Any) -> None:
        self.handler = handler

    async def update_status(self, key: str, change: Any) -> None:
        async with self._lock:  # one write at a time per Workload
            await self.hold.wait()
            self._write(change)

    def _write(self, change: Any) -> None:
        assert self.workload is not None
        self.on_write()
        self.writes.append(asyncio.get_running_loop().time() - 1000.0)
        status = change(self.workload)
        if self.outcomes:
            outcome = self.outcomes.pop(0)
            raise outcome if isinstance(outcome, Exception) else outcome()
        self.put(with_status(self.workload, status))

    async def read(self, key: str) -> Workload:
        assert self.workload is not None
        if self.read_errors:
            raise self.read_errors.pop(0)
        self.on_change(self.workload)
        return self.workload


class ApplierFixture:
    """Server, engine and applier; cycles run when something changed, and when they are due."""

    def __init__(self) -> None:
        self.server = FakeServer()
        world = EngineWorld(make_queue())
        self.engine: Engine = world.engine
        self.engine.upsert_namespace(NAMESPACE, {})
        self.engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="cq"))
        self.clock = LoopClock()
        self.woken = asyncio.Event()
        context: Any = SimpleNamespace(
            clock=self.clock,
            config=Configuration(),
            writer=self.server,
            metrics=ManagerMetrics(),
            informers=SimpleNamespace(workloads=self.server),
        )
        self.pending: list[str] = []
        self.applier = PlanApplier(
            context,
            self.engine,
            NoFleet(),
            on_pending=self.pending.append,
            on_forgotten=self.woken.set,
        )
        self.server.on_change = self.upsert

    def upsert(self, workload: Workload) -> None:
        self.engine.upsert_workload(build_workload(workload), self.clock.now())
        self.woken.set()

    async def schedule(self) -> None:
        while True:
            self.woken.clear()
            now = self.clock.now()
            self.applier.apply(self.engine.run_cycle(now))
            at = self.engine.next_cycle_at(now)
            try:
                async with asyncio.timeout((at - now).total_seconds() if at else None):
                    await self.woken.wait()
            except TimeoutError:
                continue

    @property
    def reserving(self) -> int:
        state = self.engine.cluster_queue_state("cq")
        assert state is not None
        return state.reserving


@asynccontextmanager
async def running() -> AsyncIterator[ApplierFixture]:
    shell = ApplierFixture()
    tasks = [asyncio.create_task(shell.applier.run()), asyncio.create_task(shell.schedule())]
    try:
        yield shell
        assert not any(task.done() for task in tasks), "the manager ended"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@virtual_time
async def test_writes_that_fail_are_repeated_later_and_later() -> None:
    async with running() as shell:
        shell.server.outcomes = [RequestTimeout("no answer") for _ in range(4)]
        shell.server.put(make_workload())
        await asyncio.sleep(60)
        assert shell.server.writes == pytest.approx([0, 0.05, 0.15, 0.35, 0.75])
        assert shell.reserving == 1


@virtual_time
async def test_a_write_that_always_fails_is_no_hot_loop_and_holds_nothing() -> None:
    async with running() as shell:
        shell.server.outcomes = [Forbidden(403) for _ in range(1000)]
        shell.server.put(make_workload())
        await asyncio.sleep(3600)
        assert len(shell.server.writes) < 3600 / MAX_RETRY_SECONDS + 20
        assert shell.reserving == 0


@virtual_time
async def test_failures_are_forgotten_with_their_workload() -> None:
    async with running() as shell:
        shell.server.outcomes = [Forbidden(403) for _ in range(8)]
        workload = make_workload()
        shell.server.put(workload)
        await asyncio.sleep(10)
        shell.server.handler(workload, None)
        shell.engine.delete_workload(KEY, shell.clock.now())
        shell.server.writes.clear()
        shell.server.outcomes = [NotFound(404)]
        shell.server.put(workload)
        await asyncio.sleep(1)
        first, second = shell.server.writes
        assert second - first == pytest.approx(0.05)


@virtual_time
async def test_a_write_that_is_outdated_does_not_take_back_a_newer_admission() -> None:
    async with running() as shell:
        shell.server.hold = asyncio.Event()
        workload = make_workload()
        shell.server.put(workload)
        await asyncio.sleep(0.01)
        shell.engine.delete_workload(KEY, shell.clock.now())
        metadata = msgspec.structs.replace(workload.metadata, uid="another", generation=5)
        shell.server.put(msgspec.structs.replace(workload, metadata=metadata))
        await asyncio.sleep(0.01)
        assert shell.reserving == 1
        reserving: list[int] = []
        shell.server.on_write = lambda: reserving.append(shell.reserving)
        shell.server.hold.set()
        await asyncio.sleep(60)
        assert reserving == [1, 1], "what is being written is charged"
        assert shell.reserving == 1
        assert shell.applier.find_unwritten(KEY) is None


def decided(shell: ApplierFixture) -> PendingAdmission:
    """Decide on the Workload, without a writer that writes it."""
    shell.applier.apply(shell.engine.run_cycle(shell.clock.now()))
    admission = shell.applier.find_unwritten(KEY)
    assert admission is not None
    assert shell.reserving == 1
    return admission


@virtual_time
async def test_an_admission_that_no_writer_began_is_taken_back_without_a_write() -> None:
    shell = ApplierFixture()
    shell.server.put(make_workload())
    admission = decided(shell)

    assert shell.applier.take_back(admission)

    assert (shell.reserving, shell.applier.find_unwritten(KEY)) == (0, None)
    assert shell.woken.is_set()
    assert shell.pending == [KEY], "it is told why it waits"
    assert not shell.applier.take_back(admission), "it is not there any more"
    writing = asyncio.create_task(shell.applier.run())
    await asyncio.sleep(1)
    assert shell.server.writes == []
    shell.applier.apply(shell.engine.run_cycle(shell.clock.now()))
    await asyncio.sleep(1)
    assert (len(shell.server.writes), shell.reserving) == (1, 1), "it waited as before"
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


@virtual_time
async def test_an_admission_that_is_being_written_is_not_taken_back() -> None:
    async with running() as shell:
        shell.server.hold.clear()
        shell.server.put(make_workload())
        await asyncio.sleep(1)
        admission = shell.applier.find_unwritten(KEY)
        assert admission is not None
        assert not shell.applier.take_back(admission)
        assert (shell.reserving, admission.written) == (1, None)
        shell.server.hold.set()
        await asyncio.sleep(1)
        assert (shell.reserving, admission.written) == (1, True)
        assert not shell.applier.take_back(admission)


@virtual_time
async def test_an_older_admission_does_not_take_a_newer_one_back() -> None:
    """The Workload was made anew meanwhile; only its newer admission is written."""
    shell = ApplierFixture()
    workload = make_workload()
    shell.server.put(workload)
    older = decided(shell)
    shell.engine.delete_workload(KEY, shell.clock.now())
    metadata = msgspec.structs.replace(workload.metadata, uid="another")
    shell.server.put(msgspec.structs.replace(workload, metadata=metadata))
    newer = decided(shell)

    assert (older.written, newer.written) == (False, None)
    assert not shell.applier.take_back(older)
    assert shell.reserving == 1
    assert shell.applier.take_back(newer)
    assert shell.reserving == 0


@virtual_time
async def test_a_surprise_in_one_write_ends_nothing() -> None:
    async with running() as shell:
        shell.server.outcomes = [ValueError("answer cannot be decoded")]
        shell.server.put(make_workload())
        await asyncio.sleep(60)
        assert len(shell.server.writes) == 2
        assert shell.reserving == 1


@virtual_time
async def test_a_write_whose_answer_got_lost_is_looked_up_before_its_quota_is_given_away() -> None:
    async with running() as shell:

        def lose_the_answer() -> Exception:
            workload = reserved(make_workload())
            shell.server.workload = workload  # the watch does not show it yet
            return RequestTimeout("no answer")

        shell.server.outcomes = [lose_the_answer]
        shell.server.read_errors = [ServerError(503), RequestTimeout("no answer")]
        shell.server.put(make_workload())
        await asyncio.sleep(0.01)
        assert shell.reserving == 1, "nobody knows yet: the place is kept"
        await asyncio.sleep(60)
        assert len(shell.server.writes) == 1
        assert shell.reserving == 1


@virtual_time
async def test_what_the_object_itself_forbids_waits_for_a_change_of_it() -> None:
    async with running() as shell:
        shell.server.put(make_workload())
        # The engine was told less than the object says, as after a handler that failed.
        assert shell.server.workload is not None
        metadata = msgspec.structs.replace(
            shell.server.workload.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
        )
        shell.server.workload = msgspec.structs.replace(shell.server.workload, metadata=metadata)
        await asyncio.sleep(3600)
        assert len(shell.server.writes) == 1
        assert shell.reserving == 0
        shell.server.put(make_workload())
        await asyncio.sleep(1)
        assert shell.reserving == 1


@virtual_time
async def test_an_admission_of_what_is_gone_is_taken_back() -> None:
    async with running() as shell:
        shell.engine.upsert_workload(build_workload(make_workload()), shell.clock.now())
        plan = shell.engine.run_cycle(shell.clock.now())
        assert isinstance(plan.decisions[0], Admit)
        shell.applier.apply(plan)
        assert shell.reserving == 0
        assert shell.engine.run_cycle(shell.clock.now()).decisions == (), "not at once"
        shell.engine.delete_workload(KEY, shell.clock.now())


@virtual_time
async def test_only_those_that_wait_for_an_offer_wait_behind_others_that_do() -> None:
    gate: Any = SimpleNamespace(
        offer=lambda _: asyncio.timeout(None), may_offer=lambda checks: "fleet" in checks
    )
    hold, written = asyncio.Event(), []

    async def update_status(key: str, change: Any) -> None:
        if "fleet" in key:
            await hold.wait()
        written.append(key)

    names = [f"{NAMESPACE}/fleet-{n}" for n in range(2 * WRITERS)]
    names.append(f"{NAMESPACE}/machines")
    store = {key: make_workload(key.split("/")[1]) for key in names}
    workloads = SimpleNamespace(store=store, add_handler=str)
    context: Any = SimpleNamespace(
        clock=LoopClock(),
        config=Configuration(),
        writer=SimpleNamespace(update_status=update_status),
        metrics=ManagerMetrics(),
        informers=SimpleNamespace(workloads=workloads),
    )
    applier = PlanApplier(context, Engine(), gate, on_pending=str, on_forgotten=str)
    admit = partial(Admit, cluster_queue="cq", admission=Admission(cluster_queue="cq", pod_sets=()))
    checks = {key: ("fleet" if "fleet" in key else "machines",) for key in names}
    decisions = tuple(admit(workload=key, checks=checks[key]) for key in names)
    applier.apply(CyclePlan(decisions=decisions))
    running = asyncio.create_task(applier.run())
    await asyncio.sleep(1)
    assert written == [f"{NAMESPACE}/machines"]
    hold.set()
    await asyncio.sleep(1)
    assert sorted(written) == sorted(names)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@virtual_time
async def test_all_admissions_of_a_cycle_are_written_at_once_and_their_stages_measured() -> None:
    began: list[float] = []

    async def update_status(key: str, change: Any) -> None:
        began.append(asyncio.get_running_loop().time() - 1000.0)
        await asyncio.sleep(0.3)
        if key.endswith("wl-0"):
            raise Conflict("written by somebody else")

    names = [f"{NAMESPACE}/wl-{n}" for n in range(WRITERS + 1)]
    store = {key: make_workload(key.split("/")[1]) for key in names}
    metrics = ManagerMetrics()
    context: Any = SimpleNamespace(
        clock=LoopClock(),
        config=Configuration(),
        writer=SimpleNamespace(update_status=update_status),
        metrics=metrics,
        informers=SimpleNamespace(workloads=SimpleNamespace(store=store, add_handler=str)),
    )
    forgotten = asyncio.Event()
    applier = PlanApplier(context, Engine(), NoFleet(), on_pending=str, on_forgotten=forgotten.set)
    admission = Admission(cluster_queue="cq", pod_sets=())
    applier.apply(
        CyclePlan(
            decisions=tuple(
                Admit(workload=key, cluster_queue="cq", admission=admission) for key in names
            )
        )
    )
    running = asyncio.create_task(applier.run())
    await asyncio.sleep(1)

    assert began == pytest.approx([0.0] * WRITERS + [0.3]), "one more than there are writers"
    assert forgotten.is_set(), "only the one that failed is decided again"
    assert not any(applier.find_unwritten(key) for key in names)
    assert stage_seconds(metrics, "queue") == pytest.approx(0.3)
    assert stage_seconds(metrics, "write") == pytest.approx(0.3 * (WRITERS + 1))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@virtual_time
async def test_an_urgent_workload_does_not_wait_behind_those_that_were_decided_before() -> None:
    begun: list[str] = []

    async def update_status(key: str, change: Any) -> None:
        begun.append(key)
        await asyncio.sleep(0.3)

    names = [f"{NAMESPACE}/wl-{n}" for n in range(2 * WRITERS)]
    urgent = f"{NAMESPACE}/urgent"
    store = {key: make_workload(key.split("/")[1]) for key in names}
    store[urgent] = make_workload("urgent", priority=100)
    context: Any = SimpleNamespace(
        clock=LoopClock(),
        config=Configuration(),
        writer=SimpleNamespace(update_status=update_status),
        metrics=ManagerMetrics(),
        informers=SimpleNamespace(workloads=SimpleNamespace(store=store, add_handler=str)),
    )
    applier = PlanApplier(context, Engine(), NoFleet(), on_pending=str, on_forgotten=str)
    admit = partial(Admit, cluster_queue="cq", admission=Admission(cluster_queue="cq", pod_sets=()))
    running = asyncio.create_task(applier.run())
    applier.apply(CyclePlan(decisions=tuple(admit(workload=key) for key in names)))
    await asyncio.sleep(0.1)
    applier.apply(CyclePlan(decisions=(admit(workload=urgent),)))
    await asyncio.sleep(1)
    assert begun == [*names[:WRITERS], urgent, *names[WRITERS:]]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def stage_seconds(metrics: ManagerMetrics, stage: str) -> float:
    labels = {"stage": stage, "replica_role": metrics.role}
    got = metrics.registry.get_sample_value("multiqueue_admission_stage_seconds_sum", labels)
    return got or 0.0
