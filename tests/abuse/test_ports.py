"""Somebody who can reach the manager's ports, or may ask its visibility API."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import pytest

from multiqueue.kube.resources import MUTATING_WEBHOOKS
from tests.abuse.fleet import BYSTANDER, POLL_SECONDS, Fleet

ATTACKER = "research"
REMOTE = "/apis/remote.multiqueue.dev/v1alpha1/namespaces"
JSON = {"Content-Type": "application/json"}
DEEP = b'{"a":' * 900 + b"1" + b"}" * 900
SECONDS = 9.0
"""Less than the deadline of bodies: nobody waits until the attack is over."""


@contextlib.asynccontextmanager
async def holding(
    url: str, count: int, sent: bytes, trust: ssl.SSLContext | None
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that have sent this much, and send nothing more."""
    address = urlsplit(url)
    streams = [
        await asyncio.open_connection(address.hostname, address.port, ssl=trust)
        for _ in range(count)
    ]
    try:
        for _, writer in streams:
            writer.write(sent)
        yield [reader for reader, _ in streams]
    finally:
        for _, writer in streams:
            writer.transport.abort()


def post(path: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request whose body never ends."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Length: 999", *JSON_LINES]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", "{"]).encode()


JSON_LINES = ["Content-Type: application/json"]


async def webhook_address(fleet: Fleet, name: str = "mjob.kb.io") -> tuple[str, ssl.SSLContext]:
    """Where the API server asks about Jobs, and whom it trusts there."""
    configuration = (await fleet.manager.list(MUTATING_WEBHOOKS)).items[0]
    hook = next(each for each in configuration["webhooks"] if each["name"] == name)
    config = hook["clientConfig"]
    trust = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
    return config["url"], trust


def review(obj: bytes, uid: bytes = b'"u"') -> bytes:
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":%b,'
        b'"operation":"CREATE","kind":{"kind":"Job"},"object":%b}}' % (uid, obj)
    )


async def ask_visibility(fleet: Fleet, namespace: str) -> int:
    """Ask about a manifest that is none, as the other team would; 422 or 400 is an answer."""
    body: dict[str, Any] = {"spec": {"manifest": {}}}
    path = f"{REMOTE}/{namespace}/dispatchreviews"
    headers = {
        "Authorization": await fleet.manager.credentials.authorization() or "",
        "Impersonate-User": "alice",
        "Impersonate-Group": "system:masters",
    }
    url, trust = fleet.manager.credentials.server, fleet.manager.credentials.ssl_context
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body, headers=headers, ssl=trust) as answer,
    ):
        return answer.status


async def test_bodies_that_never_end_leave_the_visibility_api_to_others(fleet: Fleet) -> None:
    credentials = fleet.manager.credentials
    headers = {
        "Authorization": await credentials.authorization() or "",
        "Impersonate-User": "mallory",
        "Impersonate-Group": "system:masters",
    }
    sent = post(f"{REMOTE}/{ATTACKER}/dispatchreviews", headers)
    # A leader tells its address a moment after it is ready, and another process cannot say when.
    while await ask_visibility(fleet, BYSTANDER) == 503:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
    async with holding(credentials.server, 110, sent, credentials.ssl_context) as readers:
        async with asyncio.timeout(SECONDS):
            assert await ask_visibility(fleet, BYSTANDER) in {400, 422}
        async with asyncio.timeout(30):
            assert b"408" in await readers[0].readline()


@pytest.mark.parametrize(
    "sent", [b"", b"POST / HTTP/1.1\r\nHost", post("/mutate-batch-v1-job", {})]
)
async def test_connections_that_say_little_leave_the_webhooks_to_others(
    fleet: Fleet, sent: bytes
) -> None:
    url, trust = await webhook_address(fleet)
    async with holding(url, 600, sent, trust), aiohttp.ClientSession() as session:
        async with asyncio.timeout(SECONDS):
            async with session.post(url, data=review(b"{}"), headers=JSON, ssl=trust) as answer:
                assert answer.status == 200
            await fleet.until_jobs_are_taken()  # the API server asks the webhooks, too
        await fleet.assert_unharmed()


@pytest.mark.parametrize("sent", [b"", b"GET /readyz HTTP/1.1\r\nHost"])
async def test_connections_that_say_little_leave_the_probes_to_the_kubelet(
    fleet: Fleet, sent: bytes
) -> None:
    async with holding(fleet.program.health_url, 300, sent, None):
        await fleet.program.until_ready(seconds=SECONDS)


@pytest.mark.parametrize(
    ("body", "headers", "status", "why"),
    [
        (review(DEEP), JSON, 400, "nested more than"),
        (review(b'"x"'), JSON, 200, "request.object: must be a mapping"),
        (review(b"[1]"), JSON, 200, "request.object: must be a mapping"),
        (review(b"{}", uid=b"[1]"), JSON, 400, "request.uid: must be a text"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', JSON, 400, "request"),
        (review(b"{}").replace(b"io/v1", b"io/v9"), JSON, 400, "no AdmissionReview of"),
        (review(b"{}"), {"Content-Type": "text/plain"}, 400, "send application/json"),
    ],
    ids=["deep", "text", "list", "uid", "no request", "version", "content type"],
)
async def test_what_is_no_review_is_refused_with_a_reason(
    fleet: Fleet, body: bytes, headers: Mapping[str, str], status: int, why: str
) -> None:
    url, trust = await webhook_address(fleet)
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers, ssl=trust) as answer,
    ):
        assert answer.status == status
        told = await answer.read()
        assert why in told.decode()
        if status == 200:
            assert orjson.loads(told)["response"]["allowed"] is False


async def test_a_conversion_that_makes_no_sense_is_refused_with_a_reason(fleet: Fleet) -> None:
    url, trust = await webhook_address(fleet)
    url = url.replace(urlsplit(url).path, "/convert")
    request = {"uid": "u", "desiredAPIVersion": "kueue.x-k8s.io/v1beta2", "objects": [[]]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    async with aiohttp.ClientSession(headers=JSON) as session:
        body = orjson.dumps({**head, "request": request})
        async with session.post(url, data=body, ssl=trust) as answer:
            assert b"objects[0]: must be an object" in await answer.read()
        async with session.post(url, data=orjson.dumps(head), ssl=trust) as answer:
            assert answer.status == 400
