"""Requests of the aggregator to backends, and what it makes of strange ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from multiqueue.embedded.server.aggregation.backend import read_backend
from multiqueue.embedded.server.aggregation.front_proxy import FrontProxy, create_proxy_authority
from multiqueue.embedded.server.aggregation.transport import ProxyTransport
from multiqueue.embedded.server.server import ApiServer, ServerOptions

API_SERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.g.example.com"},
    "spec": {
        "group": "g.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "backend", "port": 443},
    },
}
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ROOT = "/apis/g.example.com/v1"
STREAMS = 101
"""One more than an HTTP client opens if nobody says otherwise."""


class Http:
    """A backend without TLS that notes who asked what."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        self.documents: dict[str, Any] = {ROOT: {"resources": []}}
        self.end = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path_qs, request.headers.get("Cookie", "")))
        if request.path.endswith("/stream"):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"begun")
            await self.end.wait()
            return response
        document = self.documents.get(request.path, {"kind": "Thing"})
        headers = {"Set-Cookie": "session=of-alice; Path=/"}
        return web.Response(body=orjson.dumps(document), headers=headers)


@pytest.fixture
async def backend() -> AsyncIterator[Http]:
    found = Http()
    runner = web.ServerRunner(web.Server(found.answer), shutdown_timeout=0)  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0)
    await site.start()
    found.url = f"http://localhost:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@pytest.fixture
async def transport() -> AsyncIterator[ProxyTransport]:
    now = datetime.now(UTC)
    found = ProxyTransport(FrontProxy(create_proxy_authority(now), now).pair)
    yield found
    await found.close()


async def test_no_cookie_of_one_user_is_sent_for_another(
    backend: Http, transport: ProxyTransport
) -> None:
    service = read_backend(API_SERVICE)
    assert service is not None
    for user in ("alice", "bob"):
        headers = [("X-Remote-User", user)]
        async with transport.send(service, "GET", f"{backend.url}/x", headers=headers) as answer:
            assert answer.status == 200
    assert [cookie for _, cookie in backend.asked] == ["", ""]


async def test_watches_keep_no_request_waiting(backend: Http, transport: ProxyTransport) -> None:
    service = read_backend(API_SERVICE)
    assert service is not None
    async with AsyncExitStack() as streams:
        for _ in range(STREAMS):
            stream = transport.send(service, "GET", f"{backend.url}/stream", headers=[])
            answer = await streams.enter_async_context(stream)
            assert await answer.content.readany() == b"begun"
        async with transport.send(
            service, "GET", f"{backend.url}/x", headers=[], seconds=30
        ) as answer:
            assert answer.status == 200
        backend.end.set()


@pytest.fixture
async def aggregating(backend: Http) -> AsyncIterator[tuple[ApiServer, aiohttp.ClientSession]]:
    """A server that knows the backend, and a client of its administrator."""
    services = {("default", "backend"): backend.url}
    async with ApiServer(ServerOptions(tls=False, services=services)) as server:
        token = server.kubeconfig()["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield server, session


async def register(server: ApiServer, session: aiohttp.ClientSession) -> None:
    """Returns once it is available."""
    async with session.get(f"{server.url}{SERVICES}?watch=true") as watch:
        async with session.post(f"{server.url}{SERVICES}", json=API_SERVICE) as answer:
            assert answer.status == 201
        async for line in watch.content:
            found = orjson.loads(line)["object"]
            conditions = found.get("status", {}).get("conditions", [])
            if found["spec"].get("service") and conditions:
                assert conditions[0]["status"] == "True", conditions
                return


async def test_a_request_line_cannot_name_another_backend(
    backend: Http, aggregating: tuple[ApiServer, aiohttp.ClientSession]
) -> None:
    server, session = aggregating
    await register(server, session)
    async with session.get(f"http://elsewhere.example{ROOT}/x?a=b", proxy=server.url) as answer:
        assert (answer.status, await answer.json(content_type=None)) == (200, {"kind": "Thing"})
    assert backend.asked[-1][0] == f"{ROOT}/x?a=b"


@pytest.mark.parametrize(
    "documents",
    [
        {ROOT: {"resources": [{}]}},
        {ROOT: {"resources": "many"}},
        {"/apis": {"kind": "APIGroupDiscoveryList", "items": [1]}},
        {"/openapi/v3": {"paths": ["a"]}},
    ],
    ids=["a resource without a name", "no list", "no items", "no paths"],
)
async def test_a_backend_with_strange_documents_is_available_all_the_same(
    backend: Http, aggregating: tuple[ApiServer, aiohttp.ClientSession], documents: Any
) -> None:
    backend.documents.update(documents)
    server, session = aggregating
    await register(server, session)
    async with session.get(f"{server.url}{ROOT}/x") as answer:
        assert answer.status == 200
