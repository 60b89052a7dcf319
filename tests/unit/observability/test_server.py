from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import aiohttp
import pytest

from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.tls import load_key_pair
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.observability.server import HealthChecks, MetricsRefusal, ObservabilityServer
from tests.virtual_time import virtual_time


async def get(server: ObservabilityServer, path: str) -> tuple[int, str, str]:
    url = f"http://{server.host}:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text(), response.headers["Content-Type"]


@virtual_time
async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    async with ObservabilityServer(registry=ManagerMetrics().registry) as server:
        status, text, content_type = await get(server, "/metrics")
        assert (await get(server, "/healthz"))[0] == 404
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "kueue_build_info{" in text


@virtual_time
async def test_metrics_that_are_guarded_are_for_those_whom_the_guard_lets_in() -> None:
    async def guard(authorization: str, path: str) -> MetricsRefusal | None:
        return (
            None
            if (authorization, path) == ("Bearer x", "/metrics")
            else MetricsRefusal(403, "not you")
        )

    health = HealthChecks()
    async with ObservabilityServer(
        registry=ManagerMetrics().registry, health=health, guard=guard
    ) as server:
        assert (await get(server, "/metrics"))[:2] == (403, "not you\n")
        assert (await get(server, "/healthz"))[0] == 200
        url = f"http://{server.host}:{server.port}/metrics"
        headers = {"Authorization": "Bearer x"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            assert answer.status == 200


@virtual_time
async def test_metrics_are_served_with_tls_where_there_is_a_certificate() -> None:
    now = datetime.now(UTC)
    authority = create_authority("ca", now)
    pair = issue_certificate(authority, "metrics", ["127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key_pair(context, pair.certificate, pair.key)
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    async with ObservabilityServer(
        registry=ManagerMetrics().registry, ssl_context=context
    ) as server:
        url = f"https://{server.host}:{server.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trust) as answer:
            assert answer.status == 200


@virtual_time
async def test_the_paths_of_probes_are_those_of_the_configuration() -> None:
    async with ObservabilityServer(health=HealthChecks(liveness="l", readiness="r")) as server:
        assert [(await get(server, path))[0] for path in ("/l", "/r")] == [200, 200]
        assert (await get(server, "/healthz"))[0] == 404


@contextmanager
def loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_a_stuck_event_loop_is_seen_by_the_probe() -> None:
    server = ObservabilityServer(health=HealthChecks())
    stuck = threading.Event()
    with loop_in_a_thread() as loop:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        assert (await get(server, "/healthz"))[0] == 200
        loop.call_soon_threadsafe(stuck.wait)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await get(server, "/healthz")
        stuck.set()
        assert (await get(server, "/healthz"))[0] == 200
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)


@virtual_time
async def test_health_is_ok_or_names_the_checks_that_fail() -> None:
    health = HealthChecks()
    problems: dict[str, str | None] = {"informers": None, "leader": None}
    health.add_live("loop", lambda: None)
    health.add_ready("informers", lambda: problems["informers"])
    health.add_ready("leader", lambda: problems["leader"])
    async with ObservabilityServer(health=health) as server:
        assert (await get(server, "/readyz"))[:2] == (200, "ok")
        assert (await get(server, "/readyz?verbose"))[:2] == (
            200,
            "[+]informers ok\n[+]leader ok\ncheck passed\n",
        )
        problems["informers"] = "pods not synced"
        assert (await get(server, "/readyz"))[:2] == (
            500,
            "[-]informers failed: pods not synced\n[+]leader ok\ncheck failed\n",
        )
        assert (await get(server, "/readyz/leader"))[:2] == (200, "ok")
        assert (await get(server, "/readyz/informers"))[0] == 500
        assert (await get(server, "/readyz/nobody"))[:2] == (404, 'no check "nobody"\n')
        assert (await get(server, "/healthz"))[:2] == (200, "ok")


@virtual_time
async def test_a_check_that_breaks_has_failed() -> None:
    def broken() -> str | None:
        raise RuntimeError("boom")

    health = HealthChecks()
    health.add_live("broken", broken)
    async with ObservabilityServer(health=health) as server:
        assert (await get(server, "/healthz"))[:2] == (
            500,
            "[-]broken failed: RuntimeError: boom\ncheck failed\n",
        )


@virtual_time
async def test_it_serves_until_cancelled() -> None:
    server = ObservabilityServer(health=HealthChecks())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(1)
    assert (await get(server, "/healthz"))[0] == 200
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
