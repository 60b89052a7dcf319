"""When things happen on a simulated cluster, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.embedded.cluster.lifecycle import (
    EXIT_CODE,
    RUN_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
)
from multiqueue.embedded.server.server import ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import JOBS, PODS
from tests.integration.test_simcluster import NAMESPACE, create_job, phases
from tests.integration.waiting import api_client, is_true, simulation, until, until_one
from tests.virtual_time import LoopClock, virtual_time

HOUR = 3600
QUICK = {START_SECONDS: "1", RUN_SECONDS: "10"}


class Stopwatch:
    """A simulated cluster, and the seconds since its first job was made."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self._began = asyncio.get_running_loop().time()

    async def job(self, name: str, condition: str) -> float:
        """Wait for a condition of a Job; returns when it came."""
        await until_one(self.client, JOBS, name, lambda job: is_true(job, condition), seconds=HOUR)
        return self._now()

    async def pods(self, holds: Callable[[list[dict[str, Any]]], bool]) -> float:
        """Wait until something holds for the Pods; returns when it did."""
        await until(self.client, PODS, holds, seconds=HOUR)
        return self._now()

    def _now(self) -> float:
        """In tenths, cut off: a Job is looked at some hundredths after its Pods changed."""
        return int((asyncio.get_running_loop().time() - self._began) * 10 + 0.1) / 10


@asynccontextmanager
async def stopwatch(pool: str = "a100/8", *, speed: float = 1) -> AsyncIterator[Stopwatch]:
    clock = LoopClock()
    async with (
        api_client(ServerOptions(tls=False, clock=clock)) as client,
        simulation(client, pool, speed=speed, clock=clock),
    ):
        yield Stopwatch(client)


def running(pods: list[dict[str, Any]]) -> int:
    return phases(pods).count("Running")


@virtual_time
async def test_pods_start_and_end_when_they_say() -> None:
    async with stopwatch() as watch:
        await create_job(watch.client, "train", annotations=QUICK, parallelism=4, completions=4)
        assert await watch.pods(lambda pods: running(pods) == 4) == 1
        assert await watch.job("train", "Complete") == 11


@virtual_time
async def test_time_can_pass_faster() -> None:
    async with stopwatch(speed=10) as watch:
        await create_job(watch.client, "train", annotations=QUICK)
        assert await watch.pods(lambda pods: running(pods) == 1) == 0.1
        assert await watch.job("train", "Complete") == 1.1


@virtual_time
async def test_who_finds_no_gpu_starts_when_one_is_free() -> None:
    async with stopwatch("a100/4") as watch:
        await create_job(watch.client, "first", gpus=4, annotations=QUICK)
        await watch.pods(lambda pods: running(pods) == 1)
        await create_job(watch.client, "second", gpus=4, annotations=QUICK)
        assert await watch.job("first", "Complete") == 11
        assert await watch.pods(lambda pods: running(pods) == 1) == 12
        assert await watch.job("second", "Complete") == 22


@virtual_time
async def test_suspended_pods_get_the_time_to_stop_that_they_ask_for() -> None:
    annotations = {**QUICK, RUN_SECONDS: "forever", STOP_SECONDS: "7"}
    async with stopwatch() as watch:
        await create_job(watch.client, "train", annotations=annotations)
        await watch.pods(lambda pods: running(pods) == 1)
        await watch.client.patch(JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE)
        assert await watch.pods(lambda pods: not pods) == 8


@virtual_time
async def test_the_grace_period_ends_a_slow_stop() -> None:
    annotations = {**QUICK, RUN_SECONDS: "forever", STOP_SECONDS: "600"}
    async with stopwatch() as watch:
        pod = {"terminationGracePeriodSeconds": 20}
        await create_job(watch.client, "train", annotations=annotations, pod=pod)
        await watch.pods(lambda pods: running(pods) == 1)
        await watch.client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        assert await watch.pods(lambda pods: not pods) == 21


@virtual_time
async def test_failed_pods_are_replaced_after_longer_and_longer_pauses() -> None:
    async with stopwatch() as watch:
        failing = {START_SECONDS: "1", RUN_SECONDS: "1", EXIT_CODE: "1"}
        await create_job(watch.client, "train", annotations=failing, backoffLimit=2)
        starts = [await watch.pods(lambda pods, n=n: len(pods) == n) for n in (1, 2, 3)]
        assert starts == [0, 12, 34]
        assert await watch.job("train", "Failed") == 36


@virtual_time
async def test_a_deadline_ends_a_job_that_takes_too_long() -> None:
    async with stopwatch() as watch:
        await create_job(
            watch.client,
            "train",
            annotations={**QUICK, RUN_SECONDS: "forever"},
            activeDeadlineSeconds=30,
        )
        assert 30 <= await watch.job("train", "Failed") <= 31


@virtual_time
async def test_a_finished_job_is_kept_for_its_ttl() -> None:
    async with stopwatch() as watch:
        await create_job(watch.client, "train", annotations=QUICK, ttlSecondsAfterFinished=100)
        assert await watch.job("train", "Complete") == 11
        assert 111 <= await watch.pods(lambda pods: not pods) <= 112
