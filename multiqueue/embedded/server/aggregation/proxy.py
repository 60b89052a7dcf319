"""Forwards a request to a backend and streams its answer back."""

from collections.abc import Iterable, Mapping

import aiohttp
import structlog
from aiohttp import web
from multidict import CIMultiDict

from multiqueue.embedded.server.aggregation.backend import (
    Backend,
    Services,
    Unresolved,
    find_address,
)
from multiqueue.embedded.server.aggregation.front_proxy import remote_headers
from multiqueue.embedded.server.aggregation.transport import ProxyTransport, Unreachable
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.kube.failure_words import describe_failure

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",  # codespell:ignore te
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
OURS = frozenset({"authorization", "host", "content-length"})
"""Request headers that are not forwarded: credentials for this server."""
SPOKEN_FOR = ("x-remote-", "impersonate-", "x-forwarded-")
"""Headers that only this server may set; those of clients are dropped."""
UNAVAILABLE = "service unavailable"

log = structlog.get_logger(__name__)


async def forward(
    http: web.BaseRequest,
    user: ApiUser,
    backend: Backend,
    *,
    store: ObjectStore,
    services: Services,
    transport: ProxyTransport,
) -> web.StreamResponse:
    """Forward a request to a backend and return its answer."""
    if not backend.available:
        return refusal(UNAVAILABLE)
    try:
        base = find_address(backend, store, services)
    except Unresolved:
        return refusal(UNAVAILABLE)
    response: web.StreamResponse | None = None
    try:
        async with transport.send(
            backend,
            http.method,
            base + http.rel_url.raw_path_qs,  # the request line may name another host
            headers=[*_passed_on(http), *remote_headers(user)],
            body=_body(http),
        ) as answer:
            response = web.StreamResponse(
                status=answer.status, reason=answer.reason, headers=_returned(answer.headers)
            )
            await response.prepare(http)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
    except (aiohttp.ClientError, OSError, TimeoutError, Unreachable) as error:
        if response is not None and response.prepared:
            # Too late for another answer: cut the connection, as the backend did.
            if http.transport is not None:
                http.transport.abort()
            return response
        log.info("backend not reached", api_service=backend.name, error=str(error))
        return refusal(f"error trying to reach service: {describe_failure(error)}")


def refusal(text: str) -> web.Response:
    """Return a refusal in plain text, as Kubernetes' aggregator does."""
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
    return web.Response(text=text + "\n", status=503, headers=headers)


def _passed_on(http: web.BaseRequest) -> list[tuple[str, str]]:
    dropped = HOP_BY_HOP | OURS | _named_by_connection(http.headers)
    headers = [
        (name, value)
        for name, value in http.headers.items()
        if name.lower() not in dropped and not name.lower().startswith(SPOKEN_FOR)
    ]
    return [
        *headers,
        ("X-Forwarded-For", http.remote or ""),
        ("X-Forwarded-Host", http.host),
        ("X-Forwarded-Proto", http.scheme),
        ("X-Forwarded-Uri", http.rel_url.raw_path),
    ]


def _body(http: web.BaseRequest) -> object:
    return http.content if http.body_exists else None


def _returned(headers: Mapping[str, str]) -> CIMultiDict[str]:
    dropped = HOP_BY_HOP | _named_by_connection(headers)
    pairs: Iterable[tuple[str, str]] = headers.items()
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)


def _named_by_connection(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the hop-by-hop headers that ``Connection`` names."""
    return frozenset(name.strip().lower() for name in headers.get("Connection", "").split(","))
