from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import structlog
from aiohttp import web

from multiqueue.kube import errors
from multiqueue.kube.informer import Informer
from multiqueue.kube.informer_state import InformerState
from multiqueue.kube.resources import PODS
from multiqueue.kube.store import ObjectKeyAndVersion, identify
from tests.unit.kube.scripted_server import (
    ScriptedServer,
    drop,
    frame,
    gone_frame,
    hang,
    html,
    pod,
    pod_list,
    status,
    stream,
)
from tests.virtual_time import settle, virtual_time

Pod = dict[str, Any]
Change = tuple[str | None, str | None]


def title(obj: Pod | None) -> str | None:
    """``name@version``, short enough to compare."""
    return obj and f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"


class Recorder:
    """Remembers what a handler was told."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def __call__(self, old: Pod | None, new: Pod | None) -> None:
        self.changes.append((title(old), title(new)))


@asynccontextmanager
async def running(
    server: ScriptedServer, **options: Any
) -> AsyncIterator[tuple[Informer[Pod], Recorder]]:
    async with server.client() as client:
        informer: Informer[Pod] = Informer(client, PODS, **options)
        recorder = Recorder()
        informer.add_handler(recorder)
        task = asyncio.ensure_future(informer.run())
        try:
            yield informer, recorder
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task.exception()


async def until(condition: Callable[[], object], seconds: float = 100.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions are about many things
            await asyncio.sleep(0.01)


@virtual_time
async def test_it_lists_then_follows_the_watch() -> None:
    events = stream(
        frame("ADDED", pod("b", 6)),
        frame("MODIFIED", pod("a", 7)),
        frame("DELETED", pod("b", 8)),
        then="hang",
    )
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server, label_selector="x=y") as (informer, told):
        await asyncio.wait_for(informer.synced.wait(), 5)
        await until(lambda: len(told.changes) == 4)
        assert told.changes == [
            (None, "a@3"),
            (None, "b@6"),
            ("a@3", "a@7"),
            ("b@6", None),
        ]
        assert informer.store.keys() == ["team-a/a"]
        assert informer.state is InformerState.WATCHING
    assert server.watches[0].query["resourceVersion"] == "5"
    assert {s.query["labelSelector"] for s in server.seen} == {"x=y"}


@virtual_time
async def test_a_stream_that_ends_is_taken_up_where_it_ended() -> None:
    watches = [
        stream(frame("ADDED", pod("a", 6)), frame("BOOKMARK", pod("", 9))),
        stream(then="hang"),
    ]
    server = ScriptedServer(lists=[pod_list(5)], watches=watches)
    async with server, running(server):
        await until(lambda: len(server.watches) == 2)
    assert [w.query["resourceVersion"] for w in server.watches] == ["5", "9"]
    assert len(server.lists) == 1


@virtual_time
async def test_after_410_the_difference_is_delivered_with_deletions() -> None:
    lists = [
        pod_list(5, pod("same", 1), pod("changed", 2), pod("vanished", 3)),
        pod_list(20, pod("same", 1), pod("changed", 12), pod("new", 13)),
    ]
    watches = [stream(gone_frame()), stream(then="hang")]
    server = ScriptedServer(lists=lists, watches=watches)
    async with server, running(server) as (informer, told):
        await until(lambda: len(server.watches) == 2)
        assert told.changes[3:] == [
            ("changed@2", "changed@12"),
            (None, "new@13"),
            ("vanished@3", None),
        ]
        assert sorted(informer.store.keys()) == ["team-a/changed", "team-a/new", "team-a/same"]
    assert server.watches[1].query["resourceVersion"] == "20"


@virtual_time
async def test_an_object_that_was_replaced_by_a_namesake_is_deleted_and_added() -> None:
    lists = [pod_list(5, pod("a", 1, uid="u1")), pod_list(9, pod("a", 8, uid="u2"))]
    server = ScriptedServer(lists=lists, watches=[stream(gone_frame()), stream(then="hang")])
    async with server, running(server) as (_, told):
        await until(lambda: len(server.watches) == 2)
        assert told.changes == [(None, "a@1"), ("a@1", None), (None, "a@8")]


@virtual_time
async def test_streams_that_close_at_once_are_opened_ever_more_slowly() -> None:
    server = ScriptedServer(lists=[pod_list(5)], watches=[stream()])
    async with server, running(server):
        await asyncio.sleep(300)
    gaps = [b.at - a.at for a, b in pairwise(server.watches)]
    assert len(server.seen) < 30
    assert min(gaps) >= 0.1
    assert 15 <= gaps[-1] <= 30


@virtual_time
async def test_a_stream_that_lived_forgives_earlier_failures() -> None:
    async def long_lived(request: Any) -> Any:
        await asyncio.sleep(0)
        return await stream(frame("ADDED", pod("a", 6)), gap=60)(request)

    watches = [stream()] * 8 + [long_lived, stream(then="hang")]
    server = ScriptedServer(lists=[pod_list(5)], watches=watches)
    async with server, running(server):
        await until(lambda: len(server.watches) == 10, 1000)
    assert server.watches[-1].at - server.watches[-2].at < 60 + 0.3


@virtual_time
async def test_every_kind_of_failure_is_survived() -> None:
    lists = [html(502), status(403, "Forbidden"), pod_list(5, pod("a", 1))]
    watches = [
        html(500),
        status(401, "Unauthorized"),
        drop(),
        stream(b"<html>\n"),
        stream(frame("ADDED", pod("b", 6)), then="drop"),
        status(429, "TooManyRequests"),
        stream(frame("ADDED", pod("c", 7)), then="hang"),
    ]
    server = ScriptedServer(lists=lists, watches=watches)
    restarts: list[str] = []
    async with server, running(server, on_restart=restarts.append) as (informer, _):
        await until(lambda: len(informer.store) == 3, 200)
        assert informer.state is InformerState.WATCHING
        assert informer.last_error is None
    assert restarts[:2] == ["ServerError", "Forbidden"]
    assert len(server.lists) == 3


@pytest.mark.parametrize(
    ("refusal", "most_watches"),
    [(status(504, "Timeout", "Too large resource version"), 5), (hang(), 5), (status(400), 2)],
    ids=["refuses the future", "waits for the future", "does not know such versions"],
)
@virtual_time
async def test_a_server_that_does_not_take_our_version_is_listed_again(
    refusal: Any, most_watches: int
) -> None:
    async def watch(request: Any) -> Any:
        taken = request.query["resourceVersion"] == "7"
        return await (stream(then="hang") if taken else refusal)(request)

    lists = [pod_list(900, pod("a", 800)), pod_list(7, pod("b", 6))]
    server = ScriptedServer(lists=lists, watches=[watch])
    async with server, running(server) as (informer, _):
        await until(lambda: informer.store.keys() == ["team-a/b"], 200)
        await until(lambda: informer.state is InformerState.WATCHING)
    assert len(server.watches) <= most_watches


@virtual_time
async def test_a_server_that_was_restored_is_listed_again_though_it_takes_our_version() -> None:
    """kube-apiserver opens such a watch, and tells nothing until it has reached the version."""
    lists = [pod_list(900, pod("a", 800), pod("kept", 3)), pod_list(7, pod("b", 6), pod("kept", 3))]
    server = ScriptedServer(lists=lists, watches=[stream(then="drop"), stream(then="hang")])
    server.version = 7
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.synced.wait(), 5)
        informer.observe(pod("written", 901))
        await until(lambda: informer.store.keys() == ["team-a/kept", "team-a/b"])
        await until(lambda: len(server.watches) == 2)
    assert [watch.query["resourceVersion"] for watch in server.watches] == ["900", "7"]


@virtual_time
async def test_after_a_restore_an_object_of_the_same_version_may_be_another() -> None:
    lost, made = pod("a", 8, spec={"is": "lost"}), pod("a", 8, spec={"is": "made"})
    watches = [stream(then="drop"), stream(then="hang")]
    server = ScriptedServer(lists=[pod_list(9, lost), pod_list(8, made)], watches=watches)
    server.version = 8
    async with server, running(server) as (informer, _):
        await until(lambda: len(server.watches) == 2)
        (got,) = informer.store.list()
    assert got["spec"] == {"is": "made"}


@pytest.mark.parametrize("probe", [hang(), drop(), html(500)], ids=["hang", "drop", "500"])
@virtual_time
async def test_a_server_that_only_watches_is_watched_again_soon(probe: Any) -> None:
    watches = [stream(then="drop"), stream(then="hang")]
    server = ScriptedServer(lists=[pod_list(9, pod("a", 8))], watches=watches)
    server.probe = probe
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.synced.wait(), 5)
        await until(lambda: len(server.watches) == 2, 15)
    assert len(server.lists) == 1


@virtual_time
async def test_a_version_is_asked_for_without_labels_which_a_server_would_search_for() -> None:
    """With any object, it need not look at all others; rights may depend on fields."""
    asked: list[dict[str, str]] = []

    async def probe(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        return await pod_list(9)(request)

    watches = [stream(then="drop"), stream(then="hang")]
    server = ScriptedServer(lists=[pod_list(9)], watches=watches)
    server.probe = probe
    async with (
        server,
        running(server, label_selector="a=b", field_selector="metadata.name=c"),
    ):
        await until(lambda: len(server.watches) == 2)
    assert asked == [{"limit": "1", "fieldSelector": "metadata.name=c"}]
    assert server.watches[1].query["labelSelector"] == "a=b"


@virtual_time
async def test_a_server_that_hangs_is_given_up_and_asked_again() -> None:
    server = ScriptedServer(lists=[hang(), pod_list(5, pod("a", 1))], watches=[hang()])
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.synced.wait(), 200)
        seen: list[str] = []
        informer.add_listener(lambda i: seen.append(type(i.last_error).__name__))
        await until(lambda: len(server.watches) == 2, 200)
        assert seen == ["RequestTimeout"]
        assert informer.state is InformerState.RETRYING


@virtual_time
async def test_a_kind_that_is_not_served_is_reported_and_asked_for_slowly() -> None:
    lists = [html(404, "404 page not found")] * 3 + [pod_list(5, pod("a", 1))]
    server = ScriptedServer(lists=lists, watches=[stream(then="hang")])
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.settled.wait(), 5)
        assert not informer.available
        assert not informer.synced.is_set()
        await until(informer.synced.is_set, 200)
        await settle()
        assert informer.available
    gaps = [b.at - a.at for a, b in pairwise(server.lists)]
    assert all(gap > 29.9 for gap in gaps)


@virtual_time
async def test_a_kind_that_is_no_longer_served_keeps_its_objects() -> None:
    server = ScriptedServer(lists=[pod_list(5, pod("a", 1)), status(404)], watches=[status(404)])
    async with server, running(server) as (informer, told):
        await until(lambda: not informer.available)
        await asyncio.sleep(100)
        assert informer.store.keys() == ["team-a/a"]
        assert told.changes == [(None, "a@1")]


@virtual_time
async def test_a_handler_that_fails_is_logged_and_stops_nobody() -> None:
    def broken(_old: Pod | None, _new: Pod | None) -> None:
        raise RuntimeError("boom")

    server = ScriptedServer(lists=[pod_list(5, pod("a", 1), pod("b", 2))])
    async with server, server.client() as client:
        informer: Informer[Pod] = Informer(client, PODS)
        told = Recorder()
        informer.add_handler(broken)
        informer.add_handler(told)
        with structlog.testing.capture_logs() as logs:
            task = asyncio.ensure_future(informer.run())
            await asyncio.wait_for(informer.synced.wait(), 5)
        task.cancel()
        await asyncio.wait({task})
    assert told.changes == [(None, "a@1"), (None, "b@2")]
    assert [(entry["event"], entry["object"]) for entry in logs] == [
        ("informer handler failed", "team-a/a"),
        ("informer handler failed", "team-a/b"),
    ]


@virtual_time
async def test_an_object_that_cannot_be_read_is_left_out_and_named() -> None:
    def decode(data: bytes) -> Pod:
        import orjson

        obj: Pod = orjson.loads(data)
        if "bad" in obj:
            raise ValueError("field bad is bad")
        return obj

    lists = [pod_list(5, pod("a", 1, bad=1), pod("b", 2), pod("c", 3))]
    events = stream(frame("MODIFIED", pod("c", 6, bad=1)), frame("ADDED", pod("d", 7)), then="hang")
    server = ScriptedServer(lists=lists, watches=[events])
    with structlog.testing.capture_logs() as logs:
        async with server, running(server, decode=decode) as (informer, _):
            await until(lambda: "team-a/d" in informer.store)
            assert informer.store.keys() == ["team-a/b", "team-a/c", "team-a/d"]
    refused = [entry["object"] for entry in logs if "cannot be read" in entry["event"]]
    assert refused == ["team-a/a", "team-a/c"]


@virtual_time
async def test_only_failures_that_are_not_part_of_the_protocol_are_warnings() -> None:
    lists = [pod_list(5), pod_list(6), pod_list(7)]
    shed = {"Retry-After": "1"}  # while a definition changes, say
    watches = [status(410, "Expired"), *[status(429, headers=shed)] * 4, status(500)]
    with structlog.testing.capture_logs() as logs:
        async with (
            ScriptedServer(lists=lists, watches=[*watches, stream(then="hang")]) as server,
            running(server) as (informer, _),
        ):
            await until(lambda: informer.state is InformerState.WATCHING, seconds=100)
    got = [(entry["error"].split()[2].rstrip(":"), entry["log_level"]) for entry in logs]
    assert got == [("410", "info"), ("429", "info"), ("500", "warning")]


@virtual_time
async def test_a_handler_that_comes_late_is_told_what_is_known() -> None:
    server = ScriptedServer(lists=[pod_list(5, pod("a", 1))], watches=[stream(then="hang")])
    async with server, running(server) as (informer, _):
        await asyncio.wait_for(informer.synced.wait(), 5)
        late = Recorder()
        informer.add_handler(late)
        assert late.changes == [(None, "a@1")]


@virtual_time
async def test_a_page_that_came_too_late_makes_the_next_list_one_page() -> None:
    lists = [pod_list(5, pod("a", 1), token="t"), status(410, "Expired"), pod_list(9)]
    server = ScriptedServer(lists=lists, watches=[stream(then="hang")])
    async with server, running(server) as (informer, told):
        await asyncio.wait_for(informer.synced.wait(), 50)
        assert told.changes == [(None, "a@1"), ("a@1", None)]
    assert [s.query.get("limit") for s in server.lists] == ["500", "500", None]


@virtual_time
async def test_credentials_that_broke_are_a_failure_like_others() -> None:
    server = ScriptedServer(lists=[status(401, "Unauthorized")])
    async with server, running(server) as (informer, _):
        await asyncio.sleep(120)
        assert isinstance(informer.last_error, errors.Unauthorized)
        assert informer.state is InformerState.RETRYING
    assert 5 < len(server.lists) < 20


@virtual_time
async def test_an_object_that_cannot_be_indexed_is_left_out_alone() -> None:
    def by_label(obj: Pod) -> list[str]:
        return [obj["metadata"]["labels"]["team"]]

    good, late = pod("good", 4), pod("late", 7)
    good["metadata"]["labels"] = late["metadata"]["labels"] = {"team": "a"}
    listed, watched = pod("bad", 3), pod("worse", 6)
    watched["metadata"]["labels"] = {"team": []}
    failures: list[None] = []
    events = stream(frame("ADDED", watched), frame("ADDED", late), then="hang")
    server = ScriptedServer(lists=[pod_list(5, listed, good)], watches=[events])
    options = {"indexers": {"team": by_label}, "on_failed_object": lambda: failures.append(None)}
    async with server, running(server, **options) as (informer, told):
        await until(lambda: len(informer.store) == 2)
        assert [title(each) for each in informer.store.by_index("team", "a")] == [
            "good@4",
            "late@7",
        ]
        assert told.changes == [(None, "good@4"), (None, "late@7")]
        assert len(failures) == 2


@virtual_time
async def test_odd_versions_stop_nobody() -> None:
    odd = pod("odd", 3)
    odd["metadata"]["resourceVersion"] = "9" * 5_000
    number = pod("number", 4)
    number["metadata"]["resourceVersion"] = 4
    server = ScriptedServer(lists=[pod_list(5, odd, number, pod("good", 5))], watches=[hang()])
    async with server, running(server) as (informer, _):
        await informer.synced.wait()
        assert informer.store.keys() == ["team-a/odd", "team-a/good"]


@virtual_time
async def test_a_state_whose_version_makes_us_raise_is_left_out() -> None:
    reads: list[str] = []

    def meta(obj: Pod) -> ObjectKeyAndVersion:
        reads.append(obj["metadata"]["name"])
        if len(reads) == 2:
            raise ValueError("a bug")
        return identify(obj)

    events = stream(frame("MODIFIED", pod("a", 6)), then="hang")
    server = ScriptedServer(lists=[pod_list(5, pod("a", 3))], watches=[events])
    async with server, running(server, meta=meta) as (informer, told):
        await asyncio.sleep(1)
        assert informer.state is InformerState.WATCHING
        assert told.changes == [(None, "a@3")], "the state that could not be read is left out"


@virtual_time
async def test_a_listener_that_raises_stops_nobody() -> None:
    def refuse(informer: Informer[Pod]) -> None:
        raise ValueError("a bug of a listener")

    events = stream(frame("ADDED", pod("a", 6)), then="hang")
    server = ScriptedServer(lists=[pod_list(5)], watches=[events])
    async with server, running(server) as (informer, told):
        informer.add_listener(refuse)
        await until(lambda: told.changes)
        assert informer.state is InformerState.WATCHING


async def test_a_handler_that_is_added_again_is_told_what_is_known_and_changes_once() -> None:
    informer: Informer[Pod] = Informer(client=None, resource=PODS)  # type: ignore[arg-type]
    told = Recorder()
    informer.add_handler(told)
    informer.observe(pod("a", 3))
    informer.add_handler(told)
    informer.observe(pod("a", 4))
    assert told.changes == [(None, "a@3"), (None, "a@3"), ("a@3", "a@4")]
