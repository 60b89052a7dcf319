"""Certificates of the visibility server: what keeps them from being shown, and how."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api.config import load_configuration
from multiqueue.engine.engine import Engine
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.registry import IntegrationRegistry
from multiqueue.kube import certificates
from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import NotFound
from multiqueue.visibility.setup import VisibilityService

NOW = datetime.now(UTC)
AUTHORITY = certificates.create_authority("test", NOW)
OLD, NEW = (certificates.issue_certificate(AUTHORITY, "a", ["127.0.0.1"], NOW) for _ in range(2))


class Files:
    """A folder that somebody else writes, one file after the other."""

    def __init__(self) -> None:
        self.now = Serving(OLD.certificate, OLD.key, b"")

    async def load(self) -> Serving:
        return self.now


class NoApiServices:
    async def get(self, *_: Any, **__: Any) -> Any:
        raise NotFound(404)


def service(
    files: Files, text: str = "", *, server: str = "http://127.0.0.1:1"
) -> VisibilityService:
    client: Any = NoApiServices()
    config, kinds = load_configuration(text), IntegrationRegistry()
    context: Any = SimpleNamespace(
        client=client,
        clock=SystemClock(),
        config=config,
        informers=build_informers(client, config, kinds),
        integrations=kinds,
        drain_seconds=0.0,
    )
    workers: Any = None
    decision_service: Any = None
    starts: Any = None
    whatifs: Any = None
    credentials = Credentials.static(server)
    return VisibilityService(
        context,
        Engine(),
        credentials,
        files,
        address=("127.0.0.1", 0),
        leading=asyncio.Event(),
        registers_leader=False,
        workers=workers,
        fleet=workers,
        decision_service=decision_service,
        starts=starts,
        whatifs=whatifs,
        own_name="visibility.ns.svc",
    )


async def shown(port: int, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes | None:
    client = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    client.maximum_version = newest
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def test_half_of_a_new_certificate_is_not_shown_and_tried_again() -> None:
    files = Files()
    visibility = service(files)
    visibility.server.show(files.now)
    await visibility.server.start()
    before = await shown(visibility.server.port)
    files.now = Serving(NEW.certificate, OLD.key, b"")
    with pytest.raises(ssl.SSLError):
        await visibility.look_after_once()
    assert await shown(visibility.server.port) == before
    files.now = Serving(NEW.certificate, NEW.key, b"")
    await visibility.look_after_once()
    assert await shown(visibility.server.port) != before
    await visibility.server.stop()


async def test_the_least_version_of_the_configuration_holds() -> None:
    files = Files()
    visibility = service(files, "tls: {minVersion: VersionTLS13}")
    visibility.server.show(files.now)
    await visibility.server.start()
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        await shown(visibility.server.port, ssl.TLSVersion.TLSv1_2)
    await visibility.server.stop()


async def test_it_asks_the_api_server_again_after_a_failure() -> None:
    asked = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        visibility = service(Files(), server=f"http://127.0.0.1:{port}")
        for _ in range(2):
            asked.clear()
            running = asyncio.create_task(visibility.run())
            async with asyncio.timeout(20):
                await asked.wait()
            running.cancel()
            await asyncio.wait({running})
