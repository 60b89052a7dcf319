"""What-ifs on the live fleet, asked for as users do: through the API server, by their rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden
from multiqueue.kube.resources import JOBS, WORKLOADS
from tests.integration.test_fleet_api import RBAC, Reader, waiting
from tests.integration.test_visibility import submit

WHATIFS = "/apis/fleet.multiqueue.dev/v1alpha1/whatifs"
pytestmark = pytest.mark.usefixtures("no_rate")


@pytest.fixture
def no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiqueue.visibility.fleet.whatifs.REFILL_SECONDS", 0.001)


@dataclass
class Asker:
    reader: Reader

    async def ask(self, *changes: str, path: str = WHATIFS, user: str = "", **spec: Any) -> Any:
        reader = self.reader
        headers = {"Authorization": await reader.asker.credentials.authorization() or ""}
        if user:
            headers["Impersonate-User"] = user
        url, context = reader.asker.credentials.server + path, reader.asker.credentials.ssl_context
        body = {"spec": {"changes": list(changes), **spec}}
        async with reader.asker.session.post(
            url, headers=headers, json=body, ssl=context
        ) as answer:
            return answer.status, orjson.loads(await answer.read())


async def test_more_quota_starts_who_waits_and_nothing_is_written() -> None:
    async with waiting("one", "two") as reader:
        asker = Asker(reader)
        versions = [each["metadata"] for each in (await reader.client.list(WORKLOADS)).items]
        status, found = await asker.ask(f"quota cq/{reader.asker.cluster_queue} cpu=1")
        after = [each["metadata"] for each in (await reader.client.list(WORKLOADS)).items]
    assert status == 200, found
    assert found["kind"] == "WhatIf"
    rows = found["status"]["workloads"]
    # Jobs of one second have no order among themselves.
    assert {row["after"]["job"] for row in rows} == {"Job/one", "Job/two"}
    assert sum(row["effect"] == "starts now" for row in rows) == 1
    assert found["status"]["sums"]["starts"] == 1
    assert after == versions
