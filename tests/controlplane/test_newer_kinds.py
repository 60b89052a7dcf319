"""While two versions serve webhooks, jobs of kinds that only the newer one knows are taken."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.webhooks.endpoints import Handler
from multiqueue.webhooks.review import ReviewRequest, ReviewVerdict
from multiqueue.webhooks.server import WebhookServer
from tests.controlplane.conftest import StartControlPlane

HOST = "127.0.0.1"
PATH = "/mutate-newer-example-com-v1-thing"
COUNT = 4


def suspend(request: ReviewRequest) -> ReviewVerdict:
    """What the newer replica does; a ConfigMap stands for a job."""
    return ReviewVerdict(changed={**request.obj, "data": {"suspend": "true"}})


@contextlib.asynccontextmanager
async def replica(serving: Serving, handlers: Mapping[str, Handler]) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = WebhookServer(handlers, host=HOST, port=0, context=context)
    server.show(serving)
    server.knowing.set()
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def service(*ports: int) -> AsyncIterator[tuple[int, list[int]]]:
    """An address whose connections lead to the replicas in turns; gives who was chosen, too."""
    turns, chosen = itertools.cycle(ports), list[int]()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen.append(next(turns))
        there = await asyncio.open_connection(HOST, chosen[-1])
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    server = await asyncio.start_server(lead, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], chosen


def configuration(port: int, authority: bytes) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "newer"},
        "webhooks": [
            {
                "name": "mthing.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {
                    "url": f"https://{HOST}:{port}{PATH}",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [{**rule, "operations": ["CREATE"]}],
                "objectSelector": {"matchLabels": {"kind": "thing"}},
            }
        ],
    }


@pytest.mark.timeout(180)
async def test_kubectl_asks_again_until_a_replica_knows_the_kind(
    start_control_plane: StartControlPlane,
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "newer", controllers=False)
    now = datetime.now(UTC)
    authority = create_authority("ca", now)
    pair = issue_certificate(authority, "w", [HOST], now)
    serving = Serving(pair.certificate, pair.key, b"")

    def apply(value: Any) -> str:
        return plane.kubectl("create", "--output=json", "-f", "-", stdin=json.dumps(value))

    async with (
        replica(serving, {}) as older,
        replica(serving, {PATH: suspend}) as newer,
        service(older, newer) as (port, chosen),
    ):
        await asyncio.to_thread(apply, configuration(port, authority.certificate))
        for turn in range(COUNT):
            metadata = {
                "name": f"thing-{turn}",
                "namespace": "default",
                "labels": {"kind": "thing"},
            }
            thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            made = json.loads(await asyncio.to_thread(apply, thing))
            assert made["data"] == {"suspend": "true"}
    assert set(chosen) == {older, newer}
