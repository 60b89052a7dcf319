"""The way of a job over three clusters, against its goals (issue 2, Speed).

The demo's topology on one machine: three API servers, their nodes and two managers share one
process, the manager has another. Both workers are loaded with jobs that come and go.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from multiqueue.api.v1beta2 import Workload
from multiqueue.runtime.components import TaskScope, open_scope
from multiqueue.runtime.demo.jobs import DemoJob
from multiqueue.runtime.demo.once import submit
from multiqueue.runtime.demo.tracker import Track, Tracker
from multiqueue.runtime.demo.world import MANAGER, DemoWorld, WorldOptions

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

JOBS = 100
PAUSE_SECONDS = 0.2
"""Five jobs a second keep four GPUs busy beside the load: there is always room, so that what is
measured is the way and not the wait for quota."""
LOAD = (("a100", 4), ("h100", 2))
"""GPUs that are taken all the time, by hardware."""
REMOTE_SECONDS = 0.3
"""Submit to remote Job, 99th percentile."""
WRITES = 5
"""Of the manager, in the life of a Workload."""
FIRST_SECONDS = 10.0
"""From the end of the set-up until the first job runs."""


def make_demo_job(number: int, seconds: float) -> DemoJob:
    """One GPU for a moment; the teams take turns."""
    team = ("research", "training", "inference")[number % 3]
    return DemoJob(team=team, name=f"job-{number}", pods=1, gpus_each=1, run_seconds=seconds)


class Writes:
    """Counts the states of every Workload on the manager's cluster: each is one write."""

    def __init__(self, tracker: Tracker) -> None:
        self.by_key: Counter[str] = Counter()
        tracker.workloads.add_handler(self._on_workload)

    def _on_workload(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self.by_key[new.metadata.key] += 1


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The clusters of a demo log into a file; thousands of lines here are not what is measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.reset_defaults()


@asynccontextmanager
async def demo(directory: Path) -> AsyncIterator[tuple[DemoWorld, Tracker, TaskScope, Writes]]:
    world = DemoWorld(WorldOptions(data_dir=directory))
    async with world.running(), open_scope() as scope:
        tracker = Tracker(world.clients, manager=MANAGER)
        writes = Writes(tracker)
        await tracker.start(scope)
        yield world, tracker, scope, writes


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(capsys: pytest.CaptureFixture[str], figures: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\ndispatch, {figures}\n")


async def test_a_job_reaches_its_worker_in_time_and_with_few_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with demo(tmp_path) as (world, tracker, _, writes):
        ready_at = asyncio.get_running_loop().time()
        load = [await _submit_load(world, tracker, *each) for each in LOAD]
        await tracker.wait_for(lambda: all(track.running_at for track in load))
        tracks = []
        for number in range(JOBS):
            job = make_demo_job(number, seconds=0.2)
            await submit(world.clients[MANAGER], tracker, job)
            tracks.append(tracker.tracks[job.key])
            await asyncio.sleep(PAUSE_SECONDS)
        await tracker.wait_for(lambda: all(track.stage.is_final for track in tracks))
        first_at = min(track.running_at for track in load if track.running_at)
    remote = [_since_submit(track, track.remote_at) for track in tracks]
    by_writes = Counter(writes.by_key.values())
    p50, p99 = statistics.median(remote), percentile(remote, 0.99)
    show(
        capsys,
        f"submit to remote Job: {p50 * 1000:.0f} ms median, {p99 * 1000:.0f} ms p99; first job ran "
        f"{first_at - ready_at:.2f} s after the set-up; writes per Workload: {dict(by_writes)}",
    )
    assert {track.worker for track in tracks} == {"worker-a100", "worker-h100"}
    assert max(by_writes) <= WRITES
    assert p99 <= REMOTE_SECONDS
    assert first_at - ready_at <= FIRST_SECONDS


async def _submit_load(world: DemoWorld, tracker: Tracker, accelerator: str, gpus: int) -> Track:
    job = DemoJob(
        team="research",
        name=f"load-{accelerator}",
        pods=gpus,
        gpus_each=1,
        run_seconds=3600,
        accelerator=accelerator,
    )
    await submit(world.clients[MANAGER], tracker, job)
    return tracker.tracks[job.key]


def _since_submit(track: Track, moment: float | None) -> float:
    assert moment is not None, f"{track.job.name} never reached a worker"
    return moment - track.submitted_at
