"""Receivers are told what happens to jobs that ask for it, and of no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from multiqueue.api.config.types import NotificationReceiver, Notifications
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import complete, create_queue, running, submit
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster

Json = dict[str, Any]


@asynccontextmanager
async def chat(folder: Path) -> AsyncIterator[tuple[asyncio.Queue[Json], Path]]:
    """A receiver on this machine: what it got, and the file with its URL."""
    got: asyncio.Queue[Json] = asyncio.Queue()

    async def handle(request: web.Request) -> web.Response:
        got.put_nowait(await request.json())
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    file = folder / "url"
    file.write_text(f"http://127.0.0.1:{runner.addresses[0][1]}/hook\n")
    try:
        yield got, file
    finally:
        await runner.cleanup()


async def evict(cluster: QueueCluster, name: str, *, active: bool) -> None:
    workload = cluster.workload_of(name)
    assert workload is not None
    patch = {"spec": {"active": active}}
    await cluster.patch(resources.WORKLOADS, workload.metadata.name, patch, namespace=NAMESPACE)


async def test_a_job_that_asks_is_told_about_from_its_admission_to_its_end(tmp_path: Path) -> None:
    async with chat(tmp_path) as (got, file), queue_cluster() as cluster:
        receiver = NotificationReceiver(name="chat", url_file=str(file))
        config = msgspec.structs.replace(CONFIG, notifications=Notifications(receivers=(receiver,)))
        async with cluster.manager(config):
            await create_queue(cluster)
            wanted = {"multiqueue.dev/notify": "admitted,evicted"}
            await submit(cluster, make_job("silent"))
            await submit(cluster, make_job("told", annotations=wanted))
            await cluster.changes.until(lambda: running(cluster, "told"), "it runs")
            await cluster.changes.until(lambda: running(cluster, "silent"), "it runs, too")
            async with asyncio.timeout(20):
                first = await got.get()
                await evict(cluster, "told", active=False)
                second = await got.get()
                await evict(cluster, "told", active=True)
                third = await got.get()
                await cluster.changes.until(lambda: running(cluster, "told"), "it runs again")
                later = {"metadata": {"annotations": {"multiqueue.dev/notify": "finished"}}}
                await cluster.patch(resources.JOBS, "told", later, namespace=NAMESPACE)
                await complete(cluster, "silent")
                await complete(cluster, "told")
                last = await got.get()
        all_ = [first, second, third, last]
        assert [each["reason"] for each in all_] == ["admitted", "evicted", "admitted", "finished"]
        assert {each["job"] for each in all_} == {"Job/told"}
        assert "The workload is deactivated" in second["message"]
        assert got.empty()
