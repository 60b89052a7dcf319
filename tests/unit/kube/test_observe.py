"""Read-your-writes: answers of own writes against a watch that is early or late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube.client import ObjectList
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import PODS
from multiqueue.kube.wire import WatchEvent
from tests.unit.kube.scripted_server import (
    ScriptedServer,
    frame,
    gone_frame,
    pod,
    pod_list,
    stream,
)
from tests.unit.kube.test_informer import running, title, until
from tests.virtual_time import run_virtual, settle, virtual_time


@virtual_time
async def test_an_own_write_is_seen_at_once_and_told_once() -> None:
    events = stream(b"", frame("MODIFIED", pod("a", 7)), frame("ADDED", pod("b", 8)), gap=1)
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server) as (informer, told):
        await asyncio.wait_for(informer.synced.wait(), 5)
        informer.observe(pod("a", 7))
        assert title(informer.store.get("team-a/a")) == "a@7"
        await until(lambda: "team-a/b" in informer.store)
        assert told.changes == [(None, "a@3"), ("a@3", "a@7"), (None, "b@8")]


@virtual_time
async def test_an_event_older_than_the_own_write_is_ignored() -> None:
    events = stream(b"", frame("MODIFIED", pod("a", 6)), frame("ADDED", pod("b", 8)), gap=1)
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server) as (informer, told):
        await asyncio.wait_for(informer.synced.wait(), 5)
        informer.observe(pod("a", 7))
        await until(lambda: "team-a/b" in informer.store)
        assert told.changes == [(None, "a@3"), ("a@3", "a@7"), (None, "b@8")]


@virtual_time
async def test_an_answer_later_than_the_watch_is_ignored() -> None:
    events = stream(frame("MODIFIED", pod("a", 9)), then="hang")
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server) as (informer, _):
        await until(lambda: title(informer.store.get("team-a/a")) == "a@9")
        informer.observe(pod("a", 7))
        assert title(informer.store.get("team-a/a")) == "a@9"


@virtual_time
async def test_an_answer_for_an_object_deleted_meanwhile_brings_no_ghost() -> None:
    events = stream(frame("DELETED", pod("a", 8)), then="hang")
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server) as (informer, told):
        await until(lambda: len(informer.store) == 0 and told.changes)
        informer.observe(pod("a", 7))
        assert len(informer.store) == 0


@virtual_time
async def test_a_bookmark_beyond_the_answer_tells_that_it_is_old_news() -> None:
    events = stream(frame("BOOKMARK", pod("", 50)), then="hang")
    server = ScriptedServer(lists=[pod_list(5)], watches=[events])
    async with server, running(server) as (informer, _):
        await until(lambda: server.watches)
        await settle()
        informer.observe(pod("a", 40))
        assert len(informer.store) == 0


@virtual_time
async def test_an_observed_object_that_was_deleted_is_removed_by_the_watch() -> None:
    events = stream(b"", frame("DELETED", pod("a", 8)), then="hang", gap=1)
    server = ScriptedServer(lists=[pod_list(5)], watches=[events])
    async with server, running(server) as (informer, told):
        await asyncio.wait_for(informer.synced.wait(), 5)
        informer.observe(pod("a", 7))
        await until(lambda: len(told.changes) == 2)
        assert told.changes == [(None, "a@7"), ("a@7", None)]


@virtual_time
async def test_a_write_newer_than_a_list_survives_it() -> None:
    watches = [stream(b"", gone_frame(), gap=1), stream(then="hang")]
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3)), pod_list(6)], watches=watches)
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.synced.wait(), 5)
        informer.observe(pod("b", 9))
        await until(lambda: len(server.watches) == 2)
        assert informer.store.keys() == ["team-a/b"]


@virtual_time
async def test_a_server_restored_from_a_backup_is_believed() -> None:
    watches = [stream(b"", gone_frame(), gap=1), stream(then="hang")]
    lists = [pod_list(50, pod("a", 40), pod("b", 41)), pod_list(20, pod("a", 12))]
    server = ScriptedServer(lists=lists, watches=watches)
    async with server, running(server) as (informer, _):
        await until(lambda: len(server.watches) == 2)
        assert [title(o) for o in informer.store.list()] == ["a@12"]
    assert server.watches[1].query["resourceVersion"] == "20"


class _History:
    """A server as its list of (version, event); pages and watch as the client gives them."""

    def __init__(self, steps: list[tuple[str, str]]) -> None:
        self.events: list[WatchEvent] = []
        self.answers: list[dict[str, Any]] = []
        self.final: dict[str, str] = {}
        for version, (name, action) in enumerate(steps, start=1):
            known = name in self.final
            obj = pod(name, version, uid=f"{name}")
            if action == "delete" and not known:
                continue
            kind = "DELETED" if action == "delete" else "MODIFIED" if known else "ADDED"
            if kind == "DELETED":
                del self.final[name]
            else:
                self.final[name] = f"{name}@{version}"
            if action == "own":
                self.answers.append(obj)
            self.events.append(WatchEvent(kind, orjson.dumps(obj)))

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[ObjectList[bytes], None]:
        yield ObjectList([], "0")

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[WatchEvent, None]:
        for event in self.events:
            await asyncio.sleep(1)
            yield event
        await asyncio.Event().wait()


def version(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


@settings(deadline=None)  # the machine may be busy
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["own", "other", "delete"])), max_size=12
    ),
    delays=st.lists(st.integers(0, 15), min_size=12, max_size=12),
)
def test_whenever_answers_arrive_the_store_ends_as_the_server(
    steps: list[tuple[str, str]], delays: list[int]
) -> None:
    async def scenario() -> None:
        history = _History(steps)
        informer: Informer[Any] = Informer(history, PODS)  # type: ignore[arg-type]
        mirrored: dict[str, str | None] = {}

        def follow(old: Any, new: Any) -> None:
            name = (new or old)["metadata"]["name"]
            assert mirrored.get(name) == title(old)
            mirrored[name] = title(new)
            if old and new:
                assert version(old) < version(new)

        informer.add_handler(follow)
        task = asyncio.ensure_future(informer.run())
        loop = asyncio.get_running_loop()
        for answer, delay in zip(history.answers, delays, strict=False):
            # An answer may come well before its event, which is late, or well after.
            loop.call_later(
                max(0, int(answer["metadata"]["resourceVersion"]) - 3) + delay + 0.5,
                informer.observe,
                answer,
            )
        await asyncio.sleep(100)
        task.cancel()
        await asyncio.wait({task})
        got = {o["metadata"]["name"]: title(o) for o in informer.store.list()}
        assert got == history.final
        assert {k: v for k, v in mirrored.items() if v} == history.final

    run_virtual(scenario())
