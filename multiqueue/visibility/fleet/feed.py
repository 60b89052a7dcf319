"""The feed: one stream with the changes of all topics that a reader follows.

The server keeps no messages for a reader, only the version up to which each topic was sent. At each
tick the journal names the rows that changed since, and their current state is sent. So a slow
reader costs nothing, and a row is encoded once for all readers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from multiqueue import __version__
from multiqueue.serving.request import HttpRequest
from multiqueue.views.standing import write_time
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.fleet.answers import FleetAnswers
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.pace import Pace
from multiqueue.visibility.fleet.resources import LINES, FleetResource
from multiqueue.visibility.fleet.rights import FleetRights, Recheck
from multiqueue.visibility.fleet.rows import FleetRow, RowSource
from multiqueue.visibility.fleet.stories import Stories
from multiqueue.visibility.fleet.topics import Topic, read_interval, read_topics
from multiqueue.visibility.refusals import StatusRefusal

Json = dict[str, Any]

EVENT_STREAM, JSON_LINES = "text/event-stream", "application/x-ndjson"
MAX_ROWS = 500
"""Rows of a frame; the others come in the next."""
SCAN_STEP = 2000
"""Keys that are looked at before other tasks run."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
END_TEXTS = {
    "rotate": "streams are renewed after some minutes",
    "shutdown": "this manager stops",
    "expired": "the credentials are not valid any more",
    "forbidden": "no topic is allowed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedTimes:
    """The times of streams, in seconds.

    Attributes:
        review: Between two checks of rights and credentials.
        comment: Of silence until a comment is sent; proxies end idle streams.
        slow: For which a reader may take nothing.
        rotate: Until the server ends a stream.
        spread: Over which it spreads the ends.
        document: Between two readings of a line or story at least.
    """

    review: float = 30.0
    comment: float = 15.0
    slow: float = 20.0
    rotate: float = 300.0
    spread: float = 60.0
    document: float = 1.0


class FeedEnd(Exception):  # noqa: N818 - an end, not a failure
    """The stream ends with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Feeds:
    """Serves feeds.

    Args:
        answers: Makes metadata.
        sources: The rows of each resource, by plural.
        stories: Tells stories and lines.
        rights: Checks the rights behind topics.
        journal: Knows what changed.
        closing: Set when the server stops.
        times: The times of streams.

    Attributes:
        readers: The streams that are open.
    """

    def __init__(
        self,
        answers: FleetAnswers,
        sources: Mapping[str, RowSource],
        stories: Stories,
        *,
        rights: FleetRights,
        journal: Journal,
        closing: asyncio.Event,
        times: FeedTimes | None = None,
    ) -> None:
        self.times = times or FeedTimes()
        self.answers = answers
        self.sources = sources
        self.stories = stories
        self.rights = rights
        self.journal = journal
        self.closing = closing
        self.readers = 0

    async def serve(
        self, http: HttpRequest, user: AuthenticatedUser, recheck: Recheck
    ) -> web.StreamResponse:
        """Send frames until the stream ends.

        Args:
            http: The request.
            user: Who reads.
            recheck: Raises `StatusRefusal` once the reader's credentials are not valid any more.

        Raises:
            StatusRefusal: 400, the request names unknown topics.
        """
        topics, interval = read_topics(http.query), read_interval(http.query)
        is_events = EVENT_STREAM in http.headers.get("Accept", "")
        response = web.StreamResponse(headers=HEADERS)
        response.content_type = EVENT_STREAM if is_events else JSON_LINES
        await response.prepare(http)
        session = FeedSession(self, response, user, recheck, interval=interval, is_events=is_events)
        self.readers += 1
        try:
            await session.run(topics, http.headers.get("Last-Event-ID", ""))
            await response.write_eof()
        except TimeoutError:
            if http.transport is not None:
                http.transport.abort()  # it takes nothing, not even the end
        except ConnectionError:
            pass  # the reader has left
        finally:
            self.readers -= 1
        return response


class FeedSession:
    """One stream."""

    def __init__(
        self,
        feeds: Feeds,
        response: web.StreamResponse,
        user: AuthenticatedUser,
        recheck: Recheck,
        *,
        interval: float,
        is_events: bool,
    ) -> None:
        self._feeds = feeds
        self._times = feeds.times
        self._journal = feeds.journal
        self._response = response
        self._user = user
        self._recheck = recheck
        self._interval = interval
        self._is_events = is_events
        self._sent: dict[Topic, int] = {}
        self._documents: dict[Topic, tuple[float, int, bytes]] = {}
        self._written_at = 0.0

    async def run(self, topics: list[Topic], last_event: str) -> None:
        """Send frames until the stream ends; the last one says why.

        Raises:
            TimeoutError: the reader takes nothing.
            ConnectionError: the reader has left.
        """
        try:
            await self._begin(topics, last_event)
            await self._follow()
        except FeedEnd as end:
            told = {"code": end.code, "text": END_TEXTS[end.code], "retryAfter": 0}
            await self._write("end", told)

    # ---------------------------------------------------------------- begin

    async def _begin(self, topics: list[Topic], last_event: str) -> None:
        granted, refused = await self._review(topics)
        since = self._journal.read_mark(last_event) if last_event else None
        is_known = since is not None and all(
            self._journal.knows_since(topic.resource.plural, since) for topic in granted
        )
        hello = {
            **_pick(self._feeds.answers.metadata(), "epoch", "version", "leading"),
            "program": f"multiqueue {__version__}",
            "reader": self._user.name,
            "interval": self._interval,
            "resumed": is_known,
            "topics": [topic.text for topic in granted],
            "refused": refused,
        }
        version = self._journal.version
        self._sent = dict.fromkeys(granted, since if since is not None and is_known else version)
        await self._write("hello", hello, with_id=True)
        if not granted:
            raise FeedEnd("forbidden")
        if not is_known:
            for topic in granted:
                await self._send_snapshot(topic)

    async def _review(self, topics: Iterable[Topic]) -> tuple[list[Topic], list[Json]]:
        """Return the topics that the reader may follow, and why not the others."""
        granted, refused = [], []
        for topic in topics:
            try:
                await self._feeds.rights.require_topic(
                    self._user, topic.resource, topic.namespace, topic.name
                )
            except StatusRefusal as refusal:
                told = {"topic": topic.text, "code": refusal.code, "message": str(refusal)}
                refused.append(told)
            else:
                granted.append(topic)
        return granted, refused

    async def _send_snapshot(self, topic: Topic) -> None:
        """Send all rows of a topic, in parts."""
        if topic.is_document:
            await self._send_document(topic, "snapshot")
            return
        source = self._feeds.sources[topic.resource.plural]
        await source.refresh()
        self._sent[topic] = self._journal.version
        keys = await _list_keys(source, topic)
        parts = max(1, -(-len(keys) // MAX_ROWS))
        for part in range(parts):
            rows = await source.find_rows(keys[part * MAX_ROWS : (part + 1) * MAX_ROWS])
            encoded = [row.encoded for row in rows]
            await self._send_rows("snapshot", topic, encoded, part=part + 1, parts=parts)

    # ---------------------------------------------------------------- follow

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        pace = Pace(self._interval, self._feeds.closing)
        times = self._times
        rotate_at = loop.time() + times.rotate + random.random() * times.spread  # noqa: S311
        review_at = loop.time() + times.review
        while await pace.wait():
            if loop.time() >= rotate_at:
                raise FeedEnd("rotate")
            if loop.time() >= review_at:
                review_at = loop.time() + times.review
                await self._review_again()
            for topic in list(self._sent):
                await self._send_changes(topic)
            if loop.time() - self._written_at >= times.comment:
                await self._send_bytes(b":\n\n" if self._is_events else b"\n")
        raise FeedEnd("shutdown")

    async def _send_changes(self, topic: Topic) -> None:
        if topic.is_document:
            await self._send_document(topic, "change")
            return
        source, name = self._feeds.sources[topic.resource.plural], topic.resource.plural
        await source.refresh()
        if not self._journal.knows_since(name, self._sent[topic]):
            await self._send_snapshot(topic)  # too much happened since
            return
        version = self._journal.version
        changed = [
            each for each in self._journal.since(name, self._sent[topic]) if topic.has(each[0])
        ]
        now, later = changed[:MAX_ROWS], changed[MAX_ROWS:]
        self._sent[topic] = now[-1][1] if later else version
        if not now:
            return
        keys = [key for key, _ in now]
        rows = await source.find_rows(keys)
        found = {row.key for row in rows}
        gone = [key for key in keys if key not in found]
        await self._send_rows("change", topic, [row.encoded for row in rows], gone=gone)

    async def _send_document(self, topic: Topic, event: str) -> None:
        """Send a line or story if it differs from what was sent last."""
        made_at, version, last = self._documents.get(topic, (0.0, -1, b""))
        now = asyncio.get_running_loop().time()
        self._sent[topic] = self._journal.version
        if event == "change" and (
            version == self._journal.version or now - made_at < self._times.document
        ):
            return
        version, rows = self._journal.version, list[bytes]()
        try:
            rows = await self._read_document(topic)
        except StatusRefusal as refusal:
            if refusal.code != 404:
                version = -1  # rights could not be asked for: it is read again soon
                if event == "change":
                    self._documents[topic] = (now, version, last)
                    return
        data = b",".join(rows)
        self._documents[topic] = (now, version, data)
        if event == "snapshot" or data != last:
            await self._send_rows(event, topic, rows)

    async def _read_document(self, topic: Topic) -> list[bytes]:
        if topic.resource is LINES:
            line = await self._feeds.stories.line(
                self._user, topic.namespace, topic.name, limit=MAX_ROWS
            )
            columns = topic.resource.columns
            return [
                orjson.dumps([str(item["position"]), *(item[name] for name in columns)])
                for item in line.items
            ]
        key = f"{topic.namespace}/{topic.name}"
        status = await self._feeds.stories.tell(self._user, key)
        return [FleetRow.of(key, {}, status).encoded]

    async def _review_again(self) -> None:
        """End or shorten the stream if the credentials or rights are gone."""
        try:
            await self._recheck()
        except StatusRefusal as refusal:
            if refusal.code == 401:
                raise FeedEnd("expired") from refusal
        granted, refused = await self._review(list(self._sent))
        for topic in [each for each in self._sent if each not in granted]:
            told = next(each for each in refused if each["topic"] == topic.text)
            if told["code"] != 403:
                continue  # the API server could not be asked; the next review decides
            del self._sent[topic]
            await self._take_back(topic)
            text = f"{topic.text}: {told['message']}"
            await self._write("notice", {"code": "rights changed", "text": text})
        if not self._sent:
            raise FeedEnd("forbidden")

    async def _take_back(self, topic: Topic) -> None:
        """Tell the reader to drop all rows of a topic."""
        if topic.is_document:
            await self._send_rows("change", topic, [])
            return
        keys = await _list_keys(self._feeds.sources[topic.resource.plural], topic)
        for start in range(0, len(keys), MAX_ROWS):
            await self._send_rows("change", topic, [], gone=keys[start : start + MAX_ROWS])

    # ---------------------------------------------------------------- write

    async def _send_rows(
        self,
        event: str,
        topic: Topic,
        rows: list[bytes],
        *,
        gone: list[str] | None = None,
        part: int = 0,
        parts: int = 0,
    ) -> None:
        head: Json = {"topic": topic.text, "asOf": write_time(self._feeds.answers.now())}
        if event == "snapshot":
            head |= {"part": part or 1, "parts": parts or 1, "columns": columns_of(topic.resource)}
        else:
            head["gone"] = gone or []
        data = orjson.dumps(head)[:-1] + b',"rows":[' + b",".join(rows) + b"]}"
        await self._send_frame(event, data, with_id=event == "change")

    async def _write(self, event: str, data: Json, *, with_id: bool = False) -> None:
        await self._send_frame(event, orjson.dumps(data), with_id=with_id)

    async def _send_frame(self, event: str, data: bytes, *, with_id: bool) -> None:
        # Everything up to the oldest version that a topic has sent is with the reader.
        version = min(self._sent.values(), default=self._journal.version)
        mark = f"{self._journal.epoch}.{version}"
        if self._is_events:
            id_ = f"id: {mark}\n" if with_id else ""
            await self._send_bytes(f"event: {event}\n{id_}data: ".encode() + data + b"\n\n")
            return
        head = {"event": event, **({"id": mark} if with_id else {})}
        await self._send_bytes(orjson.dumps(head)[:-1] + b',"data":' + data + b"}\n")

    async def _send_bytes(self, data: bytes) -> None:
        async with asyncio.timeout(self._times.slow):
            await self._response.write(data)
        self._written_at = asyncio.get_running_loop().time()


def columns_of(resource: FleetResource) -> list[str]:
    """Return the names of a row's values."""
    return ["key", *resource.columns]


async def _list_keys(source: RowSource, topic: Topic) -> list[str]:
    """Return the keys of a topic, in steps between which other tasks run."""
    keys = list(source.list_keys())
    found: list[str] = []
    for start in range(0, len(keys), SCAN_STEP):
        found += [key for key in keys[start : start + SCAN_STEP] if topic.has(key)]
        await asyncio.sleep(0)
    return found


def _pick(document: Json, *names: str) -> Json:
    return {name: document[name] for name in names}
