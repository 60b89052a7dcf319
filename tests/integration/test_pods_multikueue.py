"""Pods and groups of pods on workers, through the API (M-141, M-142)."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.kube.resources import PODS
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.pod_objects import PODS_ENABLED, READY, gated, make_pod
from tests.queue_manager import QueueCluster

CONFIG = msgspec.structs.replace(make_config(), integrations=PODS_ENABLED.integrations)
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def pods_of(cluster: QueueCluster) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.informers.jobs["pod"].store.list()}


def gates_of(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def workload(cluster: QueueCluster) -> Workload | None:
    return next(iter(cluster.informers.workloads.store.list()), None)


async def set_status(cluster: QueueCluster, name: str, phase: str, *conditions: Any) -> None:
    status = {"phase": phase, "conditions": list(conditions)}
    await cluster.patch(PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status")


async def until_started(world: MultiKueueWorld, worker: str, *pod_names: str) -> None:
    def started() -> bool:
        there = pods_of(world.workers[worker])
        return set(there) == set(pod_names) and not any(map(gates_of, there.values()))

    await world.until(started, "started pods", on=worker)


async def test_a_group_runs_on_a_worker_and_its_pods_tell_so_here() -> None:
    async with (
        multikueue_world("worker1", real_workers=True, config=CONFIG) as world,
        world.manager(CONFIG),
    ):
        for name in ("p0", "p1"):
            pod = make_pod(name, group="gang", total=2, **{GPU: "1"})
            await world.hub.create(PODS, gated(pod))
            await set_status(world.hub, name, "Pending", GATED)
        await until_started(world, "worker1", "p0", "p1")
        there = world.workers["worker1"]
        copy = workload(there)
        assert copy is not None
        assert {owner.name for owner in copy.metadata.owner_references} == {"p0", "p1"}
        remote = pods_of(there)["p1"]["metadata"]
        assert remote["annotations"][names.PREBUILT_WORKLOAD_NAME] == "gang"
        assert remote["labels"][names.MULTIKUEUE_ORIGIN] == "multikueue"

        for name in ("p0", "p1"):
            await set_status(there, name, "Running", SCHEDULED, READY)
        await world.until(
            lambda: {p["status"]["phase"] for p in pods_of(world.hub).values()} == {"Running"},
            "mirrored phases",
        )
        assert all(names.ADMISSION_GATE in gates_of(p) for p in pods_of(world.hub).values())

        for name in ("p0", "p1"):
            await set_status(there, name, "Succeeded")

        def finished() -> bool:
            found = workload(world.hub)
            return found is not None and is_finished(found.status)

        await world.until(finished, "a finished Workload")
        await world.until(
            lambda: not any(p["metadata"].get("finalizers") for p in pods_of(world.hub).values()),
            "released pods",
        )
        await world.until(lambda: not pods_of(there), "an empty worker", on="worker1")


async def test_a_pod_that_no_node_takes_wakes_no_autoscaler_here() -> None:
    """M-142."""
    async with (
        multikueue_world("worker1", real_workers=True, config=CONFIG) as world,
        world.manager(CONFIG),
    ):
        await world.hub.create(PODS, gated(make_pod("solo", **{GPU: "1"})))
        await set_status(world.hub, "solo", "Pending", GATED)
        await until_started(world, "worker1", "solo")
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        initialized = {"type": "Initialized", "status": "True"}
        await set_status(world.workers["worker1"], "solo", "Pending", initialized, unschedulable)

        def conditions() -> set[tuple[str, str]]:
            found = pods_of(world.hub)["solo"]["status"].get("conditions") or ()
            return {(c["type"], c.get("reason", "")) for c in found}

        await world.until(lambda: ("Initialized", "") in conditions(), "a mirrored status")
        assert ("PodScheduled", "SchedulingGated") in conditions()
        await world.hub.client.delete(PODS, "solo", namespace=NAMESPACE)
        there = world.workers["worker1"]
        await world.until(lambda: not pods_of(there), "an empty worker", on="worker1")
