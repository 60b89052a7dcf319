"""Notifications: what they say, how many there may be, and what a bad receiver gets."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from multiqueue.api import v1beta2 as api
from multiqueue.api.config.types import NotificationReceiver
from multiqueue.api.notify_reasons import NotifyReason, parse_notify
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.controllers.notifications.pace import NamespacePace
from multiqueue.controllers.notifications.receiver import MAX_WAITING, SIGNATURE, ReceiverQueue
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.views.notifications import MAX_MESSAGE, say_change, tell_change, tell_late
from tests.builders.workloads import T0
from tests.virtual_time import virtual_time

Json = dict[str, Any]
Answer = Callable[[web.Request], Any]
SECRET = "T00-secret-token"
KEY = "signing-key"


def tell(namespace: str = "team", message: str = "", **status: Any) -> Json:
    owner = {"kind": "Job", "name": "train", "controller": True, "uid": "o", "apiVersion": "v1"}
    meta = {"name": "wl", "namespace": namespace, "uid": "u", "ownerReferences": [owner]}
    workload = decode(
        api.Workload, {"metadata": meta, "spec": {"queueName": "lq"}, "status": status}
    )
    return tell_change(workload, NotifyReason.FAILED, T0, message)


def test_a_notification_has_no_more_than_it_needs() -> None:
    assert tell(message="x" * 9000, clusterName="w1") == {
        "id": "u/failed/2026-01-01T00:00:00Z",
        "time": "2026-01-01T00:00:00Z",
        "reason": "failed",
        "namespace": "team",
        "workload": "wl",
        "job": "Job/train",
        "localQueue": "lq",
        "gpus": 0,
        "worker": "w1",
        "message": "x" * MAX_MESSAGE,
        "omitted": 0,
    }


def test_a_chat_gets_one_line_whose_markup_is_text() -> None:
    said = say_change(tell(message="<!channel> & <http://evil|bank>", clusterName="w1"))
    assert said == {
        "text": "team: Job/train has failed on w1: &lt;!channel&gt; &amp; &lt;http://evil|bank&gt;"
    }
    said = say_change({**tell(), "omitted": 7})
    assert said["text"].endswith("(7 earlier notifications of this namespace were left out)")


def test_a_late_job_is_told_with_both_ranges_and_the_times_in_utc() -> None:
    def foresee(*minutes: int) -> Json:
        names = ("earliest", "at", "latest", "made")
        times = [format_time(T0 + timedelta(minutes=each)) for each in minutes]
        return {**dict(zip(names, times, strict=True)), "ahead": 3, "stage": "quota"}

    workload = decode(api.Workload, {"metadata": {"name": "wl", "namespace": "team", "uid": "u"}})
    first, last = foresee(10, 20, 30, 0), foresee(60, 80, 95, 40)
    told = tell_late(workload, first, last, T0 + timedelta(minutes=40))
    assert told["message"] == (
        "it was to start from 00:10 to 00:30; now: about 01:20 (01:00 to 01:35); "
        "3 jobs before it (times are UTC)"
    )
    times = ("at", "earliest", "latest")
    assert told["foreseen"] == {name: first[name] for name in times}
    assert told["start"] == {name: last[name] for name in times}
    assert say_change(told)["text"].startswith("team: wl is later than foreseen: it was to start ")


def test_reasons_are_read_and_a_wrong_one_is_named() -> None:
    assert parse_notify(" finished, failed,") == {NotifyReason.FINISHED, NotifyReason.FAILED}
    with pytest.raises(ValueError, match='"done" is unknown; choose from admitted, started, '):
        parse_notify("done")


def test_a_namespace_may_send_thirty_at_once_and_then_ten_a_minute() -> None:
    pace = NamespacePace()
    got = [pace.take("a", 0.0) for _ in range(40)]
    assert got == [0] * 30 + [None] * 10
    assert pace.take("b", 0.0) == 0, "another namespace is not held back"
    assert pace.take("a", 5.9) is None
    assert pace.take("a", 6.1) == 11, "those that were left out are counted"
    assert [pace.take("a", 1e6) for _ in range(31)] == [0] * 30 + [None]


# ---------------------------------------------------------------- sending


class Chat:
    """A receiver that answers as told; `got` are the bodies, `at` the times."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.got: list[Json] = []
        self.at: list[float] = []
        self.paths: list[str] = []
        self.signatures: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append(await request.json())
        self.at.append(asyncio.get_running_loop().time())
        self.paths.append(request.path)
        self.signatures.append(request.headers.get(SIGNATURE, ""))
        if self.signatures[-1]:
            made = hmac.new(KEY.encode(), await request.read(), "sha256").hexdigest()
            assert self.signatures[-1] == f"sha256={made}"
        found: web.StreamResponse = await self.answer(request)
        return found


def status(*codes: int) -> Answer:
    """Answers with these statuses in turn, and then with 200."""
    left = list(codes)

    async def answer(_: web.Request) -> web.Response:
        code = left.pop(0) if left else 200
        return web.Response(status=code, headers={"Location": "/elsewhere"})

    return answer


@asynccontextmanager
async def sending(
    answer: Answer, folder: Path, **settings: Any
) -> AsyncIterator[tuple[ReceiverQueue, Chat, ManagerMetrics]]:
    chat, metrics = Chat(answer), ManagerMetrics()
    app = web.Application()
    app.router.add_post("/{path:.*}", chat.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    file = folder / "url"
    file.write_text(f"http://127.0.0.1:{port}/{SECRET}\n")
    receiver = NotificationReceiver(name="chat", url_file=str(file), **settings)
    queue = ReceiverQueue(receiver, metrics)
    async with aiohttp.ClientSession() as session:
        task = asyncio.create_task(queue.run(session))
        try:
            yield queue, chat, metrics
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await runner.cleanup()


def count(metrics: ManagerMetrics, result: str) -> float:
    labels = {"receiver": "chat", "result": result, "replica_role": "standalone"}
    return metrics.registry.get_sample_value("multiqueue_notifications_total", labels) or 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


@virtual_time
async def test_each_namespace_that_is_named_is_told_about(tmp_path: Path) -> None:
    async with sending(status(), tmp_path, namespaces=("team",)) as (queue, chat, metrics):
        queue.put(tell("other"))
        queue.put(tell())
        await until(lambda: count(metrics, "sent") == 1)
        assert chat.got == [tell()]
        assert chat.paths == [f"/{SECRET}"]


@virtual_time
async def test_with_a_key_the_body_is_signed_and_an_empty_key_sends_nothing(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    async with sending(status(), tmp_path, key_file=str(key)) as (queue, chat, metrics):
        queue.put(tell())
        await until(lambda: count(metrics, "sent") == 1)
        assert chat.signatures[0].startswith("sha256=")
        with structlog.testing.capture_logs() as logs:
            key.write_text("")
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 1)
            key.write_bytes(bytes(range(128, 160)))
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 2)
        assert logs[0]["problem"] == f"{key}: it is empty; write a key into it"
        assert f"{key}: it is not ASCII text; write text into it" in logs[-1]["problem"]
    async with sending(status(), tmp_path) as (queue, chat, metrics):
        queue.put(tell())
        await until(lambda: count(metrics, "sent") == 1)
        assert chat.signatures == [""]


@virtual_time
async def test_a_chat_is_sent_text(tmp_path: Path) -> None:
    async with sending(status(), tmp_path, format="Slack") as (queue, chat, metrics):
        queue.put(tell())
        await until(lambda: count(metrics, "sent") == 1)
        assert chat.got == [{"text": "team: Job/train has failed"}]


@pytest.mark.parametrize(
    ("codes", "asked", "result"),
    [
        ((500, 429), 3, "sent"),
        ((500, 500, 500), 3, "failed"),
        ((404,), 1, "failed"),
        ((302,), 1, "failed"),
    ],
    ids=["it is tried again", "three times", "a 4xx is final", "no redirect is followed"],
)
@virtual_time
async def test_what_a_refusal_leads_to(
    tmp_path: Path, codes: tuple[int, ...], asked: int, result: str
) -> None:
    async with sending(status(*codes), tmp_path) as (queue, chat, metrics):
        queue.put(tell())
        await until(lambda: count(metrics, result) == 1)
        assert chat.paths == [f"/{SECRET}"] * asked
        pauses = [round(later - at) for at, later in pairwise(chat.at)]
        assert pauses == [2, 10][: asked - 1]
        queue.put(tell())
        await until(lambda: len(chat.got) > asked)


@virtual_time
async def test_a_receiver_that_never_answers_is_given_up_and_the_url_is_not_logged(
    tmp_path: Path,
) -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(1000)
        return web.Response()

    with structlog.testing.capture_logs() as logs:
        async with sending(answer, tmp_path) as (queue, chat, metrics):
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 1)
            assert len(chat.got) == 3
            (tmp_path / "url").write_text(f"gopher://{SECRET}")
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 2)
            (tmp_path / "url").write_text(f"http://{SECRET}.invalid:99999/")
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 3)
            (tmp_path / "url").unlink()
            queue.put(tell())
            await until(lambda: count(metrics, "failed") == 4)
    problems = [entry["problem"] for entry in logs]
    assert "TimeoutError" in problems[0]
    assert "does not begin with https:// or http://" in problems[1]
    assert problems[3].endswith("url: No such file or directory")
    assert SECRET not in str(logs)


@virtual_time
async def test_what_waits_for_a_receiver_is_bounded(tmp_path: Path) -> None:
    async with sending(status(), tmp_path) as (queue, chat, metrics):
        for number in range(MAX_WAITING + 5):
            queue.put(tell(f"ns-{number}"))
        assert count(metrics, "dropped") == 5
        await until(lambda: count(metrics, "sent") == MAX_WAITING)
        assert chat.got[0]["namespace"] == "ns-5", "the oldest were dropped"
        for _ in range(31):
            queue.put(tell("busy"))
        assert count(metrics, "limited") == 1
