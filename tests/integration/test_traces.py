"""The trace of a job as a collector gets it: one trace, and the same spans whoever sends them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog
from aiohttp import web

from multiqueue.api.config.types import Traces
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.controllers.traces import MAX_WAITING, TraceExporter
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, complete, create_queue, submit
from tests.integration.test_notifications import evict
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

Json = dict[str, Any]
SECRET = "Bearer t0ken"
CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """What it got, in the order of arrival; `status` is what it answers."""

    def __init__(self) -> None:
        self.spans: list[Json] = []
        self.headers: list[str] = []
        self.asked = 0
        self.status = 200

    async def handle(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.headers.append(request.headers.get("Authorization", ""))
        if self.status == 200:
            [resource] = (await request.json())["resourceSpans"]
            [scope] = resource["scopeSpans"]
            self.spans += scope["spans"]
        return web.Response(status=self.status)

    async def until(self, count: int) -> list[Json]:
        async with asyncio.timeout(600):
            while len(self.spans) < count:  # noqa: ASYNC110 - no event
                await asyncio.sleep(1)
        return self.spans

    def list_names(self) -> list[str]:
        return [span["name"] for span in self.spans]


@asynccontextmanager
async def collecting(**settings: Any) -> AsyncIterator[tuple[Collector, QueueCluster, Any]]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    traces = Traces(endpoint=endpoint, **{"sample": 1.0, **settings})
    config = msgspec.structs.replace(CONFIG, traces=traces, wait_for_pods_ready=None)
    try:
        async with queue_cluster() as cluster:
            await create_queue(cluster)
            yield collector, cluster, config
    finally:
        await runner.cleanup()


async def until_runs(cluster: QueueCluster, name: str) -> None:
    await cluster.changes.until(lambda: admitted(cluster, name), "it is admitted")


async def until_finished(cluster: QueueCluster, name: str, *, failed: bool = False) -> None:
    def is_over() -> bool:
        workload = cluster.workload_of(name)
        return workload is not None and is_finished(workload.status)

    if failed:
        now = "2026-01-01T00:00:00Z"
        failure = {"status": "True", "lastTransitionTime": now, "reason": "r", "message": "bad"}
        conditions = [{**failure, "type": each} for each in ("FailureTarget", "Failed")]
        status = {"startTime": now, "failed": 1, "conditions": conditions}
        await cluster.patch(
            resources.JOBS, name, {"status": status}, namespace=NAMESPACE, subresource="status"
        )
    else:
        await complete(cluster, name)
    await cluster.changes.until(is_over, "it has finished")


async def live_twice(cluster: QueueCluster) -> str:
    """Run a job, evict it, and let it end; return its uid."""
    header = f"00-{'-'.join(CALLER)}-01"
    await submit(cluster, make_job("a", annotations={"multiqueue.dev/traceparent": header}))
    await until_runs(cluster, "a")
    await asyncio.sleep(10)
    await evict(cluster, "a", active=False)
    await cluster.changes.until(lambda: not _holds(cluster, "a"), "it has stopped")
    await asyncio.sleep(10)
    await evict(cluster, "a", active=True)
    await until_runs(cluster, "a")
    await asyncio.sleep(10)
    await until_finished(cluster, "a")
    workload = cluster.workload_of("a")
    assert workload is not None
    return workload.metadata.uid


def _holds(cluster: QueueCluster, name: str) -> bool:
    workload = cluster.workload_of(name)
    return workload is not None and has_quota(workload.status)


def read(span: Json) -> dict[str, Any]:
    """The attributes of a span."""
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


@virtual_time
async def test_the_life_of_a_job_is_one_trace() -> None:
    async with collecting() as (collector, cluster, config), cluster.manager(config):
        uid = await live_twice(cluster)
        spans = await collector.until(8)
        names = ["Queued", "Checking", "Admitted", "Evicted", "Queued", "Checking", "Admitted"]
        assert collector.list_names() == [*names, "Workload"]
        assert {span["traceId"] for span in spans} == {uid.replace("-", "")}
        assert len({span["spanId"] for span in spans}) == 8
        root = spans[-1]
        assert {span["parentSpanId"] for span in spans[:-1]} == {root["spanId"]}
        assert root["parentSpanId"] == ""
        assert root["links"] == [{"traceId": CALLER[0], "spanId": CALLER[1]}]
        begins = [int(span["startTimeUnixNano"]) for span in spans[:-1]]
        ends = [int(span["endTimeUnixNano"]) for span in spans[:-1]]
        assert begins[1:] == ends[:-1], "without gaps"
        assert (root["startTimeUnixNano"], int(root["endTimeUnixNano"])) == (
            spans[0]["startTimeUnixNano"],
            ends[-1],
        )
        assert read(spans[3])["multiqueue.outcome"] == "Lost"
        assert read(spans[6])["multiqueue.outcome"] == "Kept"
        assert read(root)["multiqueue.job"] == "Job/a"
        assert {span["status"].get("code") for span in spans} == {None}


@virtual_time
async def test_two_managers_and_a_restart_make_the_same_spans() -> None:
    async with collecting() as (collector, cluster, config):
        async with cluster.manager(config), cluster.manager(config):
            await submit(cluster, make_job("a"))
            await until_runs(cluster, "a")
        async with cluster.manager(config), cluster.manager(config):
            await evict(cluster, "a", active=False)
            await cluster.changes.until(lambda: not _holds(cluster, "a"), "it has stopped")
            spans = await collector.until(8)
        assert len(spans) == 8
        assert len({(span["spanId"], span["startTimeUnixNano"]) for span in spans}) == 4


@virtual_time
async def test_only_jobs_that_fail_or_are_evicted_are_traced_without_a_sample() -> None:
    async with collecting(sample=0.0) as (collector, cluster, config), cluster.manager(config):
        for name in ("ends", "fails", "evicted"):
            await submit(cluster, make_job(name))
            await until_runs(cluster, name)
        await until_finished(cluster, "ends")
        await until_finished(cluster, "fails", failed=True)
        await evict(cluster, "evicted", active=False)
        spans = await collector.until(8)
        await asyncio.sleep(60)
        assert {read(span)["multiqueue.job"] for span in spans} == {"Job/fails", "Job/evicted"}
        failed = [s for s in spans if s["status"].get("code") == 2]
        assert [s["name"] for s in failed] == ["Admitted", "Workload"]


@virtual_time
async def test_a_collector_that_is_away_delays_spans_and_nothing_else() -> None:
    with structlog.testing.capture_logs() as logs:
        async with collecting() as (collector, cluster, config):
            collector.status = 503
            async with cluster.manager(config) as context:
                await submit(cluster, make_job("a"))
                await until_runs(cluster, "a")
                await until_finished(cluster, "a")
                await asyncio.sleep(600)
                assert 10 < collector.asked < 20, "the pauses grow up to a minute"
                await submit(cluster, make_job("b"))
                await until_runs(cluster, "b")
                collector.status = 200
                await collector.until(4)
                assert collector.list_names() == ["Queued", "Checking", "Admitted", "Workload"]
                assert count(context, "sent") == 4
    assert [entry["event"] for entry in logs if "trace" in entry["event"]] == [
        "traces not sent",
        "traces are sent again",
    ]


@virtual_time
async def test_what_waits_is_bounded_and_what_is_refused_is_not_sent_again() -> None:
    async with collecting() as (collector, cluster, config):
        collector.status = 400
        async with cluster.manager() as context:
            exporter = TraceExporter(dataclasses.replace(context, config=config))
            await submit(cluster, make_job("a"))
            await until_runs(cluster, "a")
            held = cluster.workload_of("a")
            assert held is not None
            for _ in range(MAX_WAITING // 4 + 5):
                exporter.follow(held, None)
            assert count(context, "dropped") == 20
            running = asyncio.create_task(exporter.run())
            async with asyncio.timeout(600):
                while count(context, "refused") < MAX_WAITING:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(1)
            running.cancel()
            assert collector.asked == 4


@virtual_time
async def test_headers_come_from_a_file_and_are_in_no_log(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    with structlog.testing.capture_logs() as logs:
        async with (
            collecting(headers_file=str(file)) as (collector, cluster, config),
            cluster.manager(config),
        ):
            await submit(cluster, make_job("a"))
            await until_runs(cluster, "a")
            await until_finished(cluster, "a")
            await asyncio.sleep(30)
            assert collector.asked == 0, "without its headers nothing is sent"
            file.write_text(f"Authorization: {SECRET}\n")
            await collector.until(4)
            assert collector.headers == [SECRET]
    [told] = [entry for entry in logs if entry["event"] == "traces not sent"]
    assert told["problem"] == f"{file}: No such file or directory"
    assert SECRET not in str(logs)


def count(context: ManagerContext, result: str) -> float:
    labels = {"result": result, "replica_role": "standalone"}
    value = context.metrics.registry.get_sample_value("multiqueue_trace_spans_total", labels)
    return value or 0
