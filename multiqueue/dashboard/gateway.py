"""The dashboard on this machine: the page, and its requests to the API server with a kubeconfig.

The page is the same wherever it is served, and asks for the same paths. Here these are forwarded
with the credentials of the kubeconfig, which never reach the browser.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Self
from urllib.parse import urlencode

import orjson
from aiohttp import web

from multiqueue.dashboard.actions import ChangedMeanwhileError, PageActions
from multiqueue.dashboard.door import Door
from multiqueue.dashboard.forwarding import is_question, is_readable, is_stream
from multiqueue.dashboard.page_actions import UnknownActionError
from multiqueue.dashboard.site import Site
from multiqueue.dashboard.usage import MonthlyUsage, read_question
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.errors import ApiError, KubeError
from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import Bounds, HttpServer

HOST = "127.0.0.1"
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""
KEPT = "public, max-age=31536000, immutable"
MAX_QUESTION = 64 * 1024
"""Bytes of a what-if, as the manager takes them."""
QUESTION_SECONDS = 30.0
"""How long a what-if may take; the manager gives up earlier."""
ACTIONS = "/actions.json"
"""GET says what can be done with an object, POST does it."""
PASSED_ON = ("Accept", "Last-Event-ID")
"""Headers of the browser that the API server gets."""


class Gateway:
    """Serves one reader; the reader's rights are those of the client.

    Args:
        client: A client of the manager's cluster.
        about: What the page says about itself: ``context``, ``namespace`` and ``demo``.
        port: The port to listen on; 0 takes a free one.
        read_only: Whether the page has no actions.
    """

    def __init__(
        self,
        client: KubeClient,
        about: Mapping[str, Any],
        *,
        port: int = 0,
        read_only: bool = False,
    ) -> None:
        self._client = client
        self._about = dict(about)
        self._clock = SystemClock()
        self._actions = None if read_only else PageActions(client, self._clock.now)
        self._site = Site()
        self._server = HttpServer(
            self._answer,
            host=HOST,
            port=port,
            bounds=Bounds(connections=64, body_bytes=MAX_QUESTION),
        )
        self._door = Door(port)

    @property
    def address(self) -> str:
        """The address to open, with the key."""
        return f"http://{HOST}:{self._server.port}/?key={self._door.key}"

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            OSError: the port is taken.
        """
        await self._server.start()
        self._door = Door(self._server.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and end all streams."""
        await self._server.stop()

    async def _answer(self, request: HttpRequest) -> web.StreamResponse:
        door = self._door
        refusal = door.check_origin(request.headers)
        if refusal is None and request.path == "/" and door.has_key(request.query.get("key")):
            return _build(303, b"", Location="/", **{"Set-Cookie": door.cookie})
        refusal = refusal or door.check(request.headers, request.cookies)
        if refusal is not None:
            return _status(403, "Forbidden", refusal.text)
        path = request.rel_url.raw_path
        if request.method == "POST" and (is_question(path) or path == ACTIONS):
            return await self._answer_sent(request, path)
        if request.method != "GET":
            return _status(405, "MethodNotAllowed", "this page sends questions and actions only")
        return await self._get(request, path)

    async def _get(self, request: HttpRequest, path: str) -> web.StreamResponse:
        if request.path == "/about.json":
            sends = {} if self._actions is None else {"action": self._door.action}
            return _build(200, orjson.dumps({**self._about, **sends}))
        found = self._site.get(request.path)
        if found is not None:
            kept = {"Cache-Control": KEPT} if found.immutable else {}
            return _build(200, found.body, **{"Content-Type": found.content_type}, **kept)
        try:
            if path == ACTIONS and self._actions is not None:
                return _build(200, orjson.dumps(await self._actions.describe(request.query)))
            if path in {"/usage.json", "/usage.csv"}:
                return await self._describe_usage(request, as_csv=path.endswith("csv"))
            if not is_readable(path):
                return _status(404, "NotFound", f"{path[:200]} is nothing that the page may read")
            return await self._forward(request, path)
        except UnknownActionError as error:
            return _status(400, "BadRequest", str(error))
        except KubeError as error:
            return _explain(error)

    async def _answer_sent(self, request: HttpRequest, path: str) -> web.Response:
        """Pass a what-if on, or take an action. The origin is checked once more."""
        refusal = self._door.check_sent(request.headers, request.content_type)
        if refusal is None and path == ACTIONS:
            refusal = self._door.check_action(request.headers)
        if refusal is not None:
            return _status(403, "Forbidden", refusal.text)
        try:
            body = orjson.loads(await request.read())
            if path == ACTIONS:
                return await self._act(body)
            answer = await self._client.request("POST", path, body=body, timeout=QUESTION_SECONDS)
        except orjson.JSONDecodeError as error:
            return _status(400, "BadRequest", f"the body cannot be read: {error}")
        except web.HTTPRequestEntityTooLarge:
            return _status(413, "RequestEntityTooLarge", f"limit is {MAX_QUESTION} bytes")
        except KubeError as error:
            return _explain(error)
        return _build(200, answer.body)

    async def _act(self, asked: object) -> web.Response:
        if self._actions is None:
            return _status(403, "Forbidden", "the dashboard was started with --read-only")
        if not isinstance(asked, dict):
            return _status(400, "BadRequest", "the body must be an object")
        try:
            return _build(200, orjson.dumps(await self._actions.act(asked)))
        except UnknownActionError as error:
            return _status(400, "BadRequest", str(error))
        except ChangedMeanwhileError as error:
            return _status(409, "Conflict", str(error))

    async def _describe_usage(self, request: HttpRequest, *, as_csv: bool) -> web.Response:
        now = self._clock.now().replace(microsecond=0)
        try:
            question = read_question(request.query, now)
        except ValueError as error:
            return _status(400, "BadRequest", str(error))
        usage = MonthlyUsage(question, now)
        await usage.read(self._client, self._about.get("namespace", ""))
        if not as_csv:
            return _build(200, orjson.dumps(usage.describe()))
        headers = {
            "Content-Type": "text/csv; charset=utf-8",
            "Content-Disposition": f'attachment; filename="{usage.file_name}"',
        }
        return _build(200, usage.as_csv().encode(), **headers)

    async def _forward(self, request: HttpRequest, path: str) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        query = dict(request.query)
        if is_stream(path, query):
            return await self._stream(request, path, query, headers)
        answer = await self._client.request(
            "GET", path, params=query, accept=headers.get("Accept", "application/json")
        )
        return _build(answer.status, answer.body)

    async def _stream(
        self, request: HttpRequest, path: str, query: dict[str, str], headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={**POLICY, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        target = f"{path}?{urlencode(query)}"
        async with aclosing(self._client.stream(target, headers=headers)) as chunks:
            async for chunk in chunks:
                if not response.prepared:
                    await response.prepare(request)
                if chunk:
                    await response.write(chunk)
        return response


def _build(status: int, body: bytes, **headers: str) -> web.Response:
    defaults = {**POLICY, "Content-Type": "application/json"}
    return web.Response(status=status, body=body, headers={**defaults, **headers})


def _explain(error: KubeError) -> web.Response:
    if isinstance(error, ApiError):
        return _status(error.status, error.reason, error.server_message or str(error))
    return _status(502, "Unreachable", f"the API server does not answer: {error}")


def _status(code: int, reason: str, message: str) -> web.Response:
    """Return an error as the API server words one."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return _build(code, orjson.dumps(document))
