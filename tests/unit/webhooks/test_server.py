"""What strangers and odd objects get from the server of the webhooks: words, at once."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
import pytest

from multiqueue.api.config import Configuration
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.webhooks.endpoints import CONVERT, Endpoints, mutate_path
from multiqueue.webhooks.server import WebhookServer
from tests.unit.webhooks.lookups import Queues

MUTATE_JOB, VALIDATE_JOB = "/mutate-batch-v1-job", "/validate-batch-v1-job"

JSON = {"Content-Type": "application/json"}
DEEP = b'{"a":' * 900 + b"1" + b"}" * 900


@dataclass
class Hooks:
    session: aiohttp.ClientSession
    url: str

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str] = JSON
    ) -> tuple[int, Any]:
        async with self.session.post(self.url + path, data=body, headers=headers) as answer:
            text = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, orjson.loads(text)["response"] if is_json else text.decode()


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    now, context = datetime.now(UTC), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = issue_certificate(create_authority("ca", now), "w", ["127.0.0.1"], now)
    table = Endpoints(Queues(), Configuration(), build_registry(Configuration())).table()
    server = WebhookServer(table, host="127.0.0.1", port=0, context=context)
    server.show(Serving(pair.certificate, pair.key, b""))
    server.knowing.set()
    await server.start()
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Hooks(session, f"https://127.0.0.1:{server.port}")
    await server.stop()


def review(obj: bytes = b"{}", *, uid: bytes = b'"u"', kind: bytes = b"Job", **more: Any) -> bytes:
    rest = b"".join(b',"%b":%b' % (k.encode(), orjson.dumps(v)) for k, v in more.items())
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":'
        b'"CREATE","uid":%b,"kind":{"kind":"%b"},"object":%b%b}}' % (uid, kind, obj, rest)
    )


OBJECTS = {
    "900 levels deep": (DEEP, "nested more than 200 levels deep"),
    "a text": (b'"x"', "request.object: must be a mapping"),
    "a list": (b"[1]", "request.object: must be a mapping"),
    "a number": (b"7", "request.object: must be a mapping"),
}


@pytest.mark.parametrize(("obj", "why"), OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("path", [MUTATE_JOB, VALIDATE_JOB])
async def test_an_object_that_can_be_none_is_refused(
    hooks: Hooks, path: str, obj: bytes, why: str
) -> None:
    status, told = await hooks.post(path, review(obj))
    if status == 200:
        assert (told["uid"], told["allowed"]) == ("u", False)
        told = told["status"]["message"]
    assert why in told


@pytest.mark.parametrize(
    "body",
    {
        "empty": b"",
        "no JSON": b"{",
        "a list": b"[]",
        "null": b"null",
        "no request": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        "a uid that is a list": review(uid=b"[1]"),
        "a uid that is a mapping": review(uid=b'{"a":1}'),
        "an empty uid": review(uid=b'""'),
        "another version": review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        "another kind": review().replace(b"AdmissionReview", b"ConversionReview"),
        "more than any object has": review(b'{"a":[' + b"[]," * 60_000 + b"1]}"),
    }.values(),
)
async def test_what_is_no_review_is_a_bad_request(hooks: Hooks, body: bytes) -> None:
    status, told = await hooks.post(MUTATE_JOB, body)
    assert status == 400
    assert told.startswith("no ")


@pytest.mark.parametrize(
    "more",
    [
        {"operation": [1]},
        {"operation": "PATCH"},
        {"namespace": [1]},
        {"name": {}},
        {"oldObject": 1},
    ],
)
async def test_a_request_with_fields_of_wrong_types_is_refused_by_name(
    hooks: Hooks, more: dict[str, Any]
) -> None:
    status, told = await hooks.post(MUTATE_JOB, review(**more))
    assert (status, told["allowed"]) == (200, False)
    assert told["status"]["message"].startswith(f"request.{next(iter(more))}: must be")


async def test_an_endpoint_answers_for_its_own_kind(hooks: Hooks) -> None:
    for kind in (b"Job", b"Nope"):
        status, told = await hooks.post(mutate_path("Workload"), review(kind=kind))
        assert (status, told["allowed"]) == (200, False)
        assert told["status"]["message"] == "request.kind.kind: must be Workload"


async def test_another_content_type_or_method_is_refused(hooks: Hooks) -> None:
    for headers in ({"Content-Type": "text/plain"}, {}):
        status, told = await hooks.post(MUTATE_JOB, review(), headers)
        assert status == 400
        assert "send application/json" in told
    headers = {**JSON, "Content-Encoding": "gzip"}
    status, told = await hooks.post(MUTATE_JOB, gzip.compress(review()), headers)
    assert (status, told[:5]) == (400, "no Ad")
    async with hooks.session.get(hooks.url + MUTATE_JOB) as answer:
        assert answer.status == 405
    assert (await hooks.post("/nowhere", review()))[0] == 404


NEWER = {"a job": "/mutate-newer-dev-v1-job", "our kind": "/validate-kueue-x-k8s-io-v1-new"}


@pytest.mark.parametrize("path", NEWER.values(), ids=NEWER)
async def test_a_kind_that_only_a_newer_version_knows_is_sent_again(
    hooks: Hooks, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Let through, it would run outside of quota until the newer version leads."""
    for _ in range(3):
        status, told = await hooks.post(path, review(kind=b"Thing"))
        assert (status, told["uid"], told["allowed"]) == (200, "u", False)
        assert (told["status"]["code"], told["status"]["reason"]) == (429, "TooManyRequests")
        assert told["status"]["details"] == {"retryAfterSeconds": 1}
        assert "does not know Thing" in told["status"]["message"]
    assert capsys.readouterr().out.count("clients are told to ask again") == 1
    leaving = b'{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}'
    for body in (review(leaving), review(operation="DELETE")):
        assert await hooks.post(path, body) == (200, {"uid": "u", "allowed": True})
    status, told = await hooks.post(path, b"{")
    assert (status, told[:3]) == (400, "no ")


async def test_the_connection_ends_so_that_another_replica_is_asked(hooks: Hooks) -> None:
    url = hooks.url + NEWER["a job"]
    async with hooks.session.post(url, data=review(), headers=JSON) as answer:
        assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"uid": "u", "desiredAPIVersion": 1, "objects": []}, "request.desiredAPIVersion"),
        ({"uid": "u", "desiredAPIVersion": "v1", "objects": {}}, "request.objects"),
        ({"uid": "u", "desiredAPIVersion": "v1", "objects": [1]}, "desiredAPIVersion"),
        (
            {"uid": "u", "desiredAPIVersion": "kueue.x-k8s.io/v1beta2", "objects": [[], "x"]},
            "objects[0]: must be an object",
        ),
    ],
)
async def test_a_conversion_that_cannot_be_is_a_failure_with_words(
    hooks: Hooks, request_: dict[str, Any], why: str
) -> None:
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    status, told = await hooks.post(CONVERT, orjson.dumps({**head, "request": request_}))
    assert (status, told["uid"], told["result"]["status"]) == (200, "u", "Failure")
    assert told["result"]["message"].startswith(why)
    assert (await hooks.post(CONVERT, orjson.dumps(head)))[0] == 400


async def test_slow_senders_do_not_keep_reviews_waiting(hooks: Hooks) -> None:
    async def never_ends() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    slow = [
        asyncio.create_task(hooks.session.post(hooks.url + MUTATE_JOB, data=never_ends()))
        for _ in range(90)
    ]
    await asyncio.sleep(0)
    status, told = await hooks.post(MUTATE_JOB, review())
    assert (status, told["allowed"]) == (200, True)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
