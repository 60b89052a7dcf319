"""A proxy before a real kube-apiserver that counts writes, and makes them slow."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from tests.audited_writes import AuditedWrites
from tests.controlplane.plane import ADMIN_TOKEN, HOST, RealControlPlane

OWN_HEADERS = {"host", "connection", "content-length", "transfer-encoding"}
"""Headers of one connection, which are not handed on."""
START_SECONDS = 30


@contextmanager
def slow_proxy(plane: RealControlPlane, audit: AuditedWrites) -> Iterator[Path]:
    """Run a proxy while the block runs; the value is the administrator's kubeconfig through it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        proxy = _Proxy(plane, audit)
        port = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(START_SECONDS)
        kubeconfig = plane.kubeconfig_for(ADMIN_TOKEN)
        kubeconfig["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{port}"
        path = plane.folder / "slow-kubeconfig"
        path.write_text(json.dumps(kubeconfig))
        try:
            yield path
        finally:
            asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Proxy:
    def __init__(self, plane: RealControlPlane, audit: AuditedWrites) -> None:
        self._plane, self._audit = plane, audit

    async def start(self) -> int:
        """Return the port."""
        folder = self._plane.folder
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._session = ClientSession(
            self._plane.url,
            connector=TCPConnector(ssl=trust, limit=0),
            auto_decompress=False,
            timeout=ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._forward)
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0, ssl_context=own)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method != "GET":
            await self._audit.write(request.raw_path, body)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OWN_HEADERS}
        async with self._session.request(
            request.method, request.raw_path, headers=headers, data=body
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in OWN_HEADERS}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response
