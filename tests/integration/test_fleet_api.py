"""The fleet API, asked for as users do: through the API server, by their rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import JOBS
from multiqueue.runtime.manager import Manager
from tests.integration.test_visibility import Asker, managed, submit

FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def read(
    asker: Asker, path: str, *, user: str = "", headers: dict[str, str] | None = None, **query: str
) -> tuple[int, Any]:
    """Ask the API server for something of the group."""
    own = {"Authorization": await asker.credentials.authorization() or "", **(headers or {})}
    if user:
        own["Impersonate-User"] = user
    url, context = asker.credentials.server + FLEET + path, asker.credentials.ssl_context
    async with asker.session.get(url, headers=own, params=query, ssl=context) as answer:
        body = await answer.read()
        return answer.status, orjson.loads(body) if body else None


@asynccontextmanager
async def waiting(*jobs: str) -> AsyncIterator[tuple[Asker, KubeClient, Manager]]:
    """A cluster with jobs that wait in the LocalQueue "a"."""
    async with managed() as (asker, managers), KubeClient(asker.credentials) as client:
        await managers[0].visibility.registered.wait()  # type: ignore[union-attr]
        await submit(asker, client, *((name, "a") for name in jobs))

        async def are_listed() -> bool:
            status, body = await read(asker, f"/namespaces/{asker.namespace}/standings")
            rows = body.get("items", ()) if status == 200 else ()
            return len(rows) == len(jobs) and all(row["status"]["position"] for row in rows)

        async with asyncio.timeout(20):
            while not await are_listed():
                await asyncio.sleep(0.02)
        yield asker, client, managers[0]


async def test_standings_say_phase_position_and_reason() -> None:
    async with waiting("one", "two") as (asker, _, _):
        status, body = await read(asker, f"/namespaces/{asker.namespace}/standings")
        assert status == 200
        assert body["kind"] == "StandingList"
        rows = {row["status"]["job"]: row["status"] for row in body["items"]}
        assert {job: row["position"] for job, row in rows.items()} == {"Job/one": 1, "Job/two": 2}
        print(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
        _, table = await read(
            asker, f"/namespaces/{asker.namespace}/standings", headers={"Accept": TABLE}
        )
        print(table)
        for path in ("quotas", "workers", "totals", "shares", "changes", "totals/fleet"):
            status, found = await read(asker, f"/{path}")
            print(path, status, found)
            assert status == 200
        name = body["items"][0]["metadata"]["name"]
        for path in (
            f"/namespaces/{asker.namespace}/stories/{name}",
            f"/namespaces/{asker.namespace}/standings/{name}",
            f"/namespaces/{asker.namespace}/lines/a",
            f"/lines/{asker.cluster_queue}",
        ):
            status, found = await read(asker, path)
            print(path, status, found)
            assert status == 200
