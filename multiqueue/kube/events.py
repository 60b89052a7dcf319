"""Kubernetes Events about objects, as ``kubectl describe`` shows them.

Recording is best effort: it never waits and never fails, and all other requests to the server go
first. A repeated Event raises the count of the first one. If the queue is full, new Events are
dropped and counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.resources import EVENTS, Resource
from multiqueue.kube.workqueue import WorkQueue
from multiqueue.kube.write_budget import WriteClass

MAX_MESSAGE = 1024
MAX_REASON = 128
MAX_NAME = 253
"""Limits of the API, in characters."""
MAX_QUEUE = 8192
"""Different Events that may wait to be written; a larger burst helps no reader."""
MAX_KNOWN = 4096
"""Number of written Events that are remembered, so that a repetition raises their count."""
WRITERS = 4
ATTEMPTS = 3

log = structlog.get_logger(component="events")


class _Key(NamedTuple):
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str

    def digest(self) -> bytes:
        """Return what a written Event is remembered by: its texts would take a kilobyte."""
        text = "\0".join(self).encode(errors="surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()


@dataclass(slots=True)
class _Entry:
    reference: dict[str, str]
    first_at: datetime
    last_at: datetime
    count: int = 1
    name: str = ""
    attempts: int = 0


def build_reference(obj: Mapping[str, Any], resource: Resource | None = None) -> dict[str, str]:
    """Return the reference to an object that an Event is about.

    Args:
        obj: The object; only its metadata is needed if `resource` is given.
        resource: The object's collection, for objects without apiVersion and kind.
    """
    metadata = obj.get("metadata") or {}
    reference = {
        "apiVersion": resource.api_version if resource else obj.get("apiVersion"),
        "kind": resource.kind if resource else obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {key: str(value) for key, value in reference.items() if value}


class EventRecorder:
    """Writes the Events of one component; `run` it beside the component.

    Args:
        client: The client of the cluster that has the objects.
        component: The reporting component, such as ``kueue-admission``.
        instance: The process of the component; the host's name by default.
        clock: The clock for the times of Events.
        on_dropped: Called for each Event that could not be recorded.
    """

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        instance: str | None = None,
        clock: Clock | None = None,
        on_dropped: Callable[[], object] = lambda: None,
    ) -> None:
        self.dropped = 0
        self._on_dropped = on_dropped
        self._client = client
        self._component = component
        self._instance = instance or socket.gethostname()
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[_Key] = WorkQueue(retry_base=0.5, retry_cap=10.0)
        self._pending: dict[_Key, _Entry] = {}
        self._sequence = itertools.count()
        self._known: OrderedDict[bytes, _Entry] = OrderedDict()
        self._held: dict[tuple[str, str], _Key] = {}

    def event(
        self,
        regarding: Mapping[str, str],
        type: str,  # noqa: A002
        reason: str,
        message: str,
        *,
        hold_seconds: float = 0.0,
    ) -> None:
        """Record that something happened to an object. Never blocks, never fails.

        Args:
            regarding: Reference to the object: apiVersion, kind, namespace, name, uid,
                resourceVersion; see `build_reference`.
            type: ``Normal`` or ``Warning``.
            reason: Why it happened, in CamelCase, for machines.
            message: What happened, for people; cut at 1024 characters.
            hold_seconds: How long the Event is held, and may be taken back, before it is written.
        """
        key = _Key(
            regarding.get("kind", ""),
            regarding.get("namespace", ""),
            regarding.get("name", ""),
            regarding.get("uid", ""),
            type,
            reason[:MAX_REASON],
            truncate(message, MAX_MESSAGE),
        )
        now = self._clock.now()
        entry = self._pending.get(key)
        if entry is None:
            if len(self._pending) >= MAX_QUEUE:
                self._note_dropped()
                return
            entry = self._known.pop(key.digest(), None)
        if entry is None:
            entry = _Entry(reference=dict(regarding), first_at=now, last_at=now)
        else:
            entry.reference = entry.reference or dict(regarding)
            entry.count += 1
            entry.last_at = now
        self._pending[key] = entry
        self._queue.add_after(key, hold_seconds)
        if hold_seconds:
            self._held[key.uid, key.reason] = key

    def take_back(self, regarding: Mapping[str, str], reason: str) -> str | None:
        """Remove a held Event, to merge it into another one; return its message."""
        key = self._held.pop((regarding.get("uid", ""), reason), None)
        if key is None or key not in self._pending:
            return None
        del self._pending[key]
        return key.message

    async def run(self) -> None:
        """Write recorded Events until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"events-{number}")

    async def _write_all(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                async with self._client.limiter.spare(WriteClass.EXPLANATION):
                    await self._write_one(key, self._pending.pop(key, None))
            finally:
                self._queue.done(key)

    async def _write_one(self, key: _Key, entry: _Entry | None) -> None:
        if entry is None:
            return
        self._held.pop((key.uid, key.reason), None)
        # Remembered from here on: a repetition during the write raises the count of this Event.
        self._remember(key, entry)
        try:
            await self._write(key, entry)
        except KubeError as error:
            entry.attempts += 1
            if error.retryable and entry.attempts < ATTEMPTS and len(self._pending) < MAX_QUEUE:
                self._pending.setdefault(key, entry)
                self._queue.add_rate_limited(key)
                return
            self._note_dropped()
            log.debug("event dropped", object=f"{key.namespace}/{key.name}", error=str(error))
        except Exception:  # one Event must not stop the others
            self._note_dropped()
            log.exception("event dropped", object=f"{key.namespace}/{key.name}")
        entry.attempts = 0
        if key not in self._pending:
            entry.reference = {}
        self._queue.forget(key)

    async def _write(self, key: _Key, entry: _Entry) -> None:
        namespace = key.namespace or "default"
        client = self._client
        if entry.name:
            patch = {"count": entry.count, "lastTimestamp": format_time(entry.last_at)}
            try:
                await client.patch(EVENTS, entry.name, patch, namespace=namespace, decode=bytes)
            except NotFound:
                # The API server keeps Events for an hour only.
                entry.name, entry.count, entry.first_at = "", 1, entry.last_at
            else:
                return
        body = self._body(key, entry, namespace)
        await client.create(EVENTS, body, namespace=namespace, decode=bytes)
        entry.name = body["metadata"]["name"]

    def _body(self, key: _Key, entry: _Entry, namespace: str) -> dict[str, Any]:
        # A name like client-go's, with a counter: the clock alone could give two Events one name.
        suffix = f".{int(entry.first_at.timestamp() * 1e6):x}{next(self._sequence):x}"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": key.name[: MAX_NAME - len(suffix)] + suffix,
                "namespace": namespace,
            },
            "involvedObject": entry.reference,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "count": entry.count,
            "firstTimestamp": format_time(entry.first_at),
            "lastTimestamp": format_time(entry.last_at),
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _note_dropped(self) -> None:
        self.dropped += 1
        self._on_dropped()

    def _remember(self, key: _Key, entry: _Entry) -> None:
        self._known[key.digest()] = entry
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def truncate(text: str, limit: int) -> str:
    """Cut a text to a limit of the API, and mark the cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
