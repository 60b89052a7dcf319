"""How a feed ends or shrinks: lost rights, expired credentials, readers that take nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.fleet.feed import Feeds, FeedSession, FeedTimes
from multiqueue.visibility.fleet.journal import MAX_KEYS, Journal
from multiqueue.visibility.fleet.resources import STANDINGS, FleetResource
from multiqueue.visibility.fleet.rows import FleetRow
from multiqueue.visibility.fleet.topics import read_topics
from multiqueue.visibility.refusals import StatusRefusal, unauthorized
from tests.builders.workloads import T0

BOB = AuthenticatedUser(name="bob")


class Rows:
    """Rows that a test sets; the feed reads them as it reads those of Workloads."""

    resource: FleetResource = STANDINGS
    built = 0

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.rows: dict[str, FleetRow] = {}

    def set(self, key: str, phase: str | None) -> None:
        self.rows.pop(key, None)
        if phase is not None:
            self.rows[key] = FleetRow.of(key, {}, {"phase": phase})
        self.journal.note(self.resource.plural, key)

    async def refresh(self) -> None:
        pass

    def list_keys(self) -> list[str]:
        return list(self.rows)

    async def find_rows(self, keys: Sequence[str]) -> list[FleetRow]:
        return [self.rows[key] for key in keys if key in self.rows]


class Response:
    """Collects frames; ``stuck`` is a reader that takes nothing."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.commented = asyncio.Event()
        self.stuck = False

    async def write(self, data: bytes) -> None:
        if self.stuck:
            await asyncio.get_running_loop().create_future()
        if not data.strip():
            self.commented.set()
            return
        frame = orjson.loads(data)
        self.frames.put_nowait((frame["event"], frame["data"]))


class FeedWorld:
    """A feed of two rows in two namespaces, and what its reader may see.

    Args:
        max_keys: How many changes the journal keeps.
        times: Times of the stream that are not those of this file.
    """

    def __init__(self, *, max_keys: int = MAX_KEYS, **times: float) -> None:
        self.journal = Journal(T0, max_keys=max_keys)
        self.rows = Rows(self.journal)
        self.rows.set("a/one", "Queued")
        self.rows.set("b/two", "Queued")
        self.response = Response()
        self.forbidden: set[str] = set()
        self.expired = False
        self.closing = asyncio.Event()
        sources = {"standings": self.rows}
        options: dict[str, Any] = {
            "rights": self,
            "journal": self.journal,
            "closing": self.closing,
            "times": FeedTimes(**{"review": 0.01, "slow": 0.05, **times}),
        }
        answers: Any = self
        stories: Any = self
        self.story_refusal: StatusRefusal | None = None
        self.feeds = Feeds(answers, sources, stories, **options)

    def metadata(self) -> dict[str, Any]:
        return {"epoch": self.journal.epoch, "version": self.journal.version, "leading": True}

    def now(self) -> Any:
        return T0

    async def require_topic(self, _: Any, __: Any, namespace: str, ___: str) -> None:
        if namespace in self.forbidden:
            raise StatusRefusal(403, "Forbidden", "no right")

    async def tell(self, _: Any, key: str) -> dict[str, Any]:
        if self.story_refusal is not None:
            raise self.story_refusal
        return {"conditions": [key]}

    async def recheck(self) -> None:
        if self.expired:
            raise unauthorized()

    @asynccontextmanager
    async def reading(self, topics: str, last_event: str = "") -> AsyncIterator[asyncio.Task[None]]:
        response: Any = self.response
        session = FeedSession(
            self.feeds, response, BOB, self.recheck, interval=0.001, is_events=False
        )
        task = asyncio.create_task(session.run(read_topics({"topics": topics}), last_event))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def next_of(self, kind: str) -> Any:
        async with asyncio.timeout(5):
            while True:
                event, data = await self.response.frames.get()
                if event == kind:
                    return data


async def test_rows_of_a_namespace_whose_right_is_gone_are_taken_back() -> None:
    world = FeedWorld()
    async with world.reading("standings:a,standings:b"):
        assert (await world.next_of("snapshot"))["rows"] == [["a/one", "Queued"]]
        world.forbidden.add("a")
        change = await world.next_of("change")
        assert (change["topic"], change["gone"], change["rows"]) == ("standings:a", ["a/one"], [])
        notice = await world.next_of("notice")
        assert notice == {"code": "rights changed", "text": "standings:a: no right"}
        world.rows.set("a/one", "Running")
        world.rows.set("b/two", "Running")
        assert (await world.next_of("change"))["rows"] == [["b/two", "Running"]]
        world.forbidden.add("b")
        assert (await world.next_of("end"))["code"] == "forbidden"


async def test_a_stream_ends_once_its_credentials_expired() -> None:
    world = FeedWorld()
    async with world.reading("standings") as task:
        await world.next_of("snapshot")
        world.expired = True
        assert (await world.next_of("end"))["code"] == "expired"
        await task


async def test_a_stream_is_renewed_and_ends_when_the_server_stops() -> None:
    world = FeedWorld()
    async with world.reading("standings"):
        await world.next_of("snapshot")
        world.closing.set()
        assert (await world.next_of("end"))["code"] == "shutdown"
    world = FeedWorld(rotate=0.0, spread=0.0)
    async with world.reading("standings"):
        assert (await world.next_of("end"))["code"] == "rotate"


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    world = FeedWorld()
    async with world.reading("standings") as task:
        await world.next_of("snapshot")
        world.response.stuck = True
        world.rows.set("a/one", "Running")
        with pytest.raises(TimeoutError):
            await task


async def test_a_silent_stream_has_comments() -> None:
    world = FeedWorld(comment=0.0)
    async with world.reading("standings"), asyncio.timeout(5):
        await world.response.commented.wait()


async def test_a_burst_is_sent_in_frames_of_500_rows_each_row_once() -> None:
    world = FeedWorld()
    async with world.reading("standings"):
        await world.next_of("snapshot")
        for phase in ("Queued", "Running"):
            for number in range(1200):
                world.rows.set(f"c/{number}", phase)
        sizes, seen = [], dict[str, str]()
        while len(seen) < 1200:
            change = await world.next_of("change")
            sizes.append(len(change["rows"]))
            seen |= dict(change["rows"])
    assert sizes == [500, 500, 200]
    assert set(seen.values()) == {"Running"}


async def test_a_reader_too_far_behind_gets_a_snapshot() -> None:
    world = FeedWorld(max_keys=1)
    mark = world.journal.mark
    world.rows.set("a/one", "Running")
    world.rows.set("b/two", "Running")
    async with world.reading("standings", mark):
        assert (await world.next_of("hello"))["resumed"] is False
        assert len((await world.next_of("snapshot"))["rows"]) == 2


@pytest.mark.parametrize("begun", [False, True])
async def test_a_story_that_cannot_be_told_now_is_told_later(
    begun: bool,
) -> None:
    world, trouble = (
        FeedWorld(review=9.0, document=0.001),
        StatusRefusal(429, "TooManyRequests", "later"),
    )
    world.story_refusal = None if begun else trouble
    async with world.reading("story:a/one,standings:b") as task:
        rows = (await world.next_of("snapshot"))["rows"]
        assert [row[0] for row in rows] == (["a/one"] if begun else [])
        world.story_refusal = trouble
        world.rows.set("b/two", "Running")
        assert (await world.next_of("change"))["topic"] == "standings:b"
        assert not task.done()
        if not begun:
            world.story_refusal = None
            change = await world.next_of("change")
            assert (change["topic"], change["rows"][0][0]) == ("story:a/one", "a/one")
