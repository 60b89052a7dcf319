"""How fast a manager with workers is, and what it writes, next to upstream's (issue 5, Speed).

What is compared is measured in one run. Absolute figures are those of a machine with nothing else
to do; writes, Events and CPU seconds hardly depend on that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from multiqueue.api import names
from multiqueue.kube.resources import CLUSTER_QUEUES
from tests.bench.fleet_burst import (
    CONFIGURATION,
    QUEUE,
    Burst,
    Field,
    embedded_fleet,
    run_manager,
)
from tests.controlplane import unthrottled
from tests.controlplane.audit import audit_arguments, requests
from tests.controlplane.conftest import require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

BURST, WORKERS = 1000, 3
RATE, P95_SECONDS = 300.0, 5.0
"""Goals of the burst, on two cores with nothing else to do."""
REMOTE_SECONDS, ROOM_SECONDS, DRAIN_SECONDS, HUNG_SECONDS = 0.3, 0.5, 1.0, 2.0
"""Submit to remote object (99th percentile); room on a worker to the next job's start; drain of a
worker's queue to running elsewhere; submit to remote object while another worker hangs."""
RATIO, WRITES_SHARE, IMBALANCE = 3.0, 0.5, 0.1
"""Next to upstream: admissions in a second, writes of status and Events; and how far a worker's
part may be from its even share."""
COMPARED = 300
UNLOADED = 40
SPREAD = "score\n  dispatcherArguments: {scorers: {packing: 0, spreading: 40}}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Lines of log are not what is measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.reset_defaults()


def show(capsys: pytest.CaptureFixture[str], figures: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# -------------------------------------------------------------- embedded servers


@pytest.mark.parametrize("dispatcher", [SPREAD, names.DISPATCHER_ALL_AT_ONCE], ids=["score", "all"])
async def test_a_burst_over_embedded_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dispatcher: str
) -> None:
    with embedded_fleet(tmp_path, WORKERS, dispatcher) as (kubeconfigs, pids):
        manager, *workers = kubeconfigs
        paths = {name: kubeconfigs[name] for name in workers}
        async with Field.open(kubeconfigs[manager], paths, pids) as field:
            await field.set_up(paths, quota=2 * BURST, worker_quota=BURST)
            await field.until_connected()
            burst = await field.burst(BURST)
    show(
        capsys,
        f"burst with {dispatcher.split(maxsplit=1)[0]}: {burst.describe()}\n"
        f"  goals: {RATE:.0f} admitted/s, p95 {P95_SECONDS} s",
    )
    assert imbalance(burst) <= IMBALANCE or "all-at-once" in dispatcher


async def test_latencies_of_an_unloaded_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with embedded_fleet(tmp_path, 2, "score") as (kubeconfigs, pids):
        manager, *workers = kubeconfigs
        paths = {name: kubeconfigs[name] for name in workers}
        async with Field.open(kubeconfigs[manager], paths, pids) as field:
            await field.set_up(paths, quota=2, worker_quota=2)
            await field.until_connected()
            remote = [await one_after_another(field, f"one-{i}") for i in range(UNLOADED)]
            room = [await next_one(field, i) for i in range(UNLOADED // 2)]
            moved = [await move(field) for _ in range(10)]
    figures = (
        ("submit to remote job", remote, REMOTE_SECONDS),
        ("room on a worker to the next start", room, ROOM_SECONDS),
        ("drain of a queue to running elsewhere", moved, DRAIN_SECONDS),
    )
    told = (
        f"{what} {statistics.median(values) * 1e3:.0f}, {percentile(values, 0.99) * 1e3:.0f} "
        f"({goal * 1e3:.0f})"
        for what, values, goal in figures
    )
    show(capsys, f"unloaded, median and p99 in ms (goal): {'; '.join(told)}")
    for what, values, goal in figures:
        assert percentile(values, 0.99) <= goal, what


async def one_after_another(field: Field, name: str) -> float:
    """Submit one to an idle fleet, have it end once it started; seconds until it was remote."""
    trail = await field.submit(name)
    await field.until(lambda: trail.started_at is not None)
    await field.end(name)
    assert trail.remote_at is not None
    await asyncio.sleep(0.1)  # its end is over, too
    return trail.remote_at - trail.submitted_at


async def next_one(field: Field, number: int) -> float:
    """A job that fills the fleet ends while another waits; seconds until that one starts."""
    first = await field.submit(f"full-{number}", cpu="2")
    await field.until(lambda: first.started_at is not None)
    second = await field.submit(f"next-{number}", cpu="2")
    await asyncio.sleep(0.2)
    assert second.started_at is None
    ended_at = time.monotonic()
    await field.end(f"full-{number}")
    await field.until(lambda: second.started_at is not None)
    await field.end(f"next-{number}")
    assert second.started_at is not None
    await asyncio.sleep(0.1)
    return second.started_at - ended_at


async def move(field: Field) -> float:
    """Drain the queue of the worker that has a job; seconds until it runs on the other one."""
    name = f"move-{len(field.trails)}"
    trail = await field.submit(name)
    await field.until(lambda: trail.started_at is not None)
    await asyncio.sleep(0.2)
    before = trail.started_on
    drained_at = time.monotonic()
    await set_stop_policy(field, before, "HoldAndDrain")
    await field.until(lambda: trail.started_on != before)
    assert trail.started_at is not None
    seconds = trail.started_at - drained_at
    await set_stop_policy(field, before, "None")
    await field.end(name)
    await asyncio.sleep(0.2)
    return seconds


async def set_stop_policy(field: Field, worker: str, policy: str) -> None:
    await field.workers[worker].patch(CLUSTER_QUEUES, QUEUE, {"spec": {"stopPolicy": policy}})


# -------------------------------------------------------------- next to upstream


@dataclass(frozen=True)
class Run:
    """What one manager did with the same burst, in front of the same kind of workers."""

    burst: Burst
    writes: Counter[str]
    """Of the manager's program on its own API server, by verb and resource, per job."""
    remote: list[float]
    hung: float | None
    """Seconds from submit to remote job while a worker hangs; None: not in time."""

    def per_job(self, verb: str) -> float:
        return self.writes[verb] / len(self.burst.trails)


def imbalance(burst: Burst) -> float:
    """How far the part of some worker is from an even share, as a part of that."""
    count = len(burst.trails)
    workers = len([name for name in burst.cpu if name.startswith("w") and "api" not in name])
    even = count / workers
    return max(abs(placed - even) for placed in burst.placement.values()) / even


def test_next_to_upstream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("etcd", "kube-apiserver", "kubectl", "kueue")
    runs = {
        "upstream": measure(tmp_path / "upstream", None),
        "ours, all at once": measure(tmp_path / "all", names.DISPATCHER_ALL_AT_ONCE),
        "ours, score": measure(tmp_path / "score", SPREAD),
    }
    for name, run in runs.items():
        writes = ", ".join(
            f"{what} {count / COMPARED:.2f}" for what, count in sorted(run.writes.items())
        )
        hung = f"{run.hung:.2f} s" if run.hung is not None else f"not within {GIVE_UP_SECONDS} s"
        show(
            capsys,
            f"{name}: {run.burst.describe()}\n  writes per job: {writes}\n"
            f"  unloaded submit to remote job: median {statistics.median(run.remote) * 1e3:.0f} ms,"
            f" p99 {percentile(run.remote, 0.99) * 1e3:.0f} ms; while a worker hangs: {hung}",
        )
    theirs = runs.pop("upstream")
    for name, run in runs.items():
        ratio = run.burst.rate / theirs.burst.rate
        status = run.per_job(STATUS) / theirs.per_job(STATUS)
        events = run.per_job(EVENTS) / theirs.per_job(EVENTS)
        show(
            capsys,
            f"{name} next to upstream: {ratio:.1f} times the rate, {status:.0%} of its status "
            f"writes, {events:.0%} of its Events; off an even placement by "
            f"{imbalance(run.burst):.0%} (upstream {imbalance(theirs.burst):.0%})",
        )
    for run in runs.values():
        assert run.burst.rate >= RATIO * theirs.burst.rate
        assert run.per_job(STATUS) <= WRITES_SHARE * theirs.per_job(STATUS)
        assert run.per_job(EVENTS) <= WRITES_SHARE * theirs.per_job(EVENTS)
        assert imbalance(run.burst) <= IMBALANCE
        assert run.hung is not None
        assert run.hung <= HUNG_SECONDS


STATUS, EVENTS = "patch workloads/status", "create events"
GIVE_UP_SECONDS = 20


def measure(folder: Path, dispatcher: str | None) -> Run:
    """Run a burst with upstream's manager (None), or with ours, and upstream on two workers."""
    planes = {
        name: RealControlPlane(
            folder / name, controllers=False, extra_arguments=audit_arguments(folder / name)
        )
        for name in ("manager", "w1", "w2")
    }
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(planes)) as pool:
        for plane in planes.values():
            stack.callback(plane.__exit__)
        list(pool.map(RealControlPlane.__enter__, planes.values()))
        list(pool.map(install_upstream, planes.values()))
        pids = {f"{name} api": plane.pid_of("kube-apiserver") for name, plane in planes.items()}
        for name in ("w1", "w2"):
            kueue = stack.enter_context(running_kueue(planes[name], folder / name / "kueue"))
            pids[name] = kueue.pid
        pids["manager"] = stack.enter_context(
            run_contender(planes["manager"], folder, dispatcher)
        ).pid
        return asyncio.run(drive(planes, pids))


def run_contender(
    plane: RealControlPlane, folder: Path, dispatcher: str | None
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    if dispatcher is None:
        return running_kueue(plane, folder / "upstream", program=unthrottled.get())
    config = folder / "config.yaml"
    config.write_text(CONFIGURATION.format(dispatcher=dispatcher))
    return run_manager(plane.kubeconfig, config, folder / "ours.log")


async def drive(planes: dict[str, RealControlPlane], pids: dict[str, int]) -> Run:
    paths = {name: plane.kubeconfig for name, plane in planes.items()}
    manager = paths.pop("manager")
    async with Field.open(manager, paths, pids) as field:
        await field.set_up(paths, quota=4 * COMPARED, worker_quota=2 * COMPARED)
        await field.until_connected()
        remote = []
        for number in range(UNLOADED):
            trail = await field.submit(f"one-{number}")
            await field.until(lambda trail=trail: trail.admitted_at and trail.remote_at)
            remote.append(trail.remote_at - trail.submitted_at)
        before = await count_settled(planes["manager"])
        field.trails.clear()
        burst = await field.burst(COMPARED)
        writes = await count_settled(planes["manager"]) - before
        return Run(burst, writes, remote, await dispatch_beside_a_hung_worker(field, planes))


async def dispatch_beside_a_hung_worker(
    field: Field, planes: dict[str, RealControlPlane]
) -> float | None:
    with planes["w2"].stopped_apiserver():
        await asyncio.sleep(0.5)
        trails = [await field.submit(f"hung-{number}") for number in range(5)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await field.until(lambda: all(trail.remote_at for trail in trails))
        waits = [trail.remote_at - trail.submitted_at for trail in trails if trail.remote_at]
    return max(waits) if len(waits) == len(trails) else None


async def count_settled(plane: RealControlPlane) -> Counter[str]:
    """Count writes once no more come: Events are the last."""
    counts: Counter[str] = Counter()
    while (newest := count_writes(plane)) != counts:
        counts = newest
        await asyncio.sleep(3)
    return counts


def count_writes(plane: RealControlPlane) -> Counter[str]:
    """Every write that concerns the burst, but the jobs' own creation."""
    counts: Counter[str] = Counter()
    for event in requests(plane):
        about = event.get("objectRef") or {}
        if event["verb"] not in {"create", "update", "patch"} or about.get("namespace") != QUEUE:
            continue
        what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        verb = "create" if event["verb"] == "create" else "patch"
        if (verb, what) != ("create", "jobs"):
            counts[f"{verb} {what}"] += 1
    return counts
