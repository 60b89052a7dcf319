"""Who decides where a job goes: somebody outside, a configuration's dispatcher, the user."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.workload_state import find, is_evicted
from multiqueue.kube.client import PatchType
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import (
    CHECK,
    MultiKueueWorld,
    make_config,
    multikueue_world,
    record_warnings,
)

MALFORMED = 'multiqueue.dev/cluster-selector "gpu in h100" is malformed'


class Outsider:
    """A controller of somebody else that nominates clusters."""

    def __init__(self, world: MultiKueueWorld, how: PatchType) -> None:
        self.world = world
        self.how = how

    async def nominate(self, *clusters: str) -> None:
        workload = self.world.workload()
        assert workload is not None
        patch: dict[str, Any] = {"status": {"nominatedClusterNames": list(clusters)}}
        if self.how is PatchType.APPLY:
            metadata = {"name": workload.metadata.name, "namespace": NAMESPACE}
            patch |= {"apiVersion": names.V1BETA2, "kind": "Workload", "metadata": metadata}
        await self.world.hub.client.patch(
            WORKLOADS,
            workload.metadata.name,
            patch,
            namespace=NAMESPACE,
            subresource="status",
            patch_type=self.how,
            field_manager="outsider",
        )

    async def until_said(self, words: str) -> None:
        await self.world.until(lambda: words in self.world.check()[1], words)


@pytest.mark.parametrize(
    ("how", "name"),
    [(PatchType.MERGE, "external"), (PatchType.APPLY, "example.com/theirs")],
    ids=["merge patch", "server-side apply"],
)
async def test_an_outside_controller_nominates(how: PatchType, name: str) -> None:
    """T-29 to T-33."""
    config = make_config(dispatcher_name=name)
    async with multikueue_world("w1", "w2") as world, world.manager(config) as context:
        warnings = record_warnings(context)
        outsider = Outsider(world, how)
        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job())
        await outsider.until_said(
            f'No cluster is nominated yet: the controller of dispatcher "{name}" nominates clusters'
        )
        assert (world.copy("w1"), world.copy("w2")) == (None, None)

        await outsider.nominate("w2")
        await world.until(lambda: world.copy("w2"), "copy on w2", on="w2")
        await outsider.until_said('offered to "w2"')
        assert world.copy("w1") is None
        await outsider.nominate("w1", "w2")
        await world.until(lambda: world.copy("w1"), "copy on w1", on="w1")
        await outsider.nominate("w2")
        await world.until(lambda: world.copy("w1") is None, "w1 let go", on="w1")
        await outsider.nominate("w2", "w1")
        await world.until(lambda: world.copy("w1"), "copy on w1 again", on="w1")
        workload = world.workload()
        assert workload is not None
        assert workload.status.nominated_cluster_names == ("w2", "w1")

        await world.admit("w2")
        assert await world.until_ready() == "w2"
        await world.until(lambda: world.copy("w1") is None, "the loser let go", on="w1")
        assert world.workload().status.nominated_cluster_names == ()

        await world.evict("w2")
        await outsider.until_said("No cluster is nominated yet")
        status = world.workload().status
        assert (status.cluster_name, status.nominated_cluster_names) == (None, ())
        assert not is_evicted(status)
        await outsider.nominate("w1")
        await world.admit("w1")
        assert await world.until_ready() == "w1"
        assert warnings == []


async def test_a_configuration_has_a_dispatcher_of_its_own_and_may_change_it_at_any_time() -> None:
    async with multikueue_world("w1", "w2") as world, world.manager() as context:
        await annotate_config(world, "nobody")
        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(
            lambda: 'dispatcher "nobody" is not installed' in world.check()[1], "the reason"
        )
        assert world.workload().status.nominated_cluster_names == ()
        await annotate_config(world, "external")
        await world.until(lambda: "is nominated yet" in world.check()[1], "an outsider's turn")
        await annotate_config(world, "score")
        await world.until(
            lambda: world.workload().status.nominated_cluster_names == ("w1",), "one by score"
        )
        await annotate_config(world, None)
        await world.until(
            lambda: world.workload().status.nominated_cluster_names == ("w1", "w2"), "all at once"
        )
        assert context.config.multi_kueue.dispatcher_name == names.DISPATCHER_ALL_AT_ONCE


async def annotate_config(world: MultiKueueWorld, dispatcher: str | None) -> None:
    patch = {"metadata": {"annotations": {names.DISPATCHER: dispatcher}}}
    await world.hub.patch(MULTIKUEUE_CONFIGS, "fleet", patch)


async def test_a_job_may_change_its_mind_about_clusters_while_it_waits() -> None:
    async with multikueue_world("w1", "w2") as world:
        await world.hub.patch(
            MULTIKUEUE_CLUSTERS,
            "w1",
            {"metadata": {"labels": {"gpu": "a100"}}},
        )
        taints = {names.CLUSTER_TAINTS: "team=x:NoSchedule"}
        labels = {"gpu": "h100"}
        await world.hub.patch(
            MULTIKUEUE_CLUSTERS, "w2", {"metadata": {"labels": labels, "annotations": taints}}
        )
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job())
            await until_offered(world, "w1")
            assert "w2 has taint team=x:NoSchedule" in world.check()[1]
            await annotate_job(world, names.CLUSTER_TOLERATIONS, "team")
            await until_offered(world, "w1", "w2")
            await annotate_job(world, names.CLUSTER_SELECTOR, "gpu in (h100)")
            await until_offered(world, "w2")
            await world.until(lambda: world.copy("w1") is None, "w1 let go", on="w1")
            await annotate_job(world, names.CLUSTER_SELECTOR, "gpu in h100")
            await until_offered(world)
            await world.until(lambda: MALFORMED in why_waiting(world), "the reason")
            assert world.check()[0] == "Pending"
            await annotate_job(world, names.CLUSTER_SELECTOR, None)
            await until_offered(world, "w1", "w2")


def why_waiting(world: MultiKueueWorld) -> str:
    """Why it has no quota; it gives that back while no worker may run it."""
    workload = world.workload()
    assert workload is not None
    reserved = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    return reserved.message if reserved is not None else ""


async def annotate_job(world: MultiKueueWorld, key: str, value: str | None) -> None:
    patch = {"metadata": {"annotations": {key: value}}}
    await world.hub.patch(JOBS, "train", patch, namespace=NAMESPACE)


async def until_offered(world: MultiKueueWorld, *clusters: str) -> None:
    await world.until(
        lambda: (
            (w := world.workload()) is not None
            and w.status.nominated_cluster_names == clusters
            and w.status.admission_checks[0].name == CHECK
        ),
        f"offered to {clusters}",
    )
