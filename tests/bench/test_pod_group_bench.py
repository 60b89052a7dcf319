"""Groups of pods on a real control plane, beside upstream Kueue in the same run (issue 16).

Each program gets a control plane of its own. What is measured is the time from the first pod that
is created until the last pod may be scheduled, and from the first pod that ends until the last
pod of an ended group is released. The writes and the CPU time of each program are measured, too:
they say more than seconds on a machine with other work. POD_GROUPS=n chooses another number of
groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.informer import Informer
from multiqueue.kube.limiter import RateLimiter
from tests.bench.fleet_burst import cpu_seconds
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane import installed
from tests.controlplane.audit import audit_arguments, requests
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.pod_objects import make_pod

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

GROUPS = int(os.environ.get("POD_GROUPS", "1000"))
SIZE = 8
WRITERS = 24
FRAMEWORKS = {"frameworks": ["batch/job", "pod"]}
UPSTREAM = "integrations: {frameworks: [batch/job, pod]}"
SLACK = 1.1
"""One run differs from the next by some percent on a machine with other work."""
BENCH = "bench"
"""Names the requests of this file in the audit log."""
WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one program needed.

    Attributes:
        start_seconds: Until all pods could be scheduled.
        end_seconds: From then until all groups had ended and all pods were released.
        cpu_seconds: CPU time of the manager.
        writes: Writes of pods and Workloads, per group.
    """

    start_seconds: float
    end_seconds: float
    cpu_seconds: float
    writes: float


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[RealControlPlane]:
    arguments = audit_arguments(folder)
    with RealControlPlane(folder, controllers=False, extra_arguments=arguments) as plane:
        yield plane


def run_ours(folder: Path) -> Figures:
    with control_plane(folder / "plane") as plane:
        installed.install(plane)
        settings = {"leaderElection": {"leaderElect": False}, "integrations": FRAMEWORKS}
        with installed.leader(plane, folder / "manager", **settings) as manager:
            return measure(plane, manager)


def run_upstream(folder: Path) -> Figures:
    with control_plane(folder / "plane") as plane:
        install_upstream(plane)
        with running_kueue(plane, folder / "kueue", more=UPSTREAM, webhooks=True) as manager:
            return measure(plane, manager)


def measure(plane: RealControlPlane, manager: subprocess.Popen[bytes]) -> Figures:
    used = cpu_seconds(manager.pid)
    start, end = asyncio.run(time_groups(plane))
    return Figures(
        start_seconds=start,
        end_seconds=end,
        cpu_seconds=cpu_seconds(manager.pid) - used,
        writes=count_writes(plane) / GROUPS,
    )


def count_writes(plane: RealControlPlane) -> int:
    return sum(
        event["verb"] in WRITES
        and event["userAgent"] != BENCH
        and event["objectRef"]["resource"] in {"pods", "workloads"}
        for event in requests(plane)
        if "objectRef" in event
    )


async def time_groups(plane: RealControlPlane) -> tuple[float, float]:
    """Return the seconds until all pods may be scheduled, and until all of them are released."""
    credentials = await Credentials.from_kubeconfig_file(str(plane.kubeconfig))
    limiter = RateLimiter(rate=5000)
    async with KubeClient(credentials, limiter=limiter, user_agent=BENCH) as client:
        await _prepare(client)
        pods: Informer[dict[str, Any]] = Informer(client, resources.PODS, namespace=NAMESPACE)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(pods.run())
            await pods.synced.wait()
            members = [(f"g{g}", f"g{g}-{i}") for g in range(GROUPS) for i in range(SIZE)]
            begin = time.monotonic()
            await _each(members, lambda member: _create(client, *member))
            await _until(pods, lambda: _count_started(pods) == len(members))
            started = time.monotonic()
            await _each(members, lambda member: _succeed(client, member[1]))
            await _until(pods, lambda: _count_released(pods) == len(members))
            ended = time.monotonic()
            running.cancel()
    return started - begin, ended - started


async def _prepare(client: KubeClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(resources.NAMESPACES, namespace)
    await client.create(resources.RESOURCE_FLAVORS, make_flavor())
    await client.create(resources.CLUSTER_QUEUES, make_cluster_queue(cpu=str(GROUPS * SIZE)))
    await client.create(resources.LOCAL_QUEUES, make_local_queue())


async def _create(client: KubeClient, group: str, name: str) -> None:
    await client.create(resources.PODS, make_pod(name, group=group, total=SIZE))


async def _succeed(client: KubeClient, name: str) -> None:
    status = {"status": {"phase": "Succeeded"}}
    await client.patch(
        resources.PODS, name, status, namespace=NAMESPACE, subresource="status", decode=bytes
    )


async def _each(members: list[tuple[str, str]], work: Callable[[tuple[str, str]], Any]) -> None:
    left = iter(members)

    async def write() -> None:
        for member in left:
            await work(member)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(write())


async def _until(informer: Informer[Any], condition: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    informer.add_handler(lambda old, new: changed.set())
    while not condition():
        changed.clear()
        await changed.wait()
        await asyncio.sleep(0.05)  # many changes, one look


def _count_started(pods: Informer[dict[str, Any]]) -> int:
    return sum(not _is_gated(pod) for pod in pods.store.list())


def _is_gated(pod: dict[str, Any]) -> bool:
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] == names.ADMISSION_GATE for gate in gates)


def _count_released(pods: Informer[dict[str, Any]]) -> int:
    return sum(not pod["metadata"].get("finalizers") for pod in pods.store.list())


def test_groups_of_pods_are_no_slower_than_with_upstream(tmp_path: Path) -> None:
    require(*NEEDED, "kueue")
    theirs, mine = run_upstream(tmp_path / "upstream"), run_ours(tmp_path / "ours")
    for name, got in (("upstream", theirs), ("this program", mine)):
        sys.stdout.write(
            f"\n{GROUPS} groups of {SIZE} pods, {name}: all started after"
            f" {got.start_seconds:.1f} s, all released {got.end_seconds:.1f} s later;"
            f" {got.cpu_seconds:.1f} s of CPU time, {got.writes:.1f} writes per group"
        )
    assert mine.writes <= theirs.writes
    assert mine.start_seconds <= theirs.start_seconds * SLACK
    assert mine.end_seconds <= theirs.end_seconds * SLACK
