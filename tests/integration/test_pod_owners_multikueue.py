"""StatefulSets and LeaderWorkerSets on workers, through the API (J-294, J-313)."""

from __future__ import annotations

from functools import partial

import msgspec

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.api.workload_state import is_admitted
from multiqueue.embedded.cluster.kind_crds import build_kind_crds
from multiqueue.jobs.leaderworkerset.integration import GROUP_INDEX
from multiqueue.jobs.pod.source import LWS_NAME
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.integration.test_pod_owners import (
    LEADER_WORKER_SETS,
    LWS_ROW,
    STATEFUL_SETS,
    create_pod,
    is_started,
    make_groups,
    make_set,
)
from tests.multikueue_world import make_config, multikueue_world

CONFIG = msgspec.structs.replace(
    make_config(),
    integrations=Integrations(frameworks=("batch/job", "statefulset", LWS_ROW.framework)),
)
WORKERS = ("w1", "w2")
CONTAINER = {
    "name": "c",
    "image": "i",
    "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
}
TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [CONTAINER]}}


async def test_a_stateful_set_is_copied_to_a_worker_and_removed_with_its_original() -> None:
    """M-24."""
    async with (
        multikueue_world(
            "worker1", real_workers=True, config=CONFIG, crds=build_kind_crds(LWS_ROW)
        ) as world,
        world.manager(CONFIG),
    ):
        wanted = make_set(2)
        wanted["spec"]["template"] = TEMPLATE
        local = await world.hub.create(STATEFUL_SETS, wanted)
        there = world.workers["worker1"]
        copies = there.informers.jobs["statefulset"].store
        await world.until(lambda: bool(copies.list()), "a copy", on="worker1")
        [copy] = copies.list()
        annotations = copy["metadata"]["annotations"]
        assert annotations[names.MULTIKUEUE_ORIGIN_UID] == local["metadata"]["uid"]

        def admitted() -> bool:
            found = there.informers.workloads.store.list()
            return len(found) == 1 and is_admitted(found[0].status)

        await world.until(admitted, "one admitted Workload on the worker", on="worker1")
        [workload] = there.informers.workloads.store.list()
        assert annotations[names.PREBUILT_WORKLOAD_NAME] == workload.metadata.name
        await world.hub.client.delete(STATEFUL_SETS, "db", namespace=NAMESPACE)
        await world.until(lambda: not copies.list(), "an empty worker", on="worker1")


async def test_each_group_of_a_leader_worker_set_runs_on_a_worker_that_has_room() -> None:
    """M-101: each worker has room for one group of two."""
    crds = build_kind_crds(LWS_ROW)
    async with (
        multikueue_world("w1", "w2", gpus=2, real_workers=True, crds=crds, config=CONFIG) as world,
        world.manager(CONFIG),
    ):
        await world.until_connected()
        wanted = make_groups(2)
        wanted["spec"]["leaderWorkerTemplate"]["workerTemplate"] = TEMPLATE
        await world.hub.create(LEADER_WORKER_SETS, wanted)
        copies = {
            name: world.workers[name].informers.jobs[LWS_ROW.framework].store for name in WORKERS
        }
        for name in WORKERS:
            await world.until(lambda name=name: copies[name].list(), "a group", on=name)
        sets = {
            copy["metadata"]["name"]: copy for store in copies.values() for copy in store.list()
        }
        assert set(sets) == {"llm", "llm-replica-1"}
        assert [each["spec"]["replicas"] for each in sets.values()] == [1, 1]
        for name in WORKERS:
            [copy] = copies[name].list()
            leader = f"{copy['metadata']['name']}-0"
            labels = {LWS_NAME: copy["metadata"]["name"], GROUP_INDEX: "0"}
            worker = world.workers[name]
            await create_pod(worker, copy, leader, LWS_ROW.framework, **labels)
            await world.until(partial(is_started, worker, leader), "a started pod", on=name)
        await world.hub.client.patch(
            LEADER_WORKER_SETS, "llm", {"spec": {"replicas": 1}}, namespace=NAMESPACE
        )
        [second] = [name for name in WORKERS if copies[name].list()[0]["metadata"]["name"] != "llm"]
        await world.until(lambda: not copies[second].list(), "one group", on=second)
        assert sum(len(store.list()) for store in copies.values()) == 1
        await world.hub.client.delete(LEADER_WORKER_SETS, "llm", namespace=NAMESPACE)
        for name in WORKERS:
            await world.until(lambda name=name: not copies[name].list(), "no group", on=name)
