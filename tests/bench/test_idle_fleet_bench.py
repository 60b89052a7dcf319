"""What a manager costs while nothing happens: 100 workers, 10,000 running jobs (issue 5, Speed).

The real program in the simulated fleet of `tests.fleet`, in virtual time: nothing changes, but
watches end and are opened again, leases, health and the collector have their turns. CPU is that of
the whole process, so what the simulated API servers use is counted as the manager's.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
import time
from pathlib import Path

import orjson
import pytest

from multiqueue.runtime.preconditions import tune_garbage_collector
from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.plan import JobPlan, Plan
from tests.fleet.virtual_loop import run_virtually
from tests.fleet.world import HUB, FleetWorld

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

WORKERS = 100
JOBS = int(os.environ.get("BENCH_JOBS", "10000"))
"""All of them together, so a hundred on each worker."""
SHARE_OF_A_CORE = 0.05
SETTLE_SECONDS, IDLE_SECONDS = 300.0, 1200.0
TEMPLATE = "template0000000"
NEVER = 1e9
"""Seconds that a job runs."""


def make_plan() -> Plan:
    workers = {f"worker{number}x": JOBS for number in range(WORKERS)}
    return Plan(
        seed=0,
        workers=workers,
        played=frozenset(workers),
        hub_gpus=2 * JOBS,
        lost_timeout=900.0,
        gc_interval=60.0,
        dispatcher="score",
        managers=1,
        page_size=500,
        skews={},
        jobs=(),
        acts=(),
    )


async def build() -> tuple[FleetWorld, History]:
    """Let the program run one job, and copy that."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    history = History(lambda: loop.time() - begun)
    world = FleetWorld(make_plan(), history, begun)
    world.build()
    await asyncio.sleep(60)
    job = JobPlan(name=TEMPLATE, at=0, gpus=1, seconds=NEVER, priority="low", fails=False)
    world.submit(job)
    await asyncio.sleep(60)
    await world.managers[0].stop(kill=True)
    template = world.workload_of(TEMPLATE)
    assert template is not None
    home = template["status"]["clusterName"]
    history.dismiss_listeners()  # the players are not to be told of what was always there
    copies = [
        (cluster is world.hub, plural, find_text(cluster, plural))
        for cluster in (world.hub, world.workers[home])
        for plural in ("jobs", "workloads")
    ]
    for number in range(JOBS):
        there = f"worker{number % WORKERS}x"
        for is_hub, plural, text in copies:
            server = world.hub if is_hub else world.workers[there]
            server.put(plural, orjson.loads(rename(text, number, home, there)))
    return world, history


def find_text(server: ApiServer, plural: str) -> str:
    """The object of the one job, as text."""
    found = next(o for o in server.list_all(plural) if TEMPLATE in o["metadata"]["name"])
    return orjson.dumps(found).decode()


def rename(text: str, number: int, home: str, there: str) -> str:
    """The same object of another job, on another worker."""
    text = re.sub(rf'"((?:{HUB}|{home})-\d+)"', rf'"\1-{number}"', text)  # all uids
    return text.replace(TEMPLATE, f"running{number:08}").replace(home, there)


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def measure() -> dict[str, float]:
    world, history = await build()
    writes: list[Change] = []
    manager = world.managers[0]
    gc.collect()
    before = resident_bytes()
    begun = time.process_time()
    manager.start()
    await asyncio.sleep(SETTLE_SECONDS)
    started = time.process_time() - begun
    tune_garbage_collector()  # as the manager does once it knows everything
    memory = resident_bytes() - before
    history.listen(writes.append)
    requests, begun = world.network.requests, time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    idle = time.process_time() - begun
    requests = world.network.requests - requests
    running = [w for w in world.hub.list_all("workloads") if w["status"].get("clusterName")]
    assert manager.failure is None
    assert len(running) == JOBS + 1
    await world.close()
    return {
        "share": idle / IDLE_SECONDS,
        "memory": memory,
        "started": started,
        "requests": requests / IDLE_SECONDS * 60,
        "writes": len(writes) / IDLE_SECONDS * 60,
    }


def test_an_idle_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    got = run_virtually(measure())
    with capsys.disabled():
        sys.stdout.write(
            f"\nidle, {WORKERS} workers, {JOBS:,} running jobs: {got['share']:.2%} of a core (goal "
            f"{SHARE_OF_A_CORE:.0%}), {got['memory'] / 1e6:,.0f} MB of memory "
            f"({got['memory'] / JOBS / 1e3:.1f} kB a job), {got['requests']:.0f} requests and "
            f"{got['writes']:.1f} writes a minute; a restart took {got['started']:.1f} s of CPU\n"
        )
    assert got["share"] <= SHARE_OF_A_CORE
