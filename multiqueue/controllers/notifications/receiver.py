"""Sends notifications to one receiver of the configuration, one after the other.

The URL is the administrator's, never a user's, and no redirect is followed: a job cannot make the
manager ask any other address. The URL may be a secret, so neither it nor an error that may contain
it is logged. With a key, the body is signed, so that the receiver knows who sends.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson
import structlog

from multiqueue.api.config.types import SLACK, NotificationReceiver
from multiqueue.controllers.notifications.pace import NamespacePace
from multiqueue.controllers.posting import post, read_secret
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.views.notifications import say_change

MAX_WAITING = 1000
"""Notifications that wait for a receiver; then the oldest are dropped."""
ATTEMPTS = 3
FIRST_PAUSE = 2.0
"""Seconds before the second attempt; the pause grows fivefold."""
SIGNATURE = "X-Multiqueue-Signature"
"""``sha256=`` and the HMAC-SHA-256 of the body, in hexadecimal digits. Parity: S-166."""

log = structlog.get_logger("multiqueue.notifications")


class ReceiverQueue:
    """What waits to be sent to a receiver.

    Args:
        receiver: Where and how to send.
        metrics: Counts what came of each notification.
    """

    def __init__(self, receiver: NotificationReceiver, metrics: ManagerMetrics) -> None:
        self.receiver = receiver
        self._count = metrics.notifications_total
        self._pace = NamespacePace()
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._filled = asyncio.Event()

    def put(self, told: Mapping[str, Any]) -> None:
        """Queue a notification as `tell_change` returns it, if its namespace may send one."""
        namespaces = self.receiver.namespaces
        if namespaces and told["namespace"] not in namespaces:
            return
        omitted = self._pace.take(told["namespace"], asyncio.get_running_loop().time())
        if omitted is None:
            self._note("limited")
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._note("dropped")
        self._waiting.append({**told, "omitted": omitted})
        self._filled.set()

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Send until cancelled."""
        while True:
            await self._filled.wait()
            while self._waiting:
                await self._send(session, self._waiting.popleft())
            self._filled.clear()

    async def _send(self, session: aiohttp.ClientSession, told: Mapping[str, Any]) -> None:
        pause, problem = FIRST_PAUSE, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause)
                pause *= 5
            problem, again = await try_send(session, self.receiver, told)
            if not problem:
                self._note("sent")
                return
            if not again:
                break
        self._note("failed")
        log.warning("notification not sent", receiver=self.receiver.name, problem=problem)

    def _note(self, result: str) -> None:
        self._count.child(self.receiver.name, result).inc()


async def try_send(
    session: aiohttp.ClientSession, receiver: NotificationReceiver, told: Mapping[str, Any]
) -> tuple[str, bool]:
    """Send a notification once.

    Returns:
        What went wrong, empty if nothing did; and whether another attempt may help.
    """
    body = orjson.dumps(say_change(told) if receiver.format == SLACK else told)
    headers = {"Content-Type": "application/json"}
    path = receiver.url_file
    try:
        url = _read_url(path)
        if receiver.key_file:
            path = receiver.key_file
            headers[SIGNATURE] = _sign(body, path)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        return f"{path}: {words}", True
    return await post(session, url, body, headers)


def _read_url(path: str) -> str:
    """Return the URL in a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has no URL; the message does not repeat it.
    """
    text = read_secret(path)
    if not text.startswith(("https://", "http://")):
        raise ValueError("it does not begin with https:// or http://")
    return text


def _sign(body: bytes, path: str) -> str:
    """Return the signature of a body with the key in a file."""
    key = read_secret(path)
    if not key:
        raise ValueError("it is empty; write a key into it")
    return f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}"
