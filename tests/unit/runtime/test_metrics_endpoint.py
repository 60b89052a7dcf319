"""How metrics are served, and to whom."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from cryptography import x509

from multiqueue.api.config import build_configuration
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.runtime.metrics_endpoint import (
    MAX_ASKING,
    REREAD_SECONDS,
    MetricsAccess,
    MetricsEndpoint,
    is_loopback,
)
from tests.unit.kube.scripted_server import ScriptedServer, html
from tests.virtual_time import LoopClock, virtual_time

READER = "system:serviceaccount:monitoring:prometheus-k8s"
TOKENS = {"reads": READER, "other": "system:serviceaccount:default:default"}


class Reviews(ScriptedServer):
    """An API server that knows two tokens, one of which may read metrics."""

    def __init__(self) -> None:
        super().__init__(self.answer)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        spec: Mapping[str, Any] = self.seen[-1].json["spec"]
        if request.path.endswith("/tokenreviews"):
            name = TOKENS.get(spec["token"])
            user = {"username": name, "groups": ["system:serviceaccounts"]}
            status = {"authenticated": name is not None, "user": user if name else {}}
        else:
            assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
            assert "system:serviceaccounts" in spec["groups"]
            status = {"allowed": spec["user"] == READER}
        return web.Response(body=orjson.dumps({"status": status}))


@pytest.mark.parametrize(
    ("authorization", "want"),
    [
        ("Bearer reads", None),
        ("Bearer other", 403),
        ("Bearer unknown", 401),
        ("Bearer ", 401),
        ("Basic cmVhZHM=", 401),
        ("", 401),
    ],
)
@virtual_time
async def test_whoever_may_read_metrics_is_let_in(authorization: str, want: int | None) -> None:
    async with Reviews() as server, server.client() as client:
        refusal = await MetricsAccess(client).check(authorization, "/metrics")
    assert (refusal.status if refusal else None) == want


@virtual_time
async def test_nobody_is_let_in_where_the_api_server_does_not_answer() -> None:
    async with ScriptedServer(html(500)) as server, server.client() as client:
        refusal = await MetricsAccess(client).check("Bearer reads", "/metrics")
    assert refusal is not None
    assert refusal.status == 500


@virtual_time
async def test_a_scraper_does_not_cost_requests_for_every_scrape() -> None:
    async with Reviews() as server, server.client() as client:
        access = MetricsAccess(client)
        for _ in range(5):
            assert await access.check("Bearer reads", "/metrics") is None
        assert len(server.seen) == 2


@virtual_time
async def test_strangers_do_not_fill_the_line_to_the_api_server() -> None:
    async with Reviews() as server, server.client() as client:
        access = MetricsAccess(client)
        checks = (access.check(f"Bearer {i}", "/metrics") for i in range(3 * MAX_ASKING))
        statuses = [refusal.status for refusal in await asyncio.gather(*checks) if refusal]
    assert statuses.count(401) == MAX_ASKING
    assert statuses.count(503) == 2 * MAX_ASKING


def endpoint(
    client: Any, host: str = "0.0.0.0", *, folder: Path = Path("/nowhere")
) -> MetricsEndpoint:
    config = build_configuration({"internalCertManagement": {"enable": folder == Path("/nowhere")}})
    return MetricsEndpoint(
        config,
        (host, 0),
        ManagerMetrics().registry,
        client=client,
        clock=LoopClock(datetime.now(UTC)),
        certificates=folder,
    )


async def scrape(port: int, *, token: str = "", scheme: str = "https") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{scheme}://127.0.0.1:{port}/metrics", headers=headers, ssl=False) as answer,
    ):
        return answer.status


@virtual_time
async def test_an_address_that_others_reach_is_served_with_tls_to_those_who_may() -> None:
    async with Reviews() as reviews, reviews.client() as client:
        metrics = endpoint(client)
        async with metrics.server as server:
            assert await scrape(server.port) == 401
            assert await scrape(server.port, token="other") == 403
            assert await scrape(server.port, token="reads") == 200
            with pytest.raises(aiohttp.ClientError):
                await scrape(server.port, scheme="http")


@virtual_time
async def test_a_loopback_address_is_served_plainly() -> None:
    async with Reviews() as reviews, reviews.client() as client:
        async with endpoint(client, "127.0.0.1").server as server:
            assert await scrape(server.port, scheme="http") == 200
        assert reviews.seen == []


@pytest.mark.parametrize(
    ("host", "want"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("", False), ("0.0.0.0", False)],
)
def test_which_addresses_only_this_machine_reaches(host: str, *, want: bool) -> None:
    assert is_loopback(host) is want


async def shown(port: int) -> str:
    """The subject of the certificate that a server shows."""

    def read() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=5)

    certificate = x509.load_pem_x509_certificate((await asyncio.to_thread(read)).encode())
    return certificate.subject.rfc4514_string()


@virtual_time
async def test_our_own_certificate_names_the_service() -> None:
    async with Reviews() as reviews, reviews.client() as client, endpoint(client).server as server:
        name = "kueue-controller-manager-metrics-service.kueue-system.svc"
        assert await shown(server.port) == f"CN={name}"


@virtual_time
async def test_a_certificate_that_somebody_else_keeps_is_read_again(tmp_path: Path) -> None:
    def keep(name: str) -> None:
        now = datetime.now(UTC)
        pair = issue_certificate(create_authority("ca", now), name, [name], now)
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    keep("first")
    async with Reviews() as reviews, reviews.client() as client:
        metrics = endpoint(client, folder=tmp_path)
        task = asyncio.ensure_future(metrics.run())
        async with metrics.server as server:
            assert await shown(server.port) == "CN=first"
            (tmp_path / "tls.crt").write_text("half of a file")
            await asyncio.sleep(REREAD_SECONDS + 1)
            assert await shown(server.port) == "CN=first"
            keep("second")
            await asyncio.sleep(REREAD_SECONDS)
            assert await shown(server.port) == "CN=second"
        task.cancel()
        await asyncio.wait({task})
