"""What the API server of a worker answers, and which one it is."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
import yaml
from aiohttp import web

from multiqueue.api import names
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS
from tests.abuse.fleet import BYSTANDER, Fleet
from tests.abuse.hostile_worker import (
    TOKEN,
    Handler,
    answer_as_a_worker,
    flood,
    hostile_worker,
)
from tests.integration.waiting import condition, until_one
from tests.tcp_gate import gate_to

MEBIBYTES = 1 << 20
MOST_GROWTH = 100 * MEBIBYTES
"""Of the manager's memory under answers of 1.5 GB: some answers of 16 MiB, and Python's slack."""


async def test_a_worker_that_echoes_the_request_shows_no_token(fleet: Fleet) -> None:
    async def echo(request: web.BaseRequest) -> web.StreamResponse:
        text = f"\x1b[2J\x1b]0;owned\x07{request.method}\r\n{dict(request.headers)}"
        return web.Response(status=401, text=text)

    position = fleet.program.log.stat().st_size
    async with hostile_worker(echo) as kubeconfig, fleet.registered(kubeconfig) as worker:
        message = (await fleet.refusal(worker))["message"]
        _, shown = await fleet.cli("clusters", "-o", "yaml")
    assert "'Authorization': 'Bearer [redacted]'" in message
    assert message.isprintable()
    assert len(message) < 1000
    log = fleet.program.log.read_bytes()[position:]
    for text in (message, shown, log.decode()):
        assert TOKEN not in text
        assert "owned" not in text


async def test_the_managers_own_cluster_is_no_worker(fleet: Fleet) -> None:
    """Under another address, with a Job that looks like one to be collected."""
    name = fleet.unused("precious")
    kubeconfig = yaml.safe_load(fleet.kubeconfig.read_text())
    origin = {names.MULTIKUEUE_ORIGIN: "multikueue"}
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": origin,
            "annotations": {names.PREBUILT_WORKLOAD_NAME: "gone"},
        },
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    uid = (await fleet.manager.create(JOBS, job, namespace=BYSTANDER))["metadata"]["uid"]
    cluster = kubeconfig["clusters"][0]["cluster"]
    async with gate_to(cluster["server"]) as gate:
        cluster["server"] = gate.url
        async with fleet.registered(kubeconfig) as worker:
            message = (await fleet.refusal(worker))["message"]
            assert "leads to the manager's own cluster, which cannot be a worker" in message
            code, told = await fleet.cli("clusters", "verify", worker)
            assert code == 1
            assert "it is the manager's own cluster" in told
            found = await fleet.manager.get(JOBS, name, namespace=BYSTANDER)
            assert found["metadata"]["uid"] == uid
            assert not found["metadata"].get("deletionTimestamp")
    await fleet.manager.delete(JOBS, name, namespace=BYSTANDER, propagation="Background")


async def list_without_end(request: web.BaseRequest) -> web.StreamResponse:
    if request.path.endswith("/workloads") and not request.query.get("watch"):
        return await flood(request, b'{"metadata":{},"items":[{"metadata":{"name":"')
    return await answer_as_a_worker(request)


async def object_without_end(request: web.BaseRequest) -> web.StreamResponse:
    if request.path.endswith("/kube-system"):
        return await flood(request, b'{"metadata":{"uid":"')
    return await answer_as_a_worker(request)


async def watch_without_end(request: web.BaseRequest) -> web.StreamResponse:
    if request.path.endswith("/workloads") and request.query.get("watch"):
        return await flood(request, b'{"type":"ADDED","object":{"metadata":{"name":"')
    return await answer_as_a_worker(request)


async def error_without_end(request: web.BaseRequest) -> web.StreamResponse:
    return await flood(request, b"I refuse ", status=500)


async def ever_more_objects(request: web.BaseRequest) -> web.StreamResponse:
    """Pages of objects of usual sizes, and each names a next one."""
    if not request.path.endswith("/workloads") or request.query.get("watch"):
        return await answer_as_a_worker(request)
    page = int(request.query.get("continue", "0"))
    items = [_workload(f"w-{page}-{number}") for number in range(500)]
    meta = {"resourceVersion": "1", "continue": str(page + 1)}
    return web.Response(text=json.dumps({"metadata": meta, "items": items}))


def _workload(name: str) -> dict[str, Any]:
    labels = {names.MULTIKUEUE_ORIGIN: "multikueue", "team": "x" * 20_000}
    return {"metadata": {"name": name, "namespace": BYSTANDER, "uid": name, "labels": labels}}


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (list_without_end, "GET workloads: the answer is larger than 16 MiB"),
        (object_without_end, "the answer is larger than 16 MiB"),
        (watch_without_end, "a line of the stream is longer than 8 MiB"),
        (error_without_end, "I refuse"),
    ],
    ids=["a list", "an object", "a line of a watch", "an error"],
)
async def test_an_answer_of_1500_megabytes_is_not_held(
    fleet: Fleet, handle: Handler, words: str
) -> None:
    before = fleet.program.resident_bytes()
    async with hostile_worker(handle) as kubeconfig, fleet.registered(kubeconfig) as worker:
        message = (await fleet.refusal(worker, seconds=60))["message"]
        assert words in message
        growth = await watch_growth(fleet, before, seconds=5)
    assert growth < MOST_GROWTH


async def test_a_collection_without_end_is_not_held(fleet: Fleet) -> None:
    """The limit is 256 MiB for each kind; all of it is let go again."""
    async with hostile_worker(ever_more_objects) as config, fleet.registered(config) as worker:
        message = (await fleet.refusal(worker, seconds=90))["message"]
        assert "all objects together take more than 256 MiB" in message
        await fleet.run_job()


async def watch_growth(fleet: Fleet, before: int, *, seconds: float) -> int:
    """Return by how much the manager's memory grew at most, while others' jobs run."""
    ends, most = time.monotonic() + seconds, 0
    job = asyncio.ensure_future(fleet.run_job())
    while time.monotonic() < ends or not job.done():
        most = max(most, fleet.program.resident_bytes() - before)
        await asyncio.sleep(0.1)
    await job
    return most


async def test_a_worker_of_garbage_is_told_of(fleet: Fleet) -> None:
    """Objects of wrong types, nested without end, or none at all."""
    answers = [b"[]", b'{"items":"x"}', b"[" * 100_000, b'{"items":[' + b"[" * 100_000]

    async def garbage(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/kube-system"):
            return web.Response(body=b'{"metadata":"x"}' if len(answers) % 2 else b"\xff")
        if request.path.endswith("/workloads"):
            return web.Response(body=answers[0])
        return await answer_as_a_worker(request)

    async with hostile_worker(garbage) as kubeconfig, fleet.registered(kubeconfig) as worker:
        message = (await fleet.refusal(worker))["message"]
        assert "cannot be read" in message
        await until_one(
            fleet.manager,
            MULTIKUEUE_CLUSTERS,
            worker,
            lambda obj: "attempts: 2" in condition(obj, "Active").get("message", ""),
        )
