"""The dashboard on this machine, for one reader: the page has the rights of a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from aiohttp import web

from multiqueue.api.names import DEFAULT_NAMESPACE
from multiqueue.dashboard.door import Door
from multiqueue.dashboard.page_answers import (
    MAX_QUESTION,
    PageAnswers,
    PageReader,
    build_answer,
    build_status,
)
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import SHUTDOWN_SECONDS, Bounds, HttpServer

HOST = "127.0.0.1"


class Gateway:
    """Serves one reader; the reader's rights are those of the client.

    Args:
        client: A client of the manager's cluster.
        about: What the page says about itself: ``context``, ``namespace`` and ``demo``.
        port: The port to listen on; 0 takes a free one.
        read_only: Whether the page has no actions.
        system_namespace: The manager's namespace.
    """

    def __init__(
        self,
        client: KubeClient,
        about: Mapping[str, Any],
        *,
        port: int = 0,
        read_only: bool = False,
        system_namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        self._client = client
        self._about = dict(about)
        self._read_only = read_only
        self._system_namespace = system_namespace
        self._server = HttpServer(
            self._answer,
            host=HOST,
            port=port,
            bounds=Bounds(connections=64, body_bytes=MAX_QUESTION),
        )
        self._use(Door(port))

    def _use(self, door: Door) -> None:
        self._door = door
        self._answers = PageAnswers(SystemClock(), door)
        action = "" if self._read_only else door.action
        self._reader = PageReader(
            client=self._client,
            about=self._about,
            action=action,
            system_namespace=self._system_namespace,
        )

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
        self._use(Door(self._server.port))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, end all streams and finish all actions."""
        until = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
        await self._server.stop()
        await self._answers.finish(until)

    async def _answer(self, request: HttpRequest) -> web.StreamResponse:
        door = self._door
        refusal = door.check_origin(request.headers)
        if refusal is None and request.path == "/" and door.has_key(request.query.get("key")):
            return build_answer(303, b"", Location="/", **{"Set-Cookie": door.cookie})
        refusal = refusal or door.check(request.headers, request.cookies)
        if refusal is not None:
            return build_status(403, "Forbidden", refusal.text)
        return await self._answers.answer(request, self._reader)
