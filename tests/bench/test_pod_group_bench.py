"""Groups of pods on a real control plane, beside upstream Kueue in the same run (issue 16).

Each program gets a control plane of its own. What is measured is the time from the first pod that
is created until the last pod may be scheduled, and from the first pod that ends until the last
group has ended. POD_GROUPS=n chooses another number of groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.informer import Informer
from multiqueue.kube.limiter import RateLimiter
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane import installed
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


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[RealControlPlane]:
    with RealControlPlane(folder / "plane", controllers=False) as plane:
        installed.install(plane)
        settings = {"leaderElection": {"leaderElect": False}, "integrations": FRAMEWORKS}
        with installed.leader(plane, folder / "manager", **settings):
            yield plane


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[RealControlPlane]:
    with RealControlPlane(folder / "plane", controllers=False) as plane:
        install_upstream(plane)
        with running_kueue(plane, folder / "kueue", more=UPSTREAM, webhooks=True):
            yield plane


async def measure(plane: RealControlPlane) -> tuple[float, float]:
    """Return the seconds until all pods may be scheduled, and until all groups have ended."""
    credentials = await Credentials.from_kubeconfig_file(str(plane.kubeconfig))
    limiter = RateLimiter(rate=5000)
    async with KubeClient(credentials, limiter=limiter) as client:
        await _prepare(client)
        pods: Informer[dict[str, Any]] = Informer(client, resources.PODS, namespace=NAMESPACE)
        workloads = Informer(
            client, resources.WORKLOADS, decode=lambda data: decode(Workload, data)
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each.run()) for each in (pods, workloads)]
            await pods.synced.wait()
            members = [(f"g{g}", f"g{g}-{i}") for g in range(GROUPS) for i in range(SIZE)]
            begin = time.monotonic()
            await _each(members, lambda member: _create(client, *member))
            await _until(pods, lambda: _count_started(pods) == len(members))
            started = time.monotonic()
            await _each(members, lambda member: _succeed(client, member[1]))
            await _until(workloads, lambda: _count_finished(workloads) == GROUPS)
            ended = time.monotonic()
            for task in running:
                task.cancel()
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


def _count_finished(workloads: Informer[Workload]) -> int:
    return sum(is_finished(workload.status) for workload in workloads.store.list())


async def test_groups_of_pods_are_no_slower_than_with_upstream(tmp_path: Path) -> None:
    require(*NEEDED, "kueue")
    with upstream(tmp_path / "upstream") as plane:
        theirs = await measure(plane)
    with ours(tmp_path / "ours") as plane:
        mine = await measure(plane)
    for name, (start, end) in (("upstream", theirs), ("this program", mine)):
        sys.stdout.write(
            f"\n{GROUPS} groups of {SIZE} pods, {name}: all started after {start:.1f} s, all ended"
            f" {end:.1f} s later"
        )
    assert mine[0] <= theirs[0] * SLACK
    assert mine[1] <= theirs[1] * SLACK
