"""Kinds that an outside controller queues: the Configuration names them as external frameworks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from multiqueue.api import names, workload_state
from multiqueue.api.config import Configuration
from multiqueue.api.config.types import MultiKueueExternalFramework
from multiqueue.api.v1beta2 import Workload
from multiqueue.embedded.cluster.kind_crds import build_kind_crd
from multiqueue.jobs.rights import build_declared_roles
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube.resources import CRDS, JOB_KINDS, JOBS, WORKLOADS, Resource, resource_of
from multiqueue.runtime.manifests import create_missing
from tests.builders.job_kinds import GADGET, make_gadget, make_job_kind
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.test_declared_kinds import until_condition
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import loop_clock, virtual_time

GADGETS: Resource = resource_of(GADGET.api_version, GADGET.plural, GADGET.kind)
CRD = build_kind_crd(GADGET)
NAME = "Gadget.v1.gadgets.example.com"
MULTIKUEUE = names.MULTIKUEUE_CONTROLLER
assert CRD is not None


def dispatching(*, gate: bool = True) -> Configuration:
    """A Configuration with Gadgets in multiKueue.externalFrameworks."""
    gates = {"MultiKueueAdaptersForCustomJobs": gate}
    config = msgspec.structs.replace(CONFIG, feature_gates=gates)
    return make_config(of=config, external_frameworks=(MultiKueueExternalFramework(name=NAME),))


def owning() -> Configuration:
    """A Configuration with Gadgets in integrations.externalFrameworks."""
    section = msgspec.structs.replace(CONFIG.integrations, external_frameworks=(NAME,))
    return msgspec.structs.replace(CONFIG, integrations=section)


class GadgetController:
    """Somebody's controller of Gadgets, which keeps to the contract of J-487."""

    def __init__(self, cluster: QueueCluster) -> None:
        self.cluster = cluster

    async def queue(self, gadget: Mapping[str, Any]) -> None:
        """Make the Workload of a Gadget."""
        metadata = gadget["metadata"]
        workload = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": f"gadget-{metadata['name']}",
                "namespace": NAMESPACE,
                "ownerReferences": [owner_reference(gadget)],
            },
            "spec": {
                "queueName": metadata["labels"][names.QUEUE_NAME],
                "podSets": [
                    {"name": "main", "count": 1, "template": gadget["spec"]["template"]},
                ],
            },
        }
        await self.cluster.create(WORKLOADS, workload)

    async def run(self, name: str) -> dict[str, Any]:
        """Start a Gadget that names its Workload, once that is admitted."""
        gadget = await self.cluster.client.get(GADGETS, name, namespace=NAMESPACE)
        workload = gadget["metadata"]["labels"][names.PREBUILT_WORKLOAD_NAME]
        owners = {"metadata": {"ownerReferences": [owner_reference(gadget)]}}
        await self.cluster.patch(WORKLOADS, workload, owners, namespace=NAMESPACE)

        def is_admitted() -> bool:
            found = self._find(workload)
            return found is not None and workload_state.is_admitted(found.status)

        await self.cluster.changes.until(is_admitted, "admitted")
        await self.set_status(name, phase="Running")
        return gadget

    async def finish(self, name: str, workload: str) -> None:
        """End a Gadget and its Workload."""
        await self.set_status(name, phase="Done")
        writer = WorkloadWriter(self.cluster.client, self.cluster.informers.workloads)
        now = loop_clock().now()
        await writer.update_status(
            f"{NAMESPACE}/{workload}",
            lambda copy: workload_state.finish(copy.status, "Succeeded", "done", now=now),
        )

    async def set_status(self, name: str, **status: Any) -> None:
        await self.cluster.patch(
            GADGETS, name, {"status": status}, namespace=NAMESPACE, subresource="status"
        )

    def _find(self, name: str) -> Workload | None:
        return self.cluster.informers.workloads.store.get(f"{NAMESPACE}/{name}")


def owner_reference(gadget: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": GADGET.api_version,
        "kind": GADGET.kind,
        "name": gadget["metadata"]["name"],
        "uid": gadget["metadata"]["uid"],
        "controller": True,
    }


async def grant(world: MultiKueueWorld) -> None:
    """Give the manager the rights that an administrator grants (J-493)."""
    for cluster in (world.hub, *world.workers.values()):
        await create_missing(cluster.client, build_declared_roles(GADGET))


async def until_gadget(cluster: QueueCluster, **status: Any) -> dict[str, Any]:
    """Wait for a Gadget with this status, by a watch."""
    listed = await cluster.client.list(GADGETS, namespace=NAMESPACE)
    for found in listed.items:
        if (found.get("status") or {}) == status:
            return found
    events = cluster.client.watch(
        GADGETS, namespace=NAMESPACE, resource_version=listed.resource_version, timeout_seconds=30
    )
    async for event in events:
        if event.type != "BOOKMARK":
            found = msgspec.json.decode(event.raw)
            if event.type != "DELETED" and (found.get("status") or {}) == status:
                return found
    raise AssertionError(f"no Gadget with the status {status}")


async def test_an_external_job_runs_on_a_worker_and_its_status_comes_back() -> None:
    """M-210, M-211, M-212."""
    async with (
        multikueue_world("w1", real_workers=True, crds=[CRD], gpus=4) as world,
        world.manager(dispatching()),
    ):
        worker = world.workers["w1"]
        await grant(world)
        await world.until_connected()
        gadget = make_gadget(managedBy=MULTIKUEUE, color="red")
        made = await world.hub.create(
            GADGETS, {**gadget, "metadata": {**gadget["metadata"], "annotations": {"note": "kept"}}}
        )
        here, there = GadgetController(world.hub), GadgetController(worker)
        await here.queue(made)
        copy = await until_gadget(worker)
        assert copy["spec"] == {k: v for k, v in made["spec"].items() if k != "managedBy"}
        assert "ownerReferences" not in copy["metadata"]
        assert copy["metadata"]["annotations"]["note"] == "kept"
        assert copy["metadata"]["labels"][names.MULTIKUEUE_ORIGIN] == "multikueue"
        await there.run("train")
        assert await world.until_ready() == "w1"
        await until_gadget(world.hub, phase="Running")
        await there.finish("train", "gadget-train")

        def is_over() -> bool:
            found = world.workload()
            return found is not None and workload_state.is_finished(found.status)

        await world.until(is_over, "the end came back")
        local = await world.hub.client.get(GADGETS, "train", namespace=NAMESPACE)
        assert local["status"] == {"phase": "Done"}
        assert local["spec"] == made["spec"]


async def refusal_of(config: Configuration, **spec: Any) -> str:
    """The message of the check of a Gadget that is not dispatched."""
    async with multikueue_world("w1", crds=[CRD]) as world, world.manager(config):
        await grant(world)
        await world.until_connected()
        made = await world.hub.create(GADGETS, make_gadget(**spec))
        await GadgetController(world.hub).queue(made)
        await world.until(lambda: world.check()[0] == "Rejected", "rejected")
        listed = await world.workers["w1"].client.list(GADGETS, namespace=NAMESPACE)
        assert listed.items == []
        return world.check()[1]


async def test_an_object_that_does_not_name_multikueue_is_not_dispatched() -> None:
    message = await refusal_of(dispatching())
    assert 'Gadget "team-a/train": spec.managedBy is not set' in message


async def test_a_controller_field_that_is_no_text_is_not_dispatched() -> None:
    message = await refusal_of(dispatching(), managedBy=5)
    assert 'spec.managedBy is "5"' in message


async def test_without_the_gate_the_check_names_it() -> None:
    message = await refusal_of(dispatching(gate=False), managedBy=MULTIKUEUE)
    assert message == "MultiKueueAdaptersForCustomJobs feature gate is disabled"


async def test_a_kind_that_only_owns_jobs_is_not_dispatched() -> None:
    message = await refusal_of(owning(), managedBy=MULTIKUEUE)
    assert "MultiKueue cannot run jobs of gadgets.example.com/v1, Kind=Gadget" in message


async def test_an_evicted_external_job_queues_again_once_its_copy_is_gone() -> None:
    async with (
        multikueue_world("w1", real_workers=True, crds=[CRD], gpus=4) as world,
        world.manager(dispatching()),
    ):
        worker = world.workers["w1"]
        await grant(world)
        await world.until_connected()
        made = await world.hub.create(GADGETS, make_gadget(managedBy=MULTIKUEUE))
        await GadgetController(world.hub).queue(made)
        await until_gadget(worker)
        await GadgetController(worker).run("train")
        await world.until_ready()
        off = {"spec": {"active": False}}
        await world.hub.patch(WORKLOADS, "gadget-train", off, namespace=NAMESPACE)

        def has_no_quota() -> bool:
            found = world.workload()
            return found is not None and found.status.admission is None

        await world.until(has_no_quota, "its quota is free")
        listed = await worker.client.list(GADGETS, namespace=NAMESPACE)
        assert listed.items == []
        assert await world.hub.client.get(GADGETS, "train", namespace=NAMESPACE)


@virtual_time
async def test_a_job_of_an_external_owner_has_no_workload_and_follows_its_owner() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager(owning()):
        queues = [make_gpu_flavor("gpu"), make_gpu_queue(4), make_local_queue()]
        await create_missing(cluster.client, [*queues, *build_declared_roles(GADGET)])
        made = await cluster.create(GADGETS, make_gadget())
        child = make_gpu_job("child", managed_by=None)
        child["metadata"]["ownerReferences"] = [owner_reference(made)]
        child["spec"]["suspend"] = False
        await cluster.create(JOBS, child)
        await cluster.changes.until(
            lambda: (cluster.job("child") or {}).get("spec", {}).get("suspend") is True, "stopped"
        )
        await GadgetController(cluster).queue(made)

        def is_admitted() -> bool:
            found = cluster.workload_of("train")
            return found is not None and workload_state.is_admitted(found.status)

        await cluster.changes.until(is_admitted, "admitted")
        await cluster.patch(JOBS, "child", {"spec": {"suspend": False}}, namespace=NAMESPACE)
        await cluster.create(JOBS, make_gpu_job("other", managed_by=None))
        await cluster.changes.until(lambda: cluster.workload_of("other"), "another job is queued")
        assert cluster.workload_of("child") is None
        running = cluster.job("child")
        assert running is not None
        assert running["spec"]["suspend"] is False


@virtual_time
async def test_a_job_of_an_owner_of_another_kind_stands_for_itself() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager():
        await create_missing(cluster.client, [make_gpu_flavor("gpu"), make_local_queue()])
        made = await cluster.create(GADGETS, make_gadget())
        child = make_gpu_job("child", managed_by=None)
        child["metadata"]["ownerReferences"] = [owner_reference(made)]
        await cluster.create(JOBS, child)
        await cluster.changes.until(lambda: cluster.workload_of("child"), "it has a Workload")


@virtual_time
async def test_a_job_waits_until_the_kind_of_its_external_owner_is_served() -> None:
    async with queue_cluster() as cluster, cluster.manager(owning()) as context:
        queues = [make_gpu_flavor("gpu"), make_gpu_queue(4), make_local_queue()]
        await create_missing(cluster.client, queues)
        known = asyncio.Event()
        context.integrations.add_listener(on_added=lambda _: known.set())
        child = make_gpu_job("child", managed_by=None)
        gone = {"metadata": {"name": "train", "uid": "7"}}
        child["metadata"]["ownerReferences"] = [owner_reference(gone)]
        await cluster.create(JOBS, child)
        await cluster.create(JOBS, make_gpu_job("other", managed_by=None))
        await cluster.changes.until(lambda: cluster.workload_of("other"), "another job is queued")
        assert cluster.workload_of("child") is None
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(CRDS, CRD)
        await known.wait()


@virtual_time
async def test_a_jobkind_of_an_external_framework_is_refused() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager(owning()):
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(JOB_KINDS, make_job_kind())
        message = await until_condition(cluster, "Accepted", "External")
        assert NAME in message
