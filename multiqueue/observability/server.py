"""Metrics and health over HTTP, for Prometheus and the kubelet.

``/metrics``; ``/healthz`` (is the process sane?) and ``/readyz`` (should it get traffic?) in the
way of the API server: ``ok``, or 500 with a line per check; ``?verbose`` shows the lines in any
case, and ``/readyz/NAME`` asks one check.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Check = Callable[[], str | None]
"""Says what is wrong, or None; must not block."""


class HealthChecks:
    """Named checks of liveness and readiness."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a check of ``/healthz``: where it fails for long, the process should be restarted."""
        self._live[name] = check

    def add_ready(self, name: str, check: Check) -> None:
        """Add a check of ``/readyz``: where it fails, others should not rely on us now."""
        self._ready[name] = check

    def live(self) -> dict[str, str | None]:
        """Return what is wrong, or None, by check of liveness."""
        return _run(self._live)

    def ready(self) -> dict[str, str | None]:
        """Return what is wrong, or None, by check of readiness."""
        return _run(self._ready)


class ObservabilityServer:
    """Serves metrics, health, or both, until cancelled.

    Args:
        host: Address to listen on.
        port: Port; 0 takes a free one, then `port` tells which.
        registry: Serve these metrics.
        health: Serve these checks.
    """

    name = "observability"

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        registry: CollectorRegistry | None = None,
        health: HealthChecks | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._runner = web.AppRunner(build_app(registry, health), access_log=None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to listen."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop to listen."""
        await self._runner.cleanup()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self)
            await asyncio.Event().wait()


def build_app(registry: CollectorRegistry | None, health: HealthChecks | None) -> web.Application:
    """Return the application, for who serves it together with other things."""
    app = web.Application()
    if registry is not None:
        app.router.add_get("/metrics", _metrics_handler(registry))
    if health is not None:
        for path, checks in (("/healthz", health.live), ("/readyz", health.ready)):
            app.router.add_get(path, _health_handler(checks))
            app.router.add_get(path + "/{name}", _health_handler(checks))
    return app


def _metrics_handler(registry: CollectorRegistry) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        # Thousands of queues make megabytes of text; the loop has better things to do.
        body = await asyncio.to_thread(encode, registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle


def _health_handler(checks: Callable[[], dict[str, str | None]]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        results = checks()
        name = request.match_info.get("name")
        if name is not None:
            if name not in results:
                raise web.HTTPNotFound(text=f'no check "{name}"\n')
            results = {name: results[name]}
        failed = [problem for problem in results.values() if problem is not None]
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[+]{check} ok" if problem is None else f"[-]{check} failed: {problem}"
            for check, problem in results.items()
        ]
        lines.append("check failed" if failed else "check passed")
        return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)

    return handle


def _run(checks: dict[str, Check]) -> dict[str, str | None]:
    results: dict[str, str | None] = {}
    for name, check in checks.items():
        try:
            results[name] = check()
        except Exception as error:  # noqa: BLE001 - a check that breaks has failed
            results[name] = f"{type(error).__name__}: {error}"
    return results
