"""Watch: a stream of frames from the client's resourceVersion until its end or timeout."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from aiohttp import web

from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.lists import ListSelection, parse_revision, parse_selection
from multiqueue.embedded.server.representation import show_in_watch
from multiqueue.embedded.server.request import ServerRequest
from multiqueue.embedded.server.status import (
    StatusError,
    bad_request,
    expired,
    too_large_resource_version,
)
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.watch import ADDED, BOOKMARK, ERROR, MAX_PENDING, Notice, Watcher

BOOKMARK_SECONDS = 60.0
"""As in Kubernetes: idle watchers learn about once a minute how far they are."""
MIN_TIMEOUT_SECONDS = 1800
"""Watches without timeoutSeconds end after 30 to 60 minutes, so that reconnects spread."""
CHUNK = 256
"""Objects per write: enough to share its cost, few enough to let others run."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What a watch request says besides its selection."""

    revision: int
    """Start behind this; 0: with the current state."""
    send_initial: bool
    initial_bookmark: bool
    bookmarks: bool
    timeout: float


def parse_watch_options(request: ServerRequest) -> WatchOptions:
    """Read the query.

    Raises:
        StatusError: 400.
    """
    query = request.query
    revision = parse_revision(query.get("resourceVersion", ""))
    streaming = "sendInitialEvents" in query
    match = query.get("resourceVersionMatch", "")
    if streaming and match != "NotOlderThan":
        raise bad_request(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
            "resourceVersionMatch to NotOlderThan"
        )
    if match and not streaming:
        raise bad_request(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless "
            "sendInitialEvents is provided"
        )
    initial = request.flag("sendInitialEvents")
    seconds = request.number("timeoutSeconds")
    return WatchOptions(
        revision=revision,
        send_initial=initial if streaming else revision == 0,
        initial_bookmark=initial,
        bookmarks=request.flag("allowWatchBookmarks"),
        timeout=float(seconds) if seconds else MIN_TIMEOUT_SECONDS * (1 + random.random()),  # noqa: S311
    )


async def watch(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """Answer a watch request."""
    selection = parse_selection(target, request.query)
    options = parse_watch_options(request)
    response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
    response.content_type = "application/json"
    response.enable_chunked_encoding()
    stream = _Stream(request, selection, options, response)
    try:
        await stream.run()
    except ConnectionError:
        return response
    await response.write_eof()
    return response


class _Stream:
    """One watch connection."""

    def __init__(
        self,
        request: ServerRequest,
        selection: ListSelection,
        options: WatchOptions,
        response: web.StreamResponse,
    ) -> None:
        self.request = request
        self.target = selection.target
        self.selection = selection
        self.options = options
        self.response = response
        self.store = request.objects.store
        self.key = selection.target.kind.key
        self.bookmark_due = False
        self.sent_any = False

    async def run(self) -> None:
        """Send frames until the time is over or nobody listens."""
        options, store = self.options, self.store
        collection = store.collection(self.key)
        initial: list[StoredObject] = []
        replay = False
        if options.send_initial or options.revision == 0:
            start = store.revision
            if options.send_initial:
                entries = collection.entries(self.selection.namespace)
                matches = self.selection.matches
                initial = [entry for entry in entries if matches is None or matches(entry)]
        else:
            start, replay = options.revision, True
            if start < collection.history.floor:
                floor = collection.history.floor
                await self._refuse(expired(f"too old resource version: {start} ({floor})"))
                return
            if start > store.revision:
                # The client watched another life of this server. A silent watch would leave it
                # with what it knew then.
                await self._refuse(too_large_resource_version(start, store.revision))
                return
        transport = self.request.http.transport
        watcher = Watcher(
            namespace=self.selection.namespace,
            matches=self.selection.matches,
            since=start,
            cut=transport.abort if transport is not None else lambda: None,
            most_pending=store.most_pending,
        )
        if replay:
            for event in collection.history.since(start):
                watcher.offer(event)
        store.watch(self.key, watcher)
        try:
            await self.response.prepare(self.request.http)
            await self._send_initial(initial, start)
            await self._follow(watcher)
        finally:
            store.unwatch(self.key, watcher)

    async def _refuse(self, error: StatusError) -> None:
        await self.response.prepare(self.request.http)
        await self.response.write(frame(ERROR, orjson.dumps(error.body())))

    async def _send_initial(self, initial: Sequence[StoredObject], revision: int) -> None:
        for index in range(0, len(initial), CHUNK):
            notices = [
                Notice(ADDED, entry, entry.revision) for entry in initial[index : index + CHUNK]
            ]
            await self.response.write(self._frames(notices))
        if self.options.initial_bookmark and self.options.bookmarks:
            await self.response.write(self._bookmark(revision, {INITIAL_EVENTS_END: "true"}))

    async def _follow(self, watcher: Watcher) -> None:
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def remind() -> None:
            nonlocal timer
            self.bookmark_due = True
            watcher.nudge()
            timer = loop.call_later(BOOKMARK_SECONDS, remind)

        if self.options.bookmarks:
            timer = loop.call_later(BOOKMARK_SECONDS, remind)
        try:
            async with asyncio.timeout(self.options.timeout):
                await self._pump(watcher)
        except TimeoutError:
            if self.options.bookmarks and not watcher.closed:
                last = watcher.take(MAX_PENDING)
                bookmark = self._bookmark(self.store.revision, {})
                await self.response.write(self._frames(last) + bookmark)
        finally:
            if timer is not None:
                timer.cancel()

    async def _pump(self, watcher: Watcher) -> None:
        while not watcher.closed:
            notices = watcher.take(CHUNK)
            if notices:
                await self.response.write(self._frames(notices))
            elif self.bookmark_due:
                self.bookmark_due = False
                await self.response.write(self._bookmark(self.store.revision, {}))
            else:
                await watcher.wait()

    def _frames(self, notices: Sequence[Notice]) -> bytes:
        entries = [self._state(notice) for notice in notices]
        target = self.target
        shown = zip(notices, entries, strict=True)
        if self.request.wanted == "Object":
            return b"".join(frame(notice.type, target.raw(entry)) for notice, entry in shown)
        return b"".join(frame(notice.type, self._shown(entry)) for notice, entry in shown)

    def _state(self, notice: Notice) -> StoredObject:
        entry = notice.entry
        if entry.revision == notice.revision:
            return entry
        return self.store.make_entry(self.key, entry.decode(), notice.revision)

    def _shown(self, entry: StoredObject) -> bytes:
        first, self.sent_any = not self.sent_any, True
        return show_in_watch(self.request, self.target, entry, first=first)

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        obj: dict[str, object] = {
            "kind": self.target.kind.kind,
            "apiVersion": self.target.api_version,
            "metadata": metadata,
        }
        if self.request.wanted == "Table":
            row = {
                "cells": [],
                "object": {**obj, "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"},
            }
            obj = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [row],
            }
        elif self.request.wanted == "PartialObjectMetadata":
            obj |= {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
            }
        return frame(BOOKMARK, orjson.dumps(obj))


def frame(type_: str, raw: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"
