"""The writes of a manager in tests: counted by what they change, and slowed if wanted."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.transport import ApiRequest, HttpTransport, Response

SIDE_BY_SIDE = 4
"""Writes that the slowed server handles at a time."""
COLLECTIONS_AT = {"api": 2, "apis": 3}
"""Where the collection or its namespace begins in the path, by the path's first part."""


class AuditedWrites:
    """Counts the writes of the clients that it makes; each takes so many seconds.

    Attributes:
        seen: Number of writes by collection and subresource, such as ``workloads/status``.
        at_admission: What was seen when an admission was written last.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seen: Counter[str] = Counter()
        self.at_admission: Counter[str] = Counter()
        self.seconds = seconds
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)

    def make_client(self, credentials: Credentials, **options: Any) -> KubeClient:
        return KubeClient(credentials, open_transport=partial(AuditedTransport, self), **options)

    async def write(self, target: str, body: bytes) -> None:
        """Count a write to this path, and take the time that it takes."""
        parts = target.partition("?")[0].strip("/").split("/")
        parts = parts[COLLECTIONS_AT[parts[0]] :]
        if parts[0] == "namespaces" and len(parts) > 2:
            parts = parts[2:]
        collection, _, *subresource = [*parts, ""]
        self.seen["/".join([collection, *filter(None, subresource)])] += 1
        if collection == "workloads" and b'"podSetAssignments":[' in body:
            self.at_admission = self.seen.copy()
        if self.seconds:
            async with self._room:
                await asyncio.sleep(self.seconds)


class AuditedTransport(HttpTransport):
    def __init__(self, audit: AuditedWrites, credentials: Credentials, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._audit = audit

    async def send(self, request: ApiRequest) -> Response:
        if request.method != "GET":
            await self._audit.write(request.target, request.body or b"")
        return await super().send(request)
