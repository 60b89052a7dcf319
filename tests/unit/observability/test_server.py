from __future__ import annotations

import asyncio

import aiohttp

from multiqueue.observability.metrics import Metrics
from multiqueue.observability.server import HealthChecks, ObservabilityServer
from tests.virtual_time import virtual_time


async def get(server: ObservabilityServer, path: str) -> tuple[int, str, str]:
    url = f"http://{server.host}:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text(), response.headers["Content-Type"]


@virtual_time
async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    async with ObservabilityServer(registry=Metrics().registry) as server:
        status, text, content_type = await get(server, "/metrics")
        assert (await get(server, "/healthz"))[0] == 404
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "kueue_build_info{" in text


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
