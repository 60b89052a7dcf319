from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multiqueue.kube.events import MAX_QUEUE, EventRecorder, build_reference
from multiqueue.kube.resources import PODS
from tests.unit.kube.scripted_server import ScriptedServer, drop, html, json_answer, pod, status
from tests.virtual_time import LoopClock, virtual_time

REGARDING = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "namespace": "team-a",
    "name": "train",
    "uid": "u1",
    "resourceVersion": "7",
}


@asynccontextmanager
async def recording(server: ScriptedServer) -> AsyncIterator[EventRecorder]:
    async with server.client() as client:
        recorder = EventRecorder(client, "kueue-admission", instance="host-1", clock=LoopClock())
        task = asyncio.ensure_future(recorder.run())
        try:
            yield recorder
        finally:
            task.cancel()
            await asyncio.wait({task})


@virtual_time
async def test_an_event_says_what_happened_to_which_object() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        recorder.event(REGARDING, "Normal", "QuotaReserved", "Quota reserved in a")
        await asyncio.sleep(1)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/team-a/events")
    body = seen.json
    assert body.pop("metadata")["name"].startswith("train.")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": REGARDING,
        "type": "Normal",
        "reason": "QuotaReserved",
        "message": "Quota reserved in a",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "kueue-admission", "host": "host-1"},
        "reportingComponent": "kueue-admission",
        "reportingInstance": "host-1",
    }


@virtual_time
async def test_a_repetition_raises_the_count_of_the_event_that_is_there() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        for _ in range(3):
            recorder.event(REGARDING, "Warning", "Pending", "no quota")
            await asyncio.sleep(60)
        recorder.event(REGARDING, "Warning", "Pending", "other words")
        await asyncio.sleep(1)
    assert [s.method for s in server.seen] == ["POST", "PATCH", "PATCH", "POST"]
    name = server.seen[0].json["metadata"]["name"]
    assert server.seen[2].path == f"/api/v1/namespaces/team-a/events/{name}"
    assert server.seen[2].json == {"count": 3, "lastTimestamp": "2026-01-01T00:02:00Z"}
    assert server.seen[3].json["metadata"]["name"] != name


@virtual_time
async def test_the_texts_of_written_events_are_not_kept() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        message, uid = f"no quota in {server!r}", f"u-{server!r}"
        regarding = {**REGARDING, "uid": uid}
        before = sys.getrefcount(message), sys.getrefcount(uid)
        recorder.event(regarding, "Normal", "Pending", message)
        assert sys.getrefcount(message) > before[0]
        await asyncio.sleep(60)
        for number in range(8):  # each writer holds what it wrote last
            recorder.event(REGARDING, "Normal", "Other", f"other {number}")
        await asyncio.sleep(60)
        assert (sys.getrefcount(message), sys.getrefcount(uid)) == before
        recorder.event(regarding, "Normal", "Pending", message)
        await asyncio.sleep(1)
    assert [s.method for s in server.seen] == ["POST"] * 9 + ["PATCH"]


@virtual_time
async def test_a_message_that_is_no_unicode_does_not_fail_the_caller() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        recorder.event(REGARDING, "Normal", "Odd", "half a character: \ud800")
        recorder.event(REGARDING, "Normal", "Pending", "no quota")
        await asyncio.sleep(60)
    assert [s.json["reason"] for s in server.seen] == ["Pending"]


@virtual_time
async def test_repetitions_before_the_first_write_are_one_write() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        for _ in range(50):
            recorder.event(REGARDING, "Warning", "Pending", "no quota")
        await asyncio.sleep(1)
    assert [(s.method, s.json["count"]) for s in server.seen] == [("POST", 50)]


@virtual_time
async def test_an_event_that_the_server_forgot_is_made_anew() -> None:
    answers = [json_answer({}), status(404, "NotFound"), json_answer({})]
    async with ScriptedServer(*answers) as server, recording(server) as recorder:
        recorder.event(REGARDING, "Normal", "Pending", "no quota")
        await asyncio.sleep(7200)
        recorder.event(REGARDING, "Normal", "Pending", "no quota")
        await asyncio.sleep(1)
    assert [s.method for s in server.seen] == ["POST", "PATCH", "POST"]
    assert server.seen[2].json["count"] == 1


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [(html(500), 3), (drop(), 3), (status(403, "Forbidden", "namespace is being terminated"), 1)],
    ids=["500", "drop", "403"],
)
@virtual_time
async def test_what_cannot_be_written_is_dropped_in_the_end(answer: Any, attempts: int) -> None:
    async with ScriptedServer(answer) as server, recording(server) as recorder:
        recorder.event(REGARDING, "Normal", "Pending", "no quota")
        await asyncio.sleep(300)
        assert recorder.dropped == 1
    assert len(server.seen) == attempts


@virtual_time
async def test_a_burst_beyond_the_queue_is_dropped_and_counted() -> None:
    async with ScriptedServer(json_answer({})) as server, server.client() as client:
        told = []
        recorder = EventRecorder(
            client, "test", clock=LoopClock(), on_dropped=lambda: told.append(1)
        )
        for number in range(MAX_QUEUE + 10):
            recorder.event(REGARDING, "Normal", "Pending", f"message {number}")
        assert recorder.dropped == len(told) == 10


@virtual_time
async def test_texts_are_cut_to_what_the_server_takes() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        recorder.event({**REGARDING, "name": "n" * 253}, "Normal", "R" * 200, "m" * 5000)
        await asyncio.sleep(1)
    body = server.seen[0].json
    assert len(body["metadata"]["name"]) == 253
    assert len(body["reason"]) == 128
    assert len(body["message"]) == 1024
    assert body["message"].endswith("…")


@virtual_time
async def test_an_event_of_a_cluster_scoped_object_is_in_the_default_namespace() -> None:
    reference = {"apiVersion": "v1", "kind": "Node", "name": "gpu-1", "uid": "u"}
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        recorder.event(reference, "Normal", "Seen", "hello")
        await asyncio.sleep(1)
    assert server.seen[0].path == "/api/v1/namespaces/default/events"


def test_a_reference_names_the_object_and_its_version() -> None:
    want = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "a",
        "uid": "uid-a",
        "resourceVersion": "3",
    }
    assert build_reference(pod("a", 3)) == want
    assert build_reference({"metadata": pod("a", 3)["metadata"]}, PODS) == want


@virtual_time
async def test_events_let_other_requests_go_first() -> None:
    async with ScriptedServer(json_answer({})) as server, server.client() as client:
        recorder = EventRecorder(client, "test", clock=LoopClock())
        task = asyncio.ensure_future(recorder.run())
        await client.limiter.acquire(write=True)
        await client.limiter.acquire(write=True)
        client.limiter.release(seconds=1.0, write=True)  # a slow server, and one step under way
        recorder.event(REGARDING, "Normal", "Pending", "no quota")
        await asyncio.sleep(60)
        assert not server.seen
        client.limiter.release(write=True)
        await asyncio.sleep(1)
        assert len(server.seen) == 1
        task.cancel()
        await asyncio.wait({task})


@virtual_time
async def test_an_event_that_is_held_can_be_taken_back() -> None:
    async with ScriptedServer(json_answer({})) as server, recording(server) as recorder:
        recorder.event(REGARDING, "Normal", "QuotaReserved", "quota", hold_seconds=3)
        await asyncio.sleep(2)
        assert recorder.take_back(REGARDING, "QuotaReserved") == "quota"
        recorder.event(REGARDING, "Normal", "QuotaReserved", "again", hold_seconds=3)
        await asyncio.sleep(4)
        assert recorder.take_back(REGARDING, "QuotaReserved") is None
    assert [seen.json["message"] for seen in server.seen] == ["again"]
