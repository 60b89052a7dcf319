"""A server that sends without end: what is held of it is bounded, and the error says so."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import aclosing, suppress

import pytest
from aiohttp import web

from multiqueue.kube.errors import AnswerTooLarge, ServerError, TransportError
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import PODS
from multiqueue.kube.sizes import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_BYTES,
    MAX_OBJECT_BYTES,
    MAX_PARTS,
    estimate_memory,
)
from tests.unit.kube.scripted_server import (
    Answer,
    ScriptedServer,
    frame,
    html,
    json_answer,
    pod,
    pod_list,
    status,
    stream,
)

CHUNK = b"x" * (256 << 10)


class Flood:
    """Answers without end, and counts what was taken."""

    def __init__(self, start: bytes = b"", *, status: int = 200) -> None:
        self.sent = 0
        self._start, self._status = start, status

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=self._status)
        await response.prepare(request)
        await response.write(self._start or b"{")
        with suppress(ConnectionError):
            while True:
                await response.write(CHUNK)
                self.sent += len(CHUNK)
        return response


async def test_an_answer_without_end_is_cut_off() -> None:
    flood = Flood(b'{"metadata":{"name":"')
    async with ScriptedServer(flood) as server, server.client() as client:
        with pytest.raises(
            AnswerTooLarge, match='GET pods "n/a": the answer is larger than 16 MiB'
        ):
            await client.get(PODS, "a", namespace="n")
    assert flood.sent < 2 * MAX_ANSWER_BYTES


async def test_an_error_without_end_is_an_error() -> None:
    flood = Flood(b"no way ", status=500)
    async with ScriptedServer(flood) as server, server.client() as client:
        with pytest.raises(ServerError, match="no way xxx") as caught:
            await client.get(PODS, "a", namespace="n")
    assert len(str(caught.value)) < 400
    assert flood.sent < MAX_ERROR_BYTES + (8 << 20)  # what both ends' buffers hold


async def test_a_line_without_end_ends_a_watch() -> None:
    flood = Flood(b'{"type":"ADDED","object":{"a":"')
    async with ScriptedServer(watches=[flood]) as server, server.client() as client:
        watch = client.watch(PODS, resource_version="1")
        async with aclosing(watch):
            with pytest.raises(AnswerTooLarge, match="a line of the stream is longer than 8 MiB"):
                await anext(watch)
    assert flood.sent < 2 * MAX_OBJECT_BYTES


async def test_what_grows_when_it_is_unpacked_is_cut_off() -> None:
    packed = gzip.compress(b" " * (64 << 20))

    async def bomb(_: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with ScriptedServer(bomb) as server, server.client() as client:
        with pytest.raises(AnswerTooLarge):
            await client.get(PODS, "a", namespace="n")


async def test_headers_without_end_are_cut_off() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\n")
        with suppress(ConnectionError):
            for _ in range(100_000):
                request.transport.write(b"X-A: " + b"y" * 4000 + b"\r\n")
                await asyncio.sleep(0)
                if request.transport.is_closing():
                    break
        return web.Response()

    async with ScriptedServer(flood) as server, server.client() as client:
        with pytest.raises(TransportError):
            await client.get(PODS, "a", namespace="n")


async def test_many_values_in_few_bytes_are_refused_before_they_are_read() -> None:
    body = b'{"metadata":{},"items":[' + b"[]," * MAX_PARTS + b"[]]}"
    async with ScriptedServer(lists=[raw(body)]) as server, server.client() as client:
        with pytest.raises(AnswerTooLarge, match="more than 1000000 values"):
            await client.list(PODS)


async def test_a_page_that_is_too_large_is_asked_for_again_in_smaller_pieces() -> None:
    big = raw(b'{"items":[' + b" " * MAX_ANSWER_BYTES + b"]}")
    answers = [big, big, pod_list(9, pod("a", 1), token="t"), pod_list(9, pod("b", 2))]
    async with ScriptedServer(lists=answers) as server, server.client() as client:
        got = await client.list(PODS)
    assert [item["metadata"]["name"] for item in got.items] == ["a", "b"]
    assert [seen.query["limit"] for seen in server.lists] == ["500", "62", "7", "7"]


async def test_a_page_of_500_large_objects_is_taken() -> None:
    pods = [pod(f"pod-{n}", n, spec={"args": ["--flag=value"] * 1000}) for n in range(500)]
    async with ScriptedServer(lists=[pod_list(9, *pods)]) as server, server.client() as client:
        assert len((await client.list(PODS)).items) == 500
    assert len(server.lists) == 1


async def test_an_event_of_three_mebibytes_is_taken() -> None:
    event = frame("ADDED", pod("a", 2, spec={"args": ["x" * (3 << 20)]}))
    async with ScriptedServer(watches=[stream(event)]) as server, server.client() as client:
        watch = client.watch(PODS, resource_version="1")
        async with aclosing(watch):
            assert len((await anext(watch)).raw) > 3 << 20


async def test_a_collection_beyond_its_limit_is_not_held() -> None:
    """Objects of usual sizes, but ever more of them: first in pages, then by a watch."""
    pods = [pod(f"pod-{n}", n, spec={"a": "x" * 1000}) for n in range(10)]
    limit = 5 * estimate_memory(frame("", pods[0]))
    async with ScriptedServer(lists=[pod_list(9, *pods)]) as server, server.client() as client:
        informer: Informer[dict[str, object]] = Informer(client, PODS, max_bytes=limit)
        failed = asyncio.Event()
        informer.add_listener(lambda each: failed.set() if each.last_error else None)
        task = asyncio.ensure_future(informer.run())
        await failed.wait()
        task.cancel()
        await asyncio.wait({task})
    assert isinstance(informer.last_error, AnswerTooLarge)
    assert str(informer.last_error).startswith("LIST pods: all objects together take more than")
    assert len(informer.store) <= 6
    assert not informer.synced.is_set()


async def test_a_collection_that_shrinks_is_listed_again() -> None:
    pods = [pod(f"pod-{n}", n, spec={"a": "x" * 1000}) for n in range(3)]
    limit = 3 * estimate_memory(frame("", pods[0]))
    more = [frame("ADDED", pod(f"more-{n}", 10 + n, spec={"a": "x" * 1000})) for n in range(3)]
    lists = [pod_list(9, *pods), pod_list(20, pods[0])]
    async with (
        ScriptedServer(
            lists=lists, watches=[stream(*more, then="hang"), stream(then="hang")]
        ) as server,
        server.client() as client,
    ):
        informer: Informer[dict[str, object]] = Informer(client, PODS, max_bytes=limit)
        errors: list[object] = []
        shrunk = asyncio.Event()

        def listen(each: Informer[dict[str, object]]) -> None:
            errors.append(each.last_error)
            if len(server.lists) == 2 and each.last_error is None:
                shrunk.set()

        informer.add_listener(listen)
        task = asyncio.ensure_future(informer.run())
        await shrunk.wait()
        task.cancel()
        await asyncio.wait({task})
    assert any(isinstance(error, AnswerTooLarge) for error in errors)
    assert informer.store.keys() == ["team-a/pod-0"]


@pytest.mark.parametrize(
    "answer",
    [
        json_answer([]),
        json_answer({"metadata": "x"}),
        json_answer({"metadata": {"labels": ["a"]}}),
        json_answer({"metadata": {"name": 5}}),
        html(200, "<html>"),
    ],
)
async def test_an_answer_that_is_no_object_is_told_with_the_request(answer: Answer) -> None:
    async with ScriptedServer(answer) as server, server.client() as client:
        with pytest.raises(TransportError, match='GET pods "n/a": the answer cannot be read'):
            await client.get(PODS, "a", namespace="n")


async def test_an_object_that_is_nested_too_deep_is_not_taken() -> None:
    deep: object = "x"
    for _ in range(240):
        deep = [deep]
    async with (
        ScriptedServer(json_answer({"metadata": {}, "spec": deep})) as server,
        server.client() as client,
    ):
        with pytest.raises(TransportError, match="nested more than 200 levels"):
            await client.get(PODS, "a", namespace="n")


async def test_a_worker_that_echoes_the_request_shows_no_token() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text=f"\x1b[31m{dict(request.headers)}\r\n")

    async with ScriptedServer(echo) as server, server.client() as client:
        with pytest.raises(ServerError) as caught:
            await client.get(PODS, "a", namespace="n")
    assert "'Authorization': 'Bearer [redacted]'" in str(caught.value)
    assert str(caught.value).isprintable()


async def test_the_error_of_a_watch_and_warnings_show_no_token() -> None:
    heard: list[str] = []
    error = status(403, "Forbidden", "s3cret may not", headers={"Warning": '299 - "s3cret"'})
    ok = json_answer(pod("a", 1), headers={"Warning": '299 - "s3cret"'})
    line = frame("ERROR", {"code": 500, "message": "s3cret"})
    async with (
        ScriptedServer(ok, watches=[error, stream(line)]) as server,
        server.client(on_warning=heard.append) as client,
    ):
        await client.get(PODS, "a", namespace="n")
        for _ in range(2):
            watch = client.watch(PODS, resource_version="1")
            async with aclosing(watch):
                with pytest.raises(Exception, match=r"\[redacted\]") as caught:
                    await anext(watch)
                assert "s3cret" not in str(caught.value)
    assert heard == ["[redacted]"]


def raw(body: bytes) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    return answer
