"""A job that asks for it is told once that it waits longer than foreseen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from multiqueue.api.config import Configuration
from multiqueue.api.config.types import NotificationReceiver, Notifications
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.kube import resources
from multiqueue.views.start import NoEstimate, tell_no_start
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, complete, create_queue, submit
from tests.integration.test_notifications import chat, evict
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import loop_clock, virtual_time

Json = dict[str, Any]
ROUND = 65
"""Seconds in which every job is looked at once."""
NOTIFY = {"multiqueue.dev/notify": "late"}
HELD = tell_no_start(NoEstimate.HELD, "its queue is stopped")


class Waits:
    """A queue that "first" fills, and "late" waits in; `start` is what is foreseen."""

    def __init__(self, cluster: QueueCluster, told: asyncio.Queue[Json]) -> None:
        self.cluster = cluster
        self.told = told
        self.asked: list[str] = []
        self.start: Json | None = None
        self.foresee(minutes=30)

    def foresee(self, minutes: int, stage: str = "quota") -> None:
        """Foresee a start after a time, with a range of ten minutes around it."""
        now = loop_clock().now()
        times = {"earliest": minutes - 10, "at": minutes, "latest": minutes + 10, "made": 0}
        told = {name: format_time(now + timedelta(minutes=m)) for name, m in times.items()}
        self.start = {**told, "stage": stage, "ahead": 3}

    async def find(self, key: str) -> Json | None:
        self.asked.append(key)
        return self.start

    async def annotate(self, wanted: str) -> None:
        change = {"metadata": {"annotations": {"multiqueue.dev/notify": wanted}}}
        await self.cluster.patch(resources.JOBS, "late", change, namespace=NAMESPACE)

    def list_told(self) -> list[Json]:
        return [self.told.get_nowait() for _ in range(self.told.qsize())]


@asynccontextmanager
async def receiving(folder: Path) -> AsyncIterator[tuple[Waits, Configuration]]:
    async with chat(folder) as (told, file), queue_cluster() as cluster:
        receivers = (NotificationReceiver(name="chat", url_file=str(file)),)
        config = msgspec.structs.replace(
            CONFIG, notifications=Notifications(receivers=receivers), wait_for_pods_ready=None
        )
        yield Waits(cluster, told), config


async def begin(waits: Waits) -> None:
    """Submit the jobs, and let each be looked at once."""
    cluster = waits.cluster
    await create_queue(cluster)
    await submit(cluster, make_job("first", cpu="4"))
    await cluster.changes.until(lambda: admitted(cluster, "first"), "it is admitted")
    await submit(cluster, make_job("late", cpu="4", annotations=NOTIFY))
    await asyncio.sleep(1)  # queues stand in the order of whole seconds
    await submit(cluster, make_job("silent", cpu="4"))
    await cluster.changes.until(lambda: cluster.workload_of("silent"), "it waits")
    await asyncio.sleep(ROUND)


@asynccontextmanager
async def waiting(folder: Path) -> AsyncIterator[Waits]:
    async with (
        receiving(folder) as (waits, config),
        waits.cluster.manager(config, find_start=waits.find),
    ):
        await begin(waits)
        yield waits


@virtual_time
async def test_a_job_is_told_once_that_it_is_late_with_both_ranges(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        foreseen = waits.start
        assert foreseen is not None
        await asyncio.sleep(38 * 60)
        assert waits.list_told() == []
        waits.foresee(minutes=60)
        await asyncio.sleep(3 * ROUND)
        [told] = waits.list_told()
        assert (told["reason"], told["job"]) == ("late", "Job/late")
        names = ("at", "earliest", "latest")
        assert told["foreseen"] == {name: foreseen[name] for name in names}
        assert told["start"] == {name: waits.start[name] for name in names}
        await asyncio.sleep(100 * 60)
        assert waits.list_told() == [], "once is enough"
        assert len(set(waits.asked)) == 1, "nothing is estimated for jobs that do not ask"
        assert len(waits.asked) == 2, "nor while the range lasts"


@virtual_time
async def test_a_job_whose_checks_last_says_what_it_waits_for(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        waits.start = None
        await asyncio.sleep(41 * 60)
        [told] = waits.list_told()
        assert told["start"] == {"at": None, "earliest": None, "latest": None}
        assert told["message"].endswith("; now: waiting for quota (times are UTC)")


@virtual_time
async def test_a_job_that_started_is_not_late(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        await complete(waits.cluster, "first")
        await waits.cluster.changes.until(lambda: admitted(waits.cluster, "late"), "it starts")
        await asyncio.sleep(60 * 60)
        assert waits.list_told() == []


@virtual_time
async def test_a_job_that_is_stopped_is_not_late(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        await evict(waits.cluster, "late", active=False)
        await asyncio.sleep(60 * 60)
        await evict(waits.cluster, "late", active=True)
        await asyncio.sleep(60 * 60)
        assert waits.list_told() == []


@virtual_time
async def test_what_is_held_is_not_late_and_is_foreseen_anew_afterwards(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        waits.start = dict(HELD)
        await asyncio.sleep(60 * 60)
        waits.foresee(minutes=30)
        await asyncio.sleep(38 * 60)
        assert waits.list_told() == []
        await asyncio.sleep(5 * 60)
        assert [told["reason"] for told in waits.list_told()] == ["late"]


@virtual_time
async def test_a_job_that_does_not_want_to_know_any_more_is_not_told(tmp_path: Path) -> None:
    async with waiting(tmp_path) as waits:
        await asyncio.sleep(38 * 60)
        await waits.annotate("finished")
        await asyncio.sleep(60 * 60)
        assert waits.list_told() == []
        asked = len(waits.asked)
        await waits.annotate("late")
        await asyncio.sleep(ROUND)
        assert len(waits.asked) == asked + 1, "it is foreseen anew"
        assert waits.list_told() == []


@virtual_time
async def test_a_new_leader_foresees_anew(tmp_path: Path) -> None:
    async with receiving(tmp_path) as (waits, config):
        async with waits.cluster.manager(config, find_start=waits.find):
            await begin(waits)
            await asyncio.sleep(41 * 60)
            assert [told["reason"] for told in waits.list_told()] == ["late"]
        waits.foresee(minutes=30)
        async with waits.cluster.manager(config, find_start=waits.find):
            await asyncio.sleep(38 * 60)
            assert waits.list_told() == []
            await asyncio.sleep(5 * 60)
            assert [told["reason"] for told in waits.list_told()] == ["late"]
