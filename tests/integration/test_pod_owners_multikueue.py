"""A StatefulSet on a worker, through the API (J-294)."""

from __future__ import annotations

import msgspec

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.api.workload_state import is_admitted
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE
from tests.integration.test_pod_owners import STATEFUL_SETS, make_set
from tests.multikueue_world import make_config, multikueue_world

CONFIG = msgspec.structs.replace(
    make_config(), integrations=Integrations(frameworks=("batch/job", "statefulset"))
)


async def test_a_stateful_set_is_copied_to_a_worker_and_removed_with_its_original() -> None:
    async with (
        multikueue_world("worker1", real_workers=True, config=CONFIG) as world,
        world.manager(CONFIG),
    ):
        wanted = make_set(2)
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
        }
        wanted["spec"]["template"] = {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [container]},
        }
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
