"""One worker at a time preempts for a job: upstream Kueue and ours both obey, and are let."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.workload_state import is_admitted
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    WORKLOAD_PRIORITY_CLASSES,
)
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import CONFIG

pytestmark = pytest.mark.timeout(180)
GATE = "MultiKueueOrchestratedPreemption"
UPSTREAM_GATES = f"featureGates: {{VisibilityOnDemand: false, {GATE}: true}}"
PREEMPTION = {"withinClusterQueue": "LowerPriority"}
RANKS = [
    {
        "apiVersion": names.V1BETA2,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    for name, value in (("low", 1), ("high", 10))
]


def ranked(name: str, rank: str, managed_by: str | None = None) -> dict[str, Any]:
    """A job as large as a worker."""
    job = make_gpu_job(name, gpus=8, managed_by=managed_by)
    job["metadata"]["labels"][names.PRIORITY_CLASS] = rank
    return job


@contextmanager
def upstream_worker(folder: Path) -> Iterator[RealControlPlane]:
    """Upstream Kueue with the gate, and a job that fills it."""
    with ExitStack() as stack:
        plane = stack.enter_context(RealControlPlane(folder / "plane"))
        install_upstream(plane)
        stack.enter_context(running_kueue(plane, folder / "kueue", more=UPSTREAM_GATES))
        queue = make_gpu_queue(8)
        queue["spec"]["preemption"] = PREEMPTION
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        low = ranked("low", "low")
        for obj in (namespace, *RANKS, make_gpu_flavor("gpu"), queue, make_local_queue(), low):
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
        waiting = ("wait", "--for=jsonpath={.spec.suspend}=false", "job/low", "--timeout=60s")
        plane.kubectl(*waiting, f"--namespace={NAMESPACE}")
        yield plane


async def register(world: MultiKueueWorld, plane: RealControlPlane) -> None:
    flags = ("config", "view", "--raw", "--flatten", "--minify", "-o", "json")
    await world.put_secret("theirs", await asyncio.to_thread(plane.kubectl, *flags))
    await world.hub.create(
        MULTIKUEUE_CLUSTERS,
        {
            "apiVersion": names.V1BETA2,
            "kind": "MultiKueueCluster",
            "metadata": {"name": "theirs"},
            "spec": {"clusterSource": {"kubeConfig": {"location": "theirs"}}},
        },
    )
    await world.set_clusters("ours", "theirs")


async def fill(world: MultiKueueWorld) -> None:
    """The same on the worker that runs this program."""
    cluster = world.workers["ours"]
    for obj in RANKS:
        await world.hub.create(WORKLOAD_PRIORITY_CLASSES, obj)
        await cluster.create(WORKLOAD_PRIORITY_CLASSES, obj)
    await cluster.patch(CLUSTER_QUEUES, "cq", {"spec": {"preemption": PREEMPTION}})
    await cluster.create(JOBS, ranked("low", "low"))
    await cluster.changes.until(
        lambda: (w := cluster.workload_of("low")) and is_admitted(w.status), "low runs"
    )


async def runs_low(world: MultiKueueWorld, plane: RealControlPlane, worker: str) -> bool:
    if worker == "ours":
        workload = world.workers["ours"].workload_of("low")
        return workload is not None and is_admitted(workload.status)
    flags = ("get", "workloads", f"--namespace={NAMESPACE}", "-o", "json")
    items = json.loads(await asyncio.to_thread(plane.kubectl, *flags))["items"]
    return any(
        condition["type"] == "Admitted" and condition["status"] == "True"
        for item in items
        if item["metadata"]["name"].startswith("job-low-")
        for condition in item["status"]["conditions"]
    )


async def test_one_victim_falls_for_one_job_and_the_other_for_the_next(tmp_path: Path) -> None:
    require(*NEEDED, "kueue")
    gates = {GATE: True}
    with ExitStack() as stack:
        plane = await asyncio.to_thread(stack.enter_context, upstream_worker(tmp_path))
        async with multikueue_world("ours") as world:
            ours = msgspec.structs.replace(CONFIG, feature_gates=gates)
            manager = msgspec.structs.replace(make_config(), feature_gates=gates)
            async with world.workers["ours"].manager(ours), world.manager(manager):
                await fill(world)
                await register(world, plane)
                await world.until_connected("ours", "theirs")
                await world.hub.create(JOBS, ranked("one", "high", names.MULTIKUEUE_CONTROLLER))
                first = await world.until_ready("one")
                (second,) = {"ours", "theirs"} - {first}
                assert not await runs_low(world, plane, first)
                assert await runs_low(world, plane, second)
                await world.hub.create(JOBS, ranked("two", "high", names.MULTIKUEUE_CONTROLLER))
                assert await world.until_ready("two") == second
                assert not await runs_low(world, plane, second)
