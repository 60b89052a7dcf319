"""A worker whose API server belongs to somebody hostile, over TLS as the manager demands."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from tests.abuse.fleet import Object
from tests.unit.kube.certificates import authority, server_context

HOST = "127.0.0.1"
TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6.eyJzdWIiOiJtdWx0aXF1ZXVlIn0.c2VjcmV0LXNpZ25hdHVyZQ"
CHUNK = b"x" * (1 << 20)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def hostile_worker(handle: Handler) -> AsyncIterator[Object]:
    """Serve what the handler answers, and give the kubeconfig that leads there."""
    ca = authority("hostile")
    with tempfile.TemporaryDirectory() as folder:
        context = server_context(ca.issue("api", HOST), Path(folder))
    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        yield _kubeconfig(f"https://{HOST}:{runner.addresses[0][1]}", ca.pem)
    finally:
        await runner.cleanup()


def json_answer(obj: object, *, status: int = 200) -> web.Response:
    """Answer an object."""
    return web.json_response(obj, status=status)


async def flood(request: web.BaseRequest, start: bytes, *, status: int = 200) -> web.StreamResponse:
    """Answer without end; 1.5 GB is the end."""
    response = web.StreamResponse(status=status)
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        await response.write(start)
        for _ in range(1500):
            if request.transport is None or request.transport.is_closing():
                break
            await response.write(CHUNK)
    return response


async def answer_as_a_worker(request: web.BaseRequest) -> web.StreamResponse:
    """Answer what a worker without anything would."""
    if request.query.get("watch"):
        response = web.StreamResponse()
        await response.prepare(request)
        return response
    last = request.path.rpartition("/")[2]
    if last == "kube-system":
        return json_answer({"metadata": {"name": last, "uid": "of-the-hostile-worker"}})
    return json_answer({"metadata": {"resourceVersion": "1"}, "items": []})


def _kubeconfig(server: str, ca: bytes) -> Object:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hostile",
        "contexts": [{"name": "hostile", "context": {"cluster": "hostile", "user": "manager"}}],
        "clusters": [{"name": "hostile", "cluster": cluster}],
        "users": [{"name": "manager", "user": {"token": TOKEN}}],
    }
