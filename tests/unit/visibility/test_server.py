"""The server against users who take more than their share: each test is one of them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
import pytest

from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.visibility.answers import Answers
from multiqueue.visibility.authentication import AuthenticatedUser, Authenticator
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.decisions import DecisionAnswers
from multiqueue.visibility.refusals import StatusRefusal, unauthorized
from multiqueue.visibility.server import (
    MAX_ANSWERS,
    MAX_ANSWERS_OF_A_USER,
    VisibilityHttpServer,
)
from tests.virtual_time import virtual_time

REVIEWS = "/apis/remote.multiqueue.dev/v1alpha1/namespaces/team/dispatchreviews"
VERSION = "/version"


class Users:
    """Whoever names himself is believed; reviews take until `opened`."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.asked = asyncio.Semaphore(0)

    async def authenticate(self, certificate: bytes | None, headers: Any) -> AuthenticatedUser:
        self.asked.release()
        await self.opened.wait()
        name = dict(headers).get("User", "")
        if not name:
            raise unauthorized()
        return AuthenticatedUser(name=name)

    async def authorize(self, user: AuthenticatedUser, action: ApiAction) -> None:
        if user.name == "stranger":
            raise StatusRefusal(403, "Forbidden", "not you")


class SlowDesk:
    """Reviews take until `opened`."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def review(self, manifest: Any, namespace: str) -> Any:
        self.asked.release()
        await self.opened.wait()
        raise ValueError("tried")


class VisibilityFixture:
    def __init__(
        self, server: VisibilityHttpServer, users: Users, decision_service: SlowDesk
    ) -> None:
        self.server, self.users, self.decision_service = server, users, decision_service
        self.url = f"https://127.0.0.1:{server.port}"

    async def ask(self, method: str, path: str, user: str, body: bytes | None = None) -> int:
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(
                method, self.url + path, data=body, headers={"User": user} if user else {}
            ) as answer,
        ):
            await answer.read()
            return answer.status

    @contextlib.asynccontextmanager
    async def sending_for_ever(self, count: int, user: str) -> AsyncIterator[list[Any]]:
        """Connections that have sent the head of a POST, and half of its body."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        head = (
            f"POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nUser: {user}\r\nContent-Length: 999\r\n\r\n{{"
        )
        streams = []
        for _ in range(count):
            streams.append(
                await asyncio.open_connection("127.0.0.1", self.server.port, ssl=context)
            )
            streams[-1][1].write(head.encode())
        try:
            yield [reader for reader, _ in streams]
        finally:
            for _, writer in streams:
                writer.transport.abort()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[VisibilityFixture]:
    now, context = datetime.now(UTC), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = issue_certificate(create_authority("ca", now), "v", ["127.0.0.1"], now)
    users, decision_service, leading = Users(), SlowDesk(), asyncio.Event()
    leading.set()
    server = VisibilityHttpServer(
        Answers(cast("Any", None), lambda key: None),
        cast("Authenticator", users),
        cast("RightsReviewer", users),
        host="127.0.0.1",
        port=0,
        context=context,
        decisions=DecisionAnswers(cast("Any", decision_service), leading, lambda key: False),
    )
    server.show(Serving(pair.certificate, pair.key, b""))
    await server.start()
    try:
        yield VisibilityFixture(server, users, decision_service)
    finally:
        decision_service.opened.set()
        users.opened.set()
        await server.stop()


@virtual_time
async def test_bodies_that_never_end_keep_nobody_waiting() -> None:
    async with running() as world, world.sending_for_ever(110, "mallory"):
        async with asyncio.timeout(9):
            assert await world.ask("GET", VERSION, "alice") == 200
            assert await world.ask("POST", REVIEWS, "alice", b"{}") == 400


@virtual_time
async def test_who_sends_slowly_is_told_so() -> None:
    async with running() as world, world.sending_for_ever(1, "mallory") as (reader,):
        assert b"408" in await reader.readline()
        assert b"the body did not arrive within 10 s" in await reader.read()


@virtual_time
async def test_a_user_with_all_slots_of_a_user_leaves_those_of_others() -> None:
    async with running() as world:
        body = b'{"spec": {"manifest": {}}}'
        asked = [
            asyncio.create_task(world.ask("POST", REVIEWS, "mallory", body))
            for _ in range(MAX_ANSWERS_OF_A_USER)
        ]
        for _ in asked:
            await world.decision_service.asked.acquire()
        assert await world.ask("POST", REVIEWS, "mallory", body) == 429
        assert await world.ask("GET", VERSION, "alice") == 200
        world.decision_service.opened.set()
        assert await asyncio.gather(*asked) == [422] * MAX_ANSWERS_OF_A_USER
        assert await world.ask("POST", REVIEWS, "mallory", body) == 422


@virtual_time
async def test_no_slot_is_taken_before_it_is_known_who_asks() -> None:
    async with running() as world:
        world.users.opened.clear()
        asked = [asyncio.create_task(world.ask("GET", VERSION, "")) for _ in range(MAX_ANSWERS + 9)]
        for _ in asked:
            await world.users.asked.acquire()
        alice = asyncio.create_task(world.ask("GET", VERSION, "alice"))
        world.users.opened.set()
        assert await alice == 200
        assert set(await asyncio.gather(*asked)) == {401}


@virtual_time
async def test_a_review_that_takes_for_ever_gives_its_slot_back() -> None:
    async with running() as world:
        body = b'{"spec": {"manifest": {}}}'
        assert await world.ask("POST", REVIEWS, "alice", body) == 504


@virtual_time
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"7", 400),
        (b'{"spec": []}', 400),
        (b'{"spec": {"manifest": [["a", 1]]}}', 400),
        (b'{"spec": {"manifest": "job"}}', 400),
        (b'{"spec": {"manifest": {"a": %b}}}' % (b"[" * 900 + b"]" * 900), 400),
        (b'{"spec": {"manifest": {"a": "%b"}}}' % (b"x" * 64 * 1024), 413),
    ],
)
async def test_a_body_that_is_no_review_is_refused(body: bytes, status: int) -> None:
    async with running() as world:
        assert await world.ask("POST", REVIEWS, "alice", body) == status


async def test_an_answer_of_any_length_is_not_streamed_after_a_head() -> None:
    async with running() as world:
        decisions = "/apis/remote.multiqueue.dev/v1alpha1/dispatchdecisions"
        assert await world.ask("HEAD", decisions, "stranger") == 403
        assert await world.ask("HEAD", decisions, "alice") == 405
