"""Factors of estimates in the ConfigMap: read once, written rarely, whatever else is in there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import orjson
import pytest
from structlog.testing import capture_logs

from multiqueue.forecast.calibration import Calibration
from multiqueue.forecast.kept_factors import KEY, PAUSE_SECONDS, KeptFactors
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden, NotFound, ServerError
from multiqueue.views.start import StartStage
from tests.builders.engine import T0
from tests.virtual_time import virtual_time

DAY = timedelta(days=1)


class ConfigMapClient:
    """A client of one ConfigMap; `refusal` is what it answers instead."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.data = data
        self.writes: list[float] = []
        self.refusal: ApiError | None = None

    async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        self._check()
        return {"data": self.data} if self.data else {}

    async def patch(self, _resource: Any, _name: str, body: Any, *, namespace: str) -> None:
        self._check()
        assert self.data is not None
        self.data |= body["data"]
        self.writes.append(asyncio.get_running_loop().time())

    async def create(self, _resource: Any, body: Any) -> None:
        assert body["metadata"] == {"name": "multiqueue-workers", "namespace": "ns"}
        self.data = {}
        await self.patch(None, "", body, namespace="ns")

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        if self.data is None:
            raise NotFound(404, reason="NotFound", message="gone")


class World:
    """A calibration, and what keeps its factors."""

    def __init__(self, client: ConfigMapClient) -> None:
        self.client, self.calibration = client, Calibration(lambda *_: None)
        self.kept = KeptFactors(cast("KubeClient", client), "ns", self.calibration)

    def factor(self) -> float:
        return self.calibration.find_factor(StartStage.WHOLE, T0 + DAY, T0)

    async def run(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.kept.run()


@virtual_time
async def test_a_factor_is_written_at_most_once_in_ten_minutes_and_read_by_the_next() -> None:
    client = ConfigMapClient({"worker1": "{}"})
    world = World(client)
    running = asyncio.create_task(world.run(3.5 * PAUSE_SECONDS))
    world.calibration.restore({"whole-longer": 2})
    for _ in range(30):
        world.calibration.on_kept()
        await asyncio.sleep(PAUSE_SECONDS / 10)
    await running
    assert len(client.writes) <= 4
    gaps = [b - a for a, b in zip(client.writes, client.writes[1:], strict=False)]
    assert min(gaps) >= PAUSE_SECONDS
    assert client.data is not None
    assert client.data["worker1"] == "{}"
    world = World(client)
    assert world.factor() == 1.0
    await world.run(1.0)
    assert world.factor() == 2.0
    assert len(client.writes) <= 4, "what was read is not written"


@virtual_time
async def test_without_the_config_map_it_is_made() -> None:
    world = World(client := ConfigMapClient())
    world.calibration.restore({"quota-1h": 1.5})
    world.calibration.on_kept()
    await world.run(1.0)
    assert client.data == {KEY: '{"quota-1h":1.5}'}


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"whole-longer": "x"}'])
def test_an_entry_that_somebody_broke_counts_as_none(text: str) -> None:
    @virtual_time
    async def run() -> None:
        world = World(ConfigMapClient({KEY: text}))
        await world.run(1.0)
        assert world.factor() == 1.0

    run()


@virtual_time
async def test_without_the_right_it_says_so_and_tries_again() -> None:
    world = World(client := ConfigMapClient({}))
    client.refusal = Forbidden(403, reason="Forbidden", message="no")
    world.calibration.restore({"quota-1h": 1.5})
    world.calibration.on_kept()
    with capture_logs() as logs:
        await world.run(1.0)
    told = [each["event"].partition(",")[0].partition(";")[0] for each in logs]
    assert told == ["factors of estimates not read", "factors of estimates not written"]
    client.refusal = None
    await world.run(PAUSE_SECONDS * 2)
    assert len(client.writes) == 1


@virtual_time
async def test_what_could_not_be_read_yet_is_read_later_and_not_overwritten() -> None:
    world = World(client := ConfigMapClient({KEY: '{"whole-longer":2}'}))
    client.refusal = ServerError(503, reason="ServiceUnavailable", message="starting")
    running = asyncio.create_task(world.run(PAUSE_SECONDS))
    world.calibration.restore({"quota-1h": 1.5})
    world.calibration.on_kept()
    await asyncio.sleep(PAUSE_SECONDS / 4)
    assert not client.writes
    client.refusal = None
    await running
    assert world.factor() == 2.0
    assert client.data is not None
    assert orjson.loads(client.data[KEY]) == {"quota-1h": 1.5, "whole-longer": 2.0}
