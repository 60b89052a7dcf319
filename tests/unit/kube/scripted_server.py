"""An HTTP server that answers as a test says, misbehaving included."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

import orjson
from aiohttp import web

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request that arrived, and when."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


class ScriptedServer:
    """Gives the answers of a script in order; the last one again and again.

    Lists, watches and all else have scripts of their own, so that a test can say what each gets.
    If it has watches, whoever lists one object only wants to know its version, which is `version`,
    and gets it unless `probe` is given.
    """

    version = 0
    probe: Answer | None = None

    def __init__(
        self,
        *answers: Answer,
        lists: list[Answer] | None = None,
        watches: list[Answer] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.seen: list[Seen] = []
        self._scripts = {
            "other": list(answers),
            "list": lists if lists is not None else list(answers),
            "watch": watches or [hang()],
        }
        self._is_watched = watches is not None
        self._ssl = ssl_context
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None, handler_cancellation=True),
            shutdown_timeout=0.1,
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._ssl).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    @property
    def lists(self) -> list[Seen]:
        return [s for s in self.seen if not s.is_watch]

    @property
    def watches(self) -> list[Seen]:
        return [s for s in self.seen if s.is_watch]

    def client(self, **options: Any) -> KubeClient:
        return KubeClient(Credentials.static(self.url, token="s3cret"), **options)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=dict(request.headers),
            body=await request.read(),
            at=asyncio.get_running_loop().time(),
        )
        if self._is_watched and seen.query.get("limit") == "1":
            return await (self.probe or pod_list(self.version))(request)  # type: ignore[arg-type]
        self.seen.append(seen)
        last = request.path.rsplit("/", 1)[-1]
        is_list = request.method == "GET" and last.endswith("s")
        script = self._scripts["watch" if seen.is_watch else "list" if is_list else "other"]
        answer = script.pop(0) if len(script) > 1 else script[0]
        return await answer(request)  # type: ignore[arg-type]


def json_answer(obj: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(
            body=orjson.dumps(obj),
            status=status,
            headers={"Content-Type": "application/json", **(headers or {})},
        )

    return answer


def status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """An error as the API server words it."""
    return json_answer(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details},
        status=code,
        headers=headers,
    )


def html(code: int, text: str = "<html>\n<h1>Bad gateway</h1>\n</html>") -> Answer:
    """An error as a proxy words it."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=code, content_type="text/html")

    return answer


def hang() -> Answer:
    """Never answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def drop() -> Answer:
    """Close the connection instead of answering."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def stream(*chunks: bytes, then: str = "close", gap: float = 0.0) -> Answer:
    """Send these pieces of a stream, then ``close``, ``hang`` or ``drop``."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(gap)
        if then == "hang":
            await asyncio.Event().wait()
        elif then == "drop":
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def frame(type_: str, obj: Any) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": type_, "object": obj}) + b"\n"


def gone_frame() -> bytes:
    return frame(
        "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    )


def pod(name: str, version: int, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    """A small object."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "team-a",
            "name": name,
            "resourceVersion": str(version),
            "uid": uid or f"uid-{name}",
        },
        **fields,
    }


def pod_list(version: int, *pods: dict[str, Any], token: str = "") -> Answer:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return json_answer({"kind": "PodList", "metadata": metadata, "items": list(pods)})
