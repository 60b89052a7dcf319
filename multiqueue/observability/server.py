"""Metrics and health over HTTP, for Prometheus and the kubelet.

``/metrics``; ``/healthz`` (is the process sane?) and ``/readyz`` (should it get traffic?) in the
way of the API server: ``ok``, or 500 with a line per check; ``?verbose`` shows the lines in any
case, and ``/readyz/NAME`` asks one check. Metrics can be kept from strangers by TLS and a guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import Handler, HttpServer

Check = Callable[[], str | None]
"""Says what is wrong, or None; must not block."""


@dataclass(frozen=True, slots=True)
class MetricsRefusal:
    """Why somebody does not get what they asked for."""

    status: int
    """Of HTTP."""
    reason: str


Guard = Callable[[str, str], Awaitable[MetricsRefusal | None]]
"""Says why an ``Authorization`` header (or "") does not open a path, or None."""


class HealthChecks:
    """Named checks of liveness and readiness.

    Args:
        liveness: Path of the checks of liveness, without the slash.
        readiness: Likewise of readiness.
    """

    def __init__(self, *, liveness: str = "healthz", readiness: str = "readyz") -> None:
        self.live_path = f"/{liveness}"
        self.ready_path = f"/{readiness}"
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
        ssl_context: Serve with TLS.
        guard: Keeps the metrics from strangers; health tells no secrets.
    """

    name = "observability"

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        registry: CollectorRegistry | None = None,
        health: HealthChecks | None = None,
        ssl_context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._server = HttpServer(
            build_handler(registry, health, guard), host=host, port=port, context=ssl_context
        )

    @property
    def host(self) -> str:
        """Address that is listened on."""
        return self._server.host

    @property
    def port(self) -> int:
        """Port that is listened on, once started."""
        return self._server.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to listen."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop to listen."""
        await self._server.stop()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self)
            await asyncio.Event().wait()


def build_handler(
    registry: CollectorRegistry | None, health: HealthChecks | None, guard: Guard | None
) -> Handler:
    """Return the handler of all paths."""

    async def handle(request: HttpRequest) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET,HEAD"})
        if registry is not None and request.path == "/metrics":
            return await _show_metrics(request, registry, guard)
        if health is not None:
            path, _, name = request.path.removeprefix("/").partition("/")
            if f"/{path}" == health.live_path:
                return _tell_health(request, health.live(), name)
            if f"/{path}" == health.ready_path:
                return _tell_health(request, health.ready(), name)
        return web.Response(status=404, text="404: Not Found")

    return handle


async def _show_metrics(
    request: HttpRequest, registry: CollectorRegistry, guard: Guard | None
) -> web.Response:
    if guard is not None:
        refusal = await guard(request.headers.get("Authorization", ""), request.path)
        if refusal is not None:
            return web.Response(status=refusal.status, text=f"{refusal.reason}\n")
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    # Thousands of queues make megabytes of text; the loop has better things to do.
    body = await asyncio.to_thread(encode, registry)
    return web.Response(body=body, headers={"Content-Type": content_type})


def _tell_health(request: HttpRequest, results: dict[str, str | None], name: str) -> web.Response:
    if name:
        if name not in results:
            return web.Response(status=404, text=f'no check "{name}"\n')
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


def _run(checks: dict[str, Check]) -> dict[str, str | None]:
    results: dict[str, str | None] = {}
    for name, check in checks.items():
        try:
            results[name] = check()
        except Exception as error:  # noqa: BLE001 - a check that breaks has failed
            results[name] = f"{type(error).__name__}: {error}"
    return results
