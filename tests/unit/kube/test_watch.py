from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from multiqueue.kube import errors
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import PODS
from multiqueue.kube.wire import WatchEvent
from tests.unit.kube.scripted_server import (
    Answer,
    ScriptedServer,
    drop,
    frame,
    gone_frame,
    hang,
    html,
    pod,
    status,
    stream,
)
from tests.virtual_time import virtual_time


async def watch(client: KubeClient) -> list[WatchEvent]:
    async with aclosing(client.watch(PODS, resource_version="5", timeout_seconds=60)) as events:
        return [event async for event in events]


@virtual_time
async def test_events_come_as_bytes_of_their_objects() -> None:
    answer = stream(frame("ADDED", {"a": 1}) + frame("BOOKMARK", {"b": 2}))
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        got = await watch(client)
    assert got == [WatchEvent("ADDED", b'{"a":1}'), WatchEvent("BOOKMARK", b'{"b":2}')]
    assert server.seen[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "60",
    }


@virtual_time
async def test_lines_may_be_cut_anywhere() -> None:
    line = frame("ADDED", {"text": "äöü"})
    answer = stream(*(line[i : i + 1] for i in range(len(line))))
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        (got,) = await watch(client)
    assert got.raw.decode() == '{"text":"äöü"}'


@virtual_time
async def test_a_line_may_be_megabytes_long() -> None:
    big = {"data": "x" * 5_000_000}
    answer = stream(frame("ADDED", big), frame("DELETED", {}))
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        got = await watch(client)
    assert [e.type for e in got] == ["ADDED", "DELETED"]
    assert len(got[0].raw) == 5_000_011


@virtual_time
async def test_a_last_line_that_was_cut_off_is_no_event() -> None:
    answer = stream(frame("ADDED", {"a": 1}), b'{"type":"MODIFIED","object":{"a":')
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        assert [e.type for e in await watch(client)] == ["ADDED"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(410, "Expired", "too old"), errors.Gone),
        (stream(gone_frame()), errors.Gone),
        (
            stream(frame("ERROR", {"kind": "Status", "code": 500, "message": "x"})),
            errors.ServerError,
        ),
        (stream(frame("ERROR", "what?")), errors.TransportError),
        (html(502), errors.ServerError),
        (stream(b"<html>\n<body>\n"), errors.TransportError),
        (stream(b"boom\n"), errors.TransportError),
        (status(401, "Unauthorized", "who"), errors.Unauthorized),
        (stream(frame("ADDED", {}), then="drop"), errors.TransportError),
        (drop(), errors.TransportError),
        (hang(), errors.RequestTimeout),
        (stream(frame("ADDED", {}), then="hang"), errors.RequestTimeout),
    ],
)
@virtual_time
async def test_a_broken_stream_is_an_error_and_never_an_event(
    answer: Answer, error: type[errors.KubeError]
) -> None:
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        with pytest.raises(error) as caught:
            await watch(client)
    assert type(caught.value) is error
    assert str(caught.value).startswith("WATCH pods")


@virtual_time
async def test_a_stream_that_opens_is_told_before_its_first_event() -> None:
    opened = asyncio.Event()
    async with ScriptedServer(watches=[stream(then="hang")]) as server, server.client() as client:
        events = client.watch(PODS, resource_version="1", on_open=opened.set)
        task = asyncio.ensure_future(anext(events))
        await asyncio.wait_for(opened.wait(), 5)
        task.cancel()
        await asyncio.wait({task})
        await events.aclose()


@virtual_time
async def test_a_peer_that_falls_silent_beyond_its_own_timeout_is_given_up() -> None:
    loop = asyncio.get_running_loop()
    answer = stream(frame("ADDED", pod("a", 6)), then="hang")
    async with ScriptedServer(watches=[answer]) as server, server.client() as client:
        begun = loop.time()
        with pytest.raises(errors.RequestTimeout):
            await watch(client)
    assert 60 < loop.time() - begun < 90


MARK = frame("BOOKMARK", {"metadata": {"resourceVersion": "6"}})


@pytest.mark.parametrize(
    ("marks", "least", "most"),
    [
        pytest.param(4, 170.0, 190.0, id="three bookmarks are missed"),
        pytest.param(1, 610.0, 625.0, id="one bookmark is no rhythm"),
    ],
)
@virtual_time
async def test_a_server_that_told_regularly_is_given_up_soon_after_it_falls_silent(
    marks: int, least: float, most: float
) -> None:
    """Behind a proxy a stream may be dead, and its connection well."""
    loop = asyncio.get_running_loop()
    answers = [stream(*[MARK] * marks, gap=60.0), stream(then="hang")]
    async with ScriptedServer(watches=answers) as server, server.client() as client:
        assert len([e async for e in client.watch(PODS, resource_version="5")]) == marks
        begun = loop.time()
        with pytest.raises(errors.RequestTimeout):
            async for _ in client.watch(PODS, resource_version="6", timeout_seconds=600):
                pass
    assert least < loop.time() - begun < most
