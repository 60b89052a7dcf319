"""Whether the manager's memory stays where it is while jobs come and go (issue 17).

The manager is a process of its own beside an embedded API server. Jobs are created, admitted,
ended and deleted, a few at a time. What the manager remembers of them has bounds, and no more may
add up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.informer import Informer
from multiqueue.kube.limiter import RateLimiter
from multiqueue.runtime.manifests import create_missing
from tests.bench.fleet_burst import QUEUE, embedded_fleet, make_managed_job, queue_objects
from tests.soak.record import SoakRecord, describe

pytestmark = [pytest.mark.bench, pytest.mark.timeout(14_400)]

ADMISSIONS = int(os.environ.get("ADMISSIONS", "5000"))
AT_ONCE = 64
SAMPLES = 200
"""Looks at the manager's memory, evenly over the admissions."""
MANAGER = "manager"
BOUNDED_MIB = 64
"""What the manager remembers of jobs that are gone, when all of it is full: Events that wait
(8,192), reservations that ended until the next UsageReport (20,000), and what readers missed
(20,000 keys a topic)."""


class Field:
    """The jobs, as who submits them sees them."""

    def __init__(self, client: KubeClient, pid: int) -> None:
        self.client, self.pid = client, pid
        self.record = SoakRecord()
        self.begun = time.monotonic()
        self.ended = 0
        self._waiting: dict[str, asyncio.Event] = {}

    def on_job(self, _: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Wake who waits for this job's start."""
        if new is not None and not new["spec"].get("suspend"):
            waiting = self._waiting.get(new["metadata"]["name"])
            if waiting is not None:
                waiting.set()

    async def live(self, names_: Iterator[str]) -> None:
        """Have one job after the other start, succeed and go."""
        for name in names_:
            started = self._waiting[name] = asyncio.Event()
            job = make_managed_job(name)
            del job["spec"]["managedBy"]
            await self.client.create(resources.JOBS, job)
            await started.wait()
            del self._waiting[name]
            await self._succeed(name)
            await self.client.delete(
                resources.JOBS, name, namespace=QUEUE, propagation="Background"
            )
            self.ended += 1
            if self.ended % (ADMISSIONS // SAMPLES) == 0:
                self.record.sample(time.monotonic() - self.begun, {MANAGER: self.pid})

    async def _succeed(self, name: str) -> None:
        now = format_time(datetime.now(UTC))
        moments = {"lastProbeTime": now, "lastTransitionTime": now}
        conditions = [
            {"type": each, "status": "True"} | moments
            for each in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": now, "completionTime": now, "conditions": conditions, "succeeded": 1}
        await self.client.patch(
            resources.JOBS, name, {"status": status}, namespace=QUEUE, subresource="status"
        )


async def live_all(kubeconfig: Path, pid: int) -> SoakRecord:
    """Return the manager's memory over all admissions."""
    credentials = await Credentials.from_kubeconfig_file(kubeconfig)
    async with KubeClient(credentials, limiter=RateLimiter(rate=5000)) as client:
        await create_missing(client, queue_objects(AT_ONCE // 2))
        field = Field(client, pid)
        jobs: Informer[dict[str, Any]] = Informer(client, resources.JOBS)
        jobs.add_handler(field.on_job)
        watching = asyncio.create_task(jobs.run())
        names_ = (f"job-{number:06}" for number in range(ADMISSIONS))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(field.live(names_))
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return field.record


async def test_memory_over_many_admissions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with embedded_fleet(tmp_path, 0, names.DISPATCHER_ALL_AT_ONCE) as (kubeconfigs, pids):
        record = await live_all(kubeconfigs[MANAGER], pids[MANAGER])

    with capsys.disabled():
        sys.stdout.write(f"\n{ADMISSIONS:,} admissions\n{describe(record)}\n")
    samples = record.samples[MANAGER]
    warm = samples[len(samples) // 10]
    assert samples[-1].memory <= warm.memory + BOUNDED_MIB * 2**20
