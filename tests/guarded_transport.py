"""A transport to workers that lets no write through which could hit another object than meant.

Between our look at an object and our write it may be deleted and made anew, by somebody else or for
a later reservation. So every deletion names a uid, and every change a uid or the version seen.
"""

from __future__ import annotations

from typing import Any

import orjson

from multiqueue.kube.credentials import Credentials
from multiqueue.kube.transport import ApiRequest, HttpTransport, OnWarning, Response


class Audit:
    """Makes transports, and keeps the writes that they refused.

    Attributes:
        refused: The requests in words.
        seen: Methods that were looked at.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.seen: set[str] = set()

    def open(
        self, credentials: Credentials, *, user_agent: str, on_warning: OnWarning
    ) -> GuardedTransport:
        return GuardedTransport(self, credentials, user_agent=user_agent, on_warning=on_warning)


class GuardedTransport(HttpTransport):
    """A transport that looks at what it sends."""

    def __init__(self, audit: Audit, credentials: Credentials, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._audit = audit

    async def send(self, request: ApiRequest) -> Response:
        self._audit.seen.add(request.method)
        if not is_guarded(request):
            self._audit.refused.append(request.what)
            raise AssertionError(f"{request.what} could hit another object than was looked at")
        return await super().send(request)


def is_guarded(request: ApiRequest) -> bool:
    """Whether a write can only hit the object that it was decided on."""
    if request.method not in {"DELETE", "PATCH", "PUT"}:
        return True
    body = orjson.loads(request.body or b"{}")
    if request.method == "DELETE":
        return bool((body.get("preconditions") or {}).get("uid"))
    metadata = body.get("metadata") or {}
    return bool(metadata.get("resourceVersion") or metadata.get("uid"))
