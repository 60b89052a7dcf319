"""An elastic job of ours on a worker that runs upstream Kueue: it changes its size there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.multikueue_world import MultiKueueWorld, multikueue_world

pytestmark = pytest.mark.timeout(180)
GATE = {"name": names.ELASTIC_GATE}


@contextmanager
def upstream_worker(folder: Path) -> Iterator[RealControlPlane]:
    with ExitStack() as stack:
        plane = stack.enter_context(RealControlPlane(folder / "plane"))
        install_upstream(plane)
        stack.enter_context(running_kueue(plane, folder / "kueue"))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        for obj in (namespace, make_gpu_flavor("gpu"), make_gpu_queue(8), make_local_queue()):
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
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
    await world.set_clusters("theirs")
    await world.until_connected("theirs")


def elastic_job(pods: int) -> dict[str, Any]:
    job = make_gpu_job(parallelism=pods, completions=50)
    job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    job["spec"]["template"]["spec"]["schedulingGates"] = [GATE]
    return job


async def scale(world: MultiKueueWorld, pods: int) -> None:
    await world.hub.patch(JOBS, "train", {"spec": {"parallelism": pods}}, namespace=NAMESPACE)


def live(world: MultiKueueWorld) -> list[Workload]:
    store = world.hub.informers.workloads.store
    return [w for w in store.list() if not is_finished(w.status)]


def let_go(plane: RealControlPlane) -> int:
    """How many pods of the job wait at no gate."""
    listed = json.loads(plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))
    return sum(
        not pod["spec"].get("schedulingGates") and not pod["metadata"].get("deletionTimestamp")
        for pod in listed["items"]
    )


async def until_lets_go(plane: RealControlPlane, pods: int) -> None:
    def has_let_go() -> bool:
        return let_go(plane) == pods

    await wait(has_let_go, f"{pods} pods that may run")


async def wait(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(until, condition, what)


def job_of(plane: RealControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        plane.kubectl("get", "job", "train", "-n", NAMESPACE, "-o", "json")
    )
    return found


async def test_a_job_shrinks_and_grows_where_it_runs(tmp_path: Path) -> None:
    """M-161, M-163. Upstream ends a copy as OutOfSync whose job has another size for a moment."""
    require(*NEEDED, "kueue")
    with ExitStack() as stack:
        plane = await asyncio.to_thread(stack.enter_context, upstream_worker(tmp_path))
        async with multikueue_world("unused") as world, world.manager():
            await register(world, plane)
            await world.hub.create(JOBS, elastic_job(3))
            assert await world.until_ready() == "theirs"
            await until_lets_go(plane, 3)
            before = await asyncio.to_thread(job_of, plane)
            (first,) = live(world)

            await scale(world, 2)
            await until_lets_go(plane, 2)
            (smaller,) = live(world)
            assert smaller.metadata.uid == first.metadata.uid

            await scale(world, 5)
            await until_lets_go(plane, 5)
            after = await asyncio.to_thread(job_of, plane)
            assert after["metadata"]["uid"] == before["metadata"]["uid"]
            assert not after["spec"]["suspend"]
            (larger,) = live(world)
            assert larger.status.cluster_name == "theirs"
            assert larger.status.scheduling_stats is None, "it was never evicted"
            # Upstream looks the first slice up before it lets go of any pods.
            kept = await asyncio.to_thread(
                plane.kubectl, "get", "workload", first.metadata.name, "-n", NAMESPACE, "-o", "name"
            )
            assert kept.strip().endswith(first.metadata.name)
