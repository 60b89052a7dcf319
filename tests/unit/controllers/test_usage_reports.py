"""What readers add up while reports are written: nothing counts twice, nothing is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import structlog

from multiqueue.api.serde import decode, encode
from multiqueue.api.v1alpha1 import UsageReport
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.controllers.usage_reports import EndedHolds, UsageReports
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.errors import NotFound, TransportError, build_api_error
from multiqueue.views.usage import Hold, UsageFigures
from multiqueue.views.usage_sums import collect
from tests.builders.workloads import NAMESPACE, admitted, make_workload
from tests.virtual_time import LoopClock, virtual_time

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


class Cluster:
    """Workloads and UsageReports, and the managers that write them; also their client."""

    def __init__(self, start: datetime = NOON) -> None:
        self.clock = LoopClock(start)
        self.reports: dict[tuple[str, str], UsageReport] = {}
        self.failing = ""
        """The report whose next write fails."""
        self.terminating: set[str] = set()
        """Namespaces in which nothing can be created any more."""
        self._workloads: dict[str, Workload] = {}
        self._handlers: list[Callable[[Workload | None, Workload | None], None]] = []

    def add_manager(self, *, most_rows: int = 100) -> UsageReports:
        """Return the UsageReports of a new manager, which sees what happens from now on."""
        settled = asyncio.Event()
        settled.set()
        workloads = SimpleNamespace(
            store=self._workloads, settled=settled, add_handler=self._add_handler
        )
        namespaces = SimpleNamespace(store={}, settled=settled)
        informers = SimpleNamespace(workloads=workloads, namespaces=namespaces)
        context: Any = SimpleNamespace(client=self, clock=self.clock, informers=informers)
        return UsageReports(cast("ManagerContext", context), most_rows=most_rows)

    def _add_handler(self, handler: Callable[[Workload | None, Workload | None], None]) -> None:
        self._handlers.append(handler)
        for workload in self._workloads.values():
            handler(None, workload)

    def start(self, name: str, *, queue: str = "lq", namespace: str = NAMESPACE) -> None:
        """Let a Workload run on one device from now on."""
        workload = admitted(make_workload(name, queue=queue), at=self.clock.now())
        metadata = msgspec.structs.replace(workload.metadata, namespace=namespace)
        self._set(msgspec.structs.replace(workload, metadata=metadata))

    def _set(self, workload: Workload) -> None:
        self._workloads[workload.metadata.key] = workload
        for handler in self._handlers:
            handler(None, workload)

    def remove(self, name: str, *, namespace: str = NAMESPACE) -> None:
        """Delete a Workload that still runs."""
        workload = self._workloads.pop(f"{namespace}/{name}")
        for handler in self._handlers:
            handler(workload, None)

    def sum_up(self) -> UsageFigures:
        """Return what a reader adds up now."""
        rows, _ = collect(
            self.reports.values(),
            self._workloads.values(),
            {},
            since=datetime(2026, 1, 1, tzinfo=UTC),
            now=self.clock.now(),
        )
        figures = UsageFigures()
        for each in rows.values():
            for row in each.values():
                figures.add(row)
        return figures

    # ------------------------------------------------------------ client

    async def get(self, _resource: Any, name: str, *, namespace: str, **_: Any) -> UsageReport:
        if (namespace, name) not in self.reports:
            raise NotFound(404)
        return self.reports[namespace, name]

    async def create(
        self, _resource: Any, body: Mapping[str, Any], *, namespace: str, **_: Any
    ) -> UsageReport:
        if namespace in self.terminating:
            causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
            raise build_api_error(403, {"reason": "Forbidden", "details": {"causes": causes}})
        metadata = {**body["metadata"], "namespace": namespace, "resourceVersion": "1"}
        report = decode(UsageReport, {"metadata": metadata})
        self.reports[namespace, report.metadata.name] = report
        return report

    async def delete(self, *_: Any, **__: Any) -> None:
        raise NotFound(404)

    async def patch(
        self, _resource: Any, name: str, body: Mapping[str, Any], *, namespace: str, **_: Any
    ) -> UsageReport:
        if name == self.failing:
            self.failing = ""
            raise TransportError("no answer")
        stored = encode(self.reports[namespace, name])
        status = {**stored.get("status", {}), **body["status"]}
        status = {key: value for key, value in status.items() if value is not None}
        report = decode(UsageReport, {**stored, "status": status})
        self.reports[namespace, name] = report
        return report


@contextlib.asynccontextmanager
async def leading(manager: UsageReports) -> AsyncIterator[None]:
    """Let a manager lead while the block runs."""
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def figures_of(cluster: Cluster) -> tuple[float, int, float]:
    figures = cluster.sum_up()
    return figures.reserved, figures.holds, figures.kept


@virtual_time
async def test_a_hold_over_the_end_of_a_month_counts_once() -> None:
    cluster = Cluster(datetime(2026, 10, 31, 23, tzinfo=UTC))
    async with leading(cluster.add_manager()):
        cluster.start("train")
        await asyncio.sleep(62 * 60)
        cluster.remove("train")
        await asyncio.sleep(15)
        assert figures_of(cluster) == (3720, 1, 3720)
        await asyncio.sleep(300)
        assert {name for _, name in cluster.reports} == {"2026-10", "2026-11"}
        assert figures_of(cluster) == (3720, 1, 3720)
        await asyncio.sleep(300)
        assert figures_of(cluster) == (3720, 1, 3720)


@virtual_time
async def test_what_a_continued_report_told_last_counts_once() -> None:
    cluster = Cluster()
    async with leading(cluster.add_manager(most_rows=2)):
        cluster.start("train")
        cluster.start("other", queue="other")
        await asyncio.sleep(330)
        cluster.remove("train")
        cluster.remove("other")
        cluster.start("third", queue="third")
        await asyncio.sleep(300)
        cluster.remove("third")
        await asyncio.sleep(15)
        assert len(cluster.reports) == 2
        assert figures_of(cluster) == (960, 3, 960)
        await asyncio.sleep(600)
        assert figures_of(cluster) == (960, 3, 960)


@virtual_time
async def test_a_hold_that_ends_while_reports_are_written_loses_nothing() -> None:
    """The reports of other namespaces are written first; a report's turn comes later."""
    cluster = Cluster()
    manager = cluster.add_manager()
    for number in range(4):
        cluster.start("train", namespace=f"team-{number}")
    await asyncio.sleep(300)
    writing = asyncio.create_task(manager.write())
    await asyncio.sleep(0.6)
    cluster.remove("train", namespace="team-3")
    await writing
    await asyncio.sleep(300)
    await manager.write()
    rows = cluster.reports["team-3", "2026-11"].status.rows
    assert [(row.reserved_seconds, row.holds) for row in rows] == [(300, 1)]


@pytest.mark.parametrize("is_standby", [False, True])
@virtual_time
async def test_what_the_leader_before_told_last_counts_once(is_standby: bool) -> None:
    cluster = Cluster()
    first = cluster.add_manager()
    second = cluster.add_manager() if is_standby else None
    async with leading(first):
        cluster.start("train")
        await asyncio.sleep(400)
        cluster.remove("train")
        await asyncio.sleep(15)
    told = cluster.reports[NAMESPACE, "2026-11"].status
    assert told.rows
    assert told.recent_rows
    async with leading(second or cluster.add_manager()):
        cluster.start("next")
        await asyncio.sleep(30)
        cluster.remove("next")
        await asyncio.sleep(15)
        assert figures_of(cluster) == (430, 2, 430)
        await asyncio.sleep(600)
        assert not cluster.reports[NAMESPACE, "2026-11"].status.recent_rows
        assert figures_of(cluster) == (430, 2, 430)


@virtual_time
async def test_reports_are_written_every_five_minutes_however_many_jobs_are_deleted() -> None:
    cluster = Cluster()
    names = [f"team-{number}" for number in range(50)]
    async with leading(cluster.add_manager()):
        cluster.start("steady")
        for _ in range(60):
            for namespace in names:
                cluster.start("train", namespace=namespace)
            await asyncio.sleep(15)
            for namespace in names:
                cluster.remove("train", namespace=namespace)
    through = parse_time(cluster.reports[NAMESPACE, "2026-11"].status.through)
    assert through is not None
    assert cluster.clock.now() - through < timedelta(minutes=6)


@virtual_time
async def test_all_namespaces_get_their_turn() -> None:
    """Even if recent rows of all of them cannot be written in five minutes."""
    cluster = Cluster()
    names = [f"team-{number:03}" for number in range(700)]
    async with leading(cluster.add_manager()):
        for namespace in names:
            cluster.start("train", namespace=namespace)
        await asyncio.sleep(60)
        for namespace in names:
            cluster.remove("train", namespace=namespace)
        await asyncio.sleep(600)
        assert all(cluster.reports[name, "2026-11"].status.rows for name in names)
        assert figures_of(cluster) == (60 * 700, 700, 60 * 700)


@pytest.mark.parametrize("is_new_leader", [False, True])
@virtual_time
async def test_a_part_of_a_report_that_could_not_be_written_is_written_later(
    is_new_leader: bool,
) -> None:
    cluster = Cluster()
    leader = cluster.add_manager(most_rows=2)
    async with leading(leader):
        cluster.start("train")
        cluster.start("other", queue="other")
        await asyncio.sleep(330)
        cluster.remove("train")
        cluster.remove("other")
        await asyncio.sleep(15)
    cluster.failing = "2026-11-2"
    async with leading(cluster.add_manager(most_rows=2) if is_new_leader else leader):
        cluster.start("third", queue="lq")
        cluster.start("fourth", queue="fourth")
        await asyncio.sleep(330)
        assert not cluster.failing
        assert cluster.sum_up().reserved == 2 * 660
        await asyncio.sleep(300)
        assert cluster.sum_up().reserved == 660 + 2 * 630
        assert cluster.sum_up().holds == 2


@virtual_time
async def test_nothing_is_written_to_a_namespace_that_is_being_deleted() -> None:
    cluster = Cluster()
    cluster.terminating.add("gone")
    with structlog.testing.capture_logs() as logs:
        async with leading(cluster.add_manager()):
            cluster.start("train", namespace="gone")
            await asyncio.sleep(30)
            cluster.remove("train", namespace="gone")
            await asyncio.sleep(600)
    assert not cluster.reports
    assert {each["log_level"] for each in logs} == {"debug"}


def test_the_oldest_ended_holds_are_forgotten_first() -> None:
    holds: list[Any] = [SimpleNamespace(namespace=name, order=n) for n, name in enumerate("abaab")]
    ended = EndedHolds(cast("list[Hold]", holds), most=3)
    assert list(ended) == holds[2:]
    assert ended.list_of("a") == holds[2:4]
    assert ended.list_of("b") == holds[4:]
    assert ended.list_of("c") == []
