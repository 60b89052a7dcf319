"""``make soak MINUTES=n``: jobs of all kinds under faults for long; is it flat, is none lost?"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from multiqueue.api import names
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.embedded.cluster.simulated_kinds import SimulatedKind
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError, TransportError
from multiqueue.kube.limiter import RateLimiter
from multiqueue.runtime.demo.kinds import choose_kinds, list_objects
from multiqueue.runtime.manifests import create_missing
from tests.bench.fleet_burst import QUEUE, manager_objects, queue_objects
from tests.integration.waiting import is_true, until
from tests.soak import record
from tests.soak.fleet import (
    MANAGER,
    WORKERS,
    SoakFleet,
    create_account,
    make_kubeconfig,
    put_kubeconfig,
)
from tests.soak.jobs import PRIORITIES, JobBook

SPEED = 2.0
QUOTA, WORKER_QUOTA = 48, 16
SAMPLE_SECONDS = 5.0
FAULT_SECONDS = 25.0
PACE_SECONDS = 1.0
FROZEN_SECONDS = 15.0
DRAIN_SECONDS = 15.0
AT_ONCE = 30
"""Jobs in flight: more than fit, so that some wait and are preempted for."""
ENDING_SECONDS = 240.0
PROGRESS_SECONDS = 30
KILLS_END = 0.4
"""Until this share of the run, managers are killed; memory is judged in their last life."""


class Soak:
    """One run."""

    def __init__(self, fleet: SoakFleet, clients: dict[str, KubeClient], seconds: float) -> None:
        self.fleet, self.clients, self.seconds = fleet, clients, seconds
        self.begun = time.monotonic()
        self.chance = random.Random(7)
        self.record = record.SoakRecord()
        self.faults: dict[str, int] = {}
        workers = {name: clients[name] for name in WORKERS}
        rows = {row.framework: row for row in JOB_KINDS}
        self.book = JobBook(clients[MANAGER], workers, build_kinds(), rows, self.begun)
        self.admins = {
            name: yaml.safe_load(fleet.kubeconfigs[name].read_text()) for name in WORKERS
        }

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    async def run(self) -> list[str]:
        """Run to the end; return what is wrong."""
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(each.run()) for each in self.book.informers()]
            watching += [tasks.create_task(self._sample()), tasks.create_task(self._look())]
            faults = tasks.create_task(self._disturb())
            while self.elapsed < self.seconds:
                if len(self.book.jobs) < AT_ONCE:
                    await self.book.submit()
                await asyncio.sleep(PACE_SECONDS)
            await faults
            left = await self._until_empty()
            for task in watching:
                task.cancel()
        self.record.waits = self.book.waits
        problems = [*self.book.problems, *left, *record.find_slowdown(self.record)]
        managers = (MANAGER, *WORKERS)
        return [*problems, *record.find_growth(self.record, managers)]

    async def _until_empty(self) -> list[str]:
        end = time.monotonic() + ENDING_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await self.book.empty.wait()
        lost = [
            f"{job.name} ({job.resource.kind}) did not end: "
            f"{'admitted' if job.admitted_at else 'never admitted'}"
            f"{', is being deleted' if job.is_deleted else ''}"
            for job in self.book.jobs.values()
        ]
        for name, client in self.clients.items():
            while True:
                found = (await client.list(resources.WORKLOADS, namespace=QUEUE)).items
                if not found or time.monotonic() > end:
                    break
                await asyncio.sleep(1)
            lost += [f"{name}: Workload {each['metadata']['name']} was left" for each in found]
        return lost

    async def _sample(self) -> None:
        while True:
            pids = {name: part.pid for name, part in self.fleet.parts.items()}
            if self.elapsed < self.seconds:
                self.record.sample(self.elapsed, pids)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _look(self) -> None:
        book, told = self.book, 0
        while True:
            await book.look()
            if self.elapsed // PROGRESS_SECONDS > told:
                told += 1
                tell(
                    f"{self.elapsed:.0f} s: {book.submitted} submitted, {book.ended} gone, "
                    f"{len(book.jobs)} in flight, faults {self.faults}",
                )
            await asyncio.sleep(1)

    # ------------------------------------------------------------ faults

    async def _disturb(self) -> None:
        """One fault after the other, in turn, each on a worker by chance."""
        faults: list[Callable[[str], Awaitable[None]]] = [
            self._rotate,
            self._drain,
            self._freeze,
            self._kill_manager,
            self._kill_worker,
        ]
        turn = 0
        while self.elapsed < self.seconds - FAULT_SECONDS:
            await asyncio.sleep(FAULT_SECONDS)
            fault = faults[turn % len(faults)]
            turn += 1
            is_kill = fault in (self._kill_manager, self._kill_worker)
            if is_kill and self.elapsed > self.seconds * KILLS_END:
                continue
            name = fault.__name__.removeprefix("_")
            self.faults[name] = self.faults.get(name, 0) + 1
            await fault(self.chance.choice(WORKERS))

    async def _rotate(self, worker: str) -> None:
        kubeconfig = await make_kubeconfig(self.clients[worker], self.admins[worker])
        await put_kubeconfig(self.clients[MANAGER], worker, kubeconfig)

    async def _drain(self, worker: str) -> None:
        for value in ("true", None):
            patch = {"metadata": {"annotations": {names.DRAIN: value}}}
            await self._patch_cluster(worker, patch)
            await asyncio.sleep(DRAIN_SECONDS if value else 0)

    async def _patch_cluster(self, worker: str, patch: dict[str, Any]) -> None:
        while True:
            try:
                await self.clients[MANAGER].patch(resources.MULTIKUEUE_CLUSTERS, worker, patch)
            except (ApiError, TransportError):
                await asyncio.sleep(1)  # the manager's webhook is away
            else:
                return

    async def _freeze(self, worker: str) -> None:
        parts = (self.fleet.parts[worker], self.fleet.parts[f"{worker} api"])
        try:
            for part in parts:
                part.send(signal.SIGSTOP)
            await asyncio.sleep(FROZEN_SECONDS)
        finally:
            for part in parts:
                part.send(signal.SIGCONT)

    async def _kill_manager(self, _: str) -> None:
        await self._restart(MANAGER)

    async def _kill_worker(self, worker: str) -> None:
        await self._restart(worker)

    async def _restart(self, name: str) -> None:
        part = self.fleet.parts[name]
        await asyncio.to_thread(part.kill)
        await asyncio.to_thread(part.start)


def build_kinds() -> tuple[SimulatedKind, ...]:
    """Return all kinds that run on workers; a CronJob would make Jobs for ever."""
    return tuple(each for each in choose_kinds("all") if each.framework)


@contextlib.asynccontextmanager
async def connected(fleet: SoakFleet) -> AsyncIterator[dict[str, KubeClient]]:
    """Connect to every cluster."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for name, path in fleet.kubeconfigs.items():
            client = KubeClient(
                await Credentials.from_kubeconfig_file(path), limiter=RateLimiter(rate=1000)
            )
            clients[name] = await stack.enter_async_context(client)
        yield clients


async def set_up(fleet: SoakFleet, clients: dict[str, KubeClient], folder: Path) -> None:
    """Create queues and access, start the managers, and wait until all are connected."""
    kinds = build_kinds()
    classes = [
        {
            "apiVersion": names.V1BETA2,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]
    shared = [*classes, *(obj for each in kinds for obj in list_objects([each]))]
    for worker in WORKERS:
        await create_account(clients[worker])
        await create_missing(clients[worker], [*queue_objects(WORKER_QUOTA), *shared])
    files = {name: fleet.kubeconfigs[name] for name in WORKERS}
    await create_missing(clients[MANAGER], [*manager_objects(QUOTA, files), *shared])
    preemption = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
    await clients[MANAGER].patch(resources.CLUSTER_QUEUES, QUEUE, preemption)
    fleet.start_managers(folder, kinds)

    def is_active(objects: list[dict[str, Any]]) -> bool:
        return bool(objects) and all(is_true(each, "Active") for each in objects)

    for resource in (resources.MULTIKUEUE_CLUSTERS, resources.CLUSTER_QUEUES):
        await until(clients[MANAGER], resource, is_active, seconds=120)


async def main(minutes: float, folder: Path) -> int:
    """Run a soak and print its figures; return the exit code."""
    with SoakFleet.open(folder, build_kinds(), SPEED) as fleet:
        async with connected(fleet) as clients:
            await set_up(fleet, clients, folder)
            soak = Soak(fleet, clients, minutes * 60)
            problems = await soak.run()
    book = soak.book
    tell(record.describe(soak.record))
    tell(f"{book.submitted} submitted, {book.ended} ended and gone, {book.refused} tried again")
    tell("faults: " + ", ".join(f"{count} {name}" for name, count in soak.faults.items()))
    for problem in problems:
        tell(f"PROBLEM {problem}")
    return 1 if problems else 0


def tell(text: str) -> None:
    """Print at once, also into a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def run_until_signal(minutes: float, folder: Path) -> int:
    """Run a soak; a SIGTERM ends its processes, too."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await main(minutes, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--logs", type=Path, help="Where the logs of all processes stay.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        place = options.logs or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        sys.exit(asyncio.run(run_until_signal(options.minutes, place)))
