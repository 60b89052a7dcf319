"""What the page asks of its own server: its files, its questions to the API server, its actions.

The page is the same wherever it is served, and asks for the same paths. They are forwarded with the
credentials of the reader, which never reach the browser. Who may ask is decided before: `Gateway`
on the reader's machine, `DashboardServer` beside the manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from multiqueue.api.names import DEFAULT_NAMESPACE
from multiqueue.dashboard.actions import ChangedMeanwhileError, PageActions
from multiqueue.dashboard.door import SameOrigin, check_action
from multiqueue.dashboard.forwarding import is_question, is_readable, is_stream
from multiqueue.dashboard.page_actions import UnknownActionError
from multiqueue.dashboard.sending import SEND_SECONDS, sending
from multiqueue.dashboard.site import Site
from multiqueue.dashboard.usage import MonthlyUsage, read_question
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.errors import ApiError, KubeError
from multiqueue.serving.request import HttpRequest

POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
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


EXPIRED = (
    b'event: end\ndata: {"code":"expired","text":"the credentials are not valid any more"}\n\n'
)
"""The last frame of a feed whose reader has to log in again, as the fleet API words it."""


class StreamOver(Exception):  # noqa: N818 - a fact, which ends a stream
    """A stream ends here: the credentials have ``expired``, or the server stops."""

    def __init__(self, *, expired: bool) -> None:
        super().__init__()
        self.expired = expired


async def _tell_nobody(request: HttpRequest, status: int) -> None:
    """Log nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Who asks, and with which rights.

    Attributes:
        client: A client with the credentials of the reader.
        about: What ``about.json`` says: ``context``, ``namespace``, ``demo``; ``login`` if there
            was one.
        action: What the page sends with each action; empty: the reader has no actions.
        acts: Whether actions are taken; `action` alone is for the logout.
        valid: A context that raises `StreamOver` in its block when a stream has to end.
        acting: A context of each action; it may refuse one.
        tell: Called with the request of each action and the status of its answer.
        send_seconds: How long the reader may take to read a part of a stream.
        feeds: A client with the same credentials for feeds; None: `client`.
        system_namespace: The manager's namespace.
    """

    client: KubeClient
    about: Mapping[str, Any]
    action: str
    acts: bool = True
    valid: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    acting: Callable[[], AbstractContextManager[None]] = nullcontext
    tell: Callable[[HttpRequest, int], Awaitable[None]] = _tell_nobody
    send_seconds: float = SEND_SECONDS
    feeds: KubeClient | None = None
    system_namespace: str = DEFAULT_NAMESPACE


class PageAnswers:
    """Answers the requests of one listener.

    Args:
        clock: The time of day.
        origin: Says which requests this page sent.
        base: The path before all paths, as browsers see it; may be empty.
    """

    def __init__(self, clock: Clock, origin: SameOrigin, base: str = "") -> None:
        self._clock = clock
        self._origin = origin
        self._site = Site(base)
        self._fleets = asyncio.Semaphore(1)
        """One answer at a time reads the Workloads of a fleet: a manager has this memory only."""
        self._actions: set[asyncio.Task[web.Response]] = set()

    async def finish(self, until: float) -> None:
        """Wait for the actions in progress, also those whose readers have left.

        Args:
            until: The time of the event loop when to give up.
        """
        if self._actions:
            left = until - asyncio.get_running_loop().time()
            await asyncio.wait(self._actions, timeout=max(left, 0.0))

    def find_file(self, path: str) -> web.Response | None:
        """Return the page or one of its files; these have nothing of the cluster."""
        found = self._site.get(path)
        if found is None:
            return None
        kept = {"Cache-Control": KEPT} if found.immutable else {}
        return build_answer(200, found.body, **{"Content-Type": found.content_type}, **kept)

    async def answer(self, request: HttpRequest, reader: PageReader) -> web.StreamResponse:
        """Answer a reader who was let in."""
        path = request.rel_url.raw_path
        if request.method == "POST" and path == ACTIONS:
            action = asyncio.create_task(self._answer_action(request, reader), name="page action")
            self._actions.add(action)
            action.add_done_callback(self._actions.discard)
            return await asyncio.shield(action)  # it goes on if the reader leaves
        if request.method == "POST" and is_question(path):
            return await self._answer_sent(request, path, reader)
        if request.method != "GET":
            return build_status(
                405, "MethodNotAllowed", "this page sends questions and actions only"
            )
        return self.find_file(request.path) or await self._get(request, path, reader)

    async def _get(self, request: HttpRequest, path: str, reader: PageReader) -> web.StreamResponse:
        if request.path == "/about.json":
            sends: dict[str, Any] = {"action": reader.action} if reader.action else {}
            looks = {} if reader.acts else {"acts": False}
            return build_answer(200, orjson.dumps({**reader.about, **sends, **looks}))
        try:
            if path == ACTIONS and reader.action and reader.acts:
                described = await self._actions_of(reader).describe(request.query)
                return build_answer(200, orjson.dumps(described))
            if path in {"/usage.json", "/usage.csv"}:
                return await self._describe_usage(request, reader, as_csv=path.endswith("csv"))
            if not is_readable(path):
                return build_status(
                    404, "NotFound", f"{path[:200]} is nothing that the page may read"
                )
            return await _forward(request, path, reader)
        except UnknownActionError as error:
            return build_status(400, "BadRequest", str(error))
        except KubeError as error:
            return _explain(error)

    async def _answer_action(self, request: HttpRequest, reader: PageReader) -> web.Response:
        with reader.acting():
            answer = await self._answer_sent(request, ACTIONS, reader)
            await reader.tell(request, answer.status)
        return answer

    async def _answer_sent(
        self, request: HttpRequest, path: str, reader: PageReader
    ) -> web.Response:
        """Pass a what-if on, or take an action. The origin is checked once more."""
        refusal = self._origin.check_sent(request.headers, request.content_type)
        if refusal is None and path == ACTIONS:
            refusal = check_action(request.headers, reader.action)
        if refusal is not None:
            return build_status(403, "Forbidden", refusal.text)
        if path == ACTIONS and not reader.acts:
            return build_status(403, "Forbidden", "dashboard.actions: this page has no actions")
        try:
            body = orjson.loads(await request.read())
            if path == ACTIONS:
                return await self._act(body, reader)
            answer = await reader.client.request("POST", path, body=body, timeout=QUESTION_SECONDS)
        except orjson.JSONDecodeError as error:
            return build_status(400, "BadRequest", f"the body cannot be read: {error}")
        except web.HTTPRequestEntityTooLarge:
            return build_status(413, "RequestEntityTooLarge", f"limit is {MAX_QUESTION} bytes")
        except KubeError as error:
            return _explain(error)
        return build_answer(200, answer.body)

    async def _act(self, asked: object, reader: PageReader) -> web.Response:
        if not isinstance(asked, dict):
            return build_status(400, "BadRequest", "the body must be an object")
        try:
            return build_answer(200, orjson.dumps(await self._actions_of(reader).act(asked)))
        except UnknownActionError as error:
            return build_status(400, "BadRequest", str(error))
        except ChangedMeanwhileError as error:
            return build_status(409, "Conflict", str(error))

    def _actions_of(self, reader: PageReader) -> PageActions:
        return PageActions(reader.client, self._clock.now, self._fleets, reader.system_namespace)

    async def _describe_usage(
        self, request: HttpRequest, reader: PageReader, *, as_csv: bool
    ) -> web.Response:
        now = self._clock.now().replace(microsecond=0)
        try:
            question = read_question(request.query, now)
        except ValueError as error:
            return build_status(400, "BadRequest", str(error))
        usage = MonthlyUsage(question, now)
        async with self._fleets:
            await usage.read(reader.client, reader.about.get("namespace", ""))
            if not as_csv:
                return build_answer(200, orjson.dumps(usage.describe()))
            headers = {
                "Content-Type": "text/csv; charset=utf-8",
                "Content-Disposition": f'attachment; filename="{usage.file_name}"',
            }
            return build_answer(200, usage.as_csv().encode(), **headers)


async def _forward(request: HttpRequest, path: str, reader: PageReader) -> web.StreamResponse:
    headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    query = dict(request.query)
    if is_stream(path, query):
        return await _stream(request, f"{path}?{urlencode(query)}", headers, reader)
    answer = await reader.client.request(
        "GET", path, params=query, accept=headers.get("Accept", "application/json")
    )
    return build_answer(answer.status, answer.body)


async def _stream(
    request: HttpRequest, target: str, headers: dict[str, str], reader: PageReader
) -> web.StreamResponse:
    is_feed = request.rel_url.raw_path.endswith("/feeds")
    client = reader.feeds if is_feed and reader.feeds is not None else reader.client
    response = web.StreamResponse(
        headers={**POLICY, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    )
    try:
        async with (
            reader.valid(),
            aclosing(client.stream(target, headers=headers)) as chunks,
        ):
            async for chunk in chunks:
                if not response.prepared:
                    await response.prepare(request)
                if chunk:
                    async with sending(request, reader.send_seconds):
                        await response.write(chunk)
    except StreamOver as over:
        if not response.prepared:
            code, reason = (401, "Unauthorized") if over.expired else (503, "ServiceUnavailable")
            return build_status(code, reason, "the stream is over")
        if over.expired and is_feed:
            with suppress(ConnectionError):
                async with sending(request, reader.send_seconds):
                    await response.write(EXPIRED)
    except ConnectionError:
        if not response.prepared:
            raise
    return response


def build_answer(status: int, body: bytes, **headers: str) -> web.Response:
    """Return an answer with the headers of all answers; JSON unless ``headers`` say otherwise."""
    defaults = {**POLICY, "Content-Type": "application/json"}
    return web.Response(status=status, body=body, headers={**defaults, **headers})


def _explain(error: KubeError) -> web.Response:
    if isinstance(error, ApiError):
        return build_status(error.status, error.reason, error.server_message or str(error))
    return build_status(502, "Unreachable", f"the API server does not answer: {error}")


def build_status(code: int, reason: str, message: str) -> web.Response:
    """Return an error as the API server words one."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return build_answer(code, orjson.dumps(document))
