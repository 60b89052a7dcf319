"""How a watch ends: lost rights and expired credentials, whatever the reader takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import HttpServer
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, action_of
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.resources import API_VERSION, FleetResource
from multiqueue.visibility.fleet.rights import FleetRights
from multiqueue.visibility.fleet.rows import FleetRow
from multiqueue.visibility.fleet.watch import FleetWatches
from multiqueue.visibility.refusals import StatusRefusal, unauthorized
from tests.builders.workloads import T0
from tests.unit.visibility.test_fleet_feed import Rows

BOB = AuthenticatedUser(name="bob")
PATH = f"/apis/{API_VERSION}/namespaces/a/standings?watch=1"


class WatchWorld:
    """A watch of one row; ``lost`` is a resource on which the reader has no right any more."""

    def __init__(self) -> None:
        self.rows = Rows(Journal(T0))
        self.rows.set("a/one", "Queued")
        self.lost = ""
        self.expired = False

    async def authorize(self, _: Any, action: ApiAction) -> None:
        if self.lost in {action.resource, action.group}:
            raise StatusRefusal(403, "Forbidden", f"no right on {self.lost}")

    async def recheck(self) -> None:
        if self.expired:
            raise unauthorized()

    def object_of(self, _: FleetResource, row: FleetRow) -> dict[str, Any]:
        return row.status

    async def answer(self, http: HttpRequest) -> Any:
        shown: Any = self
        rights, closing = FleetRights(shown), asyncio.Event()
        watches = FleetWatches(
            shown,
            shown,
            rights=rights,
            journal=self.rows.journal,
            closing=closing,
            interval=0.01,
            review=0.01,
        )
        action = action_of(http.method, http.path, http.query)
        return await watches.serve(http, action, BOB, self.rows, self.recheck)


@asynccontextmanager
async def watching(world: WatchWorld) -> AsyncIterator[aiohttp.StreamReader]:
    server = HttpServer(world.answer, host="127.0.0.1", port=0)
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{server.port}{PATH}") as answer,
            asyncio.timeout(10),
        ):
            yield answer.content
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("lost", "code"), [("workloads", 403), ("fleet.multiqueue.dev", 403), ("credentials", 401)]
)
async def test_a_watch_ends_once_a_right_or_the_credentials_are_gone(lost: str, code: int) -> None:
    world = WatchWorld()
    async with watching(world) as stream:
        assert orjson.loads(await stream.readline())["object"] == {"phase": "Queued"}
        world.lost, world.expired = lost, lost == "credentials"
        last = orjson.loads(await stream.readline())
        assert (last["type"], last["object"]["code"]) == ("ERROR", code)
        assert await stream.read() == b""
