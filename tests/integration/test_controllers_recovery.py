"""A pod that its node will never end is ended, so that its job can go on; on a virtual clock."""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import build_configuration
from multiqueue.kube import resources
from multiqueue.kube.errors import NotFound
from tests.builders.workloads import NAMESPACE
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

CONFIG = build_configuration(
    {"namespace": "kueue-system", "featureGates": {"FailureRecoveryPolicy": True}}
)
UNREACHABLE = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]


def make_pod(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }


async def find(cluster: QueueCluster, name: str) -> dict[str, Any] | None:
    try:
        return await cluster.client.get(resources.PODS, name, namespace=NAMESPACE)
    except NotFound:
        return None


@virtual_time
async def test_only_what_is_marked_as_safe_is_removed_and_only_once_the_node_is_lost() -> None:
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster, cluster.manager(CONFIG, clock=clock):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
        await cluster.create(resources.NODES, node)
        marked = {names.SAFE_TO_FORCEFULLY_DELETE: "true"}
        for name, annotations in (("safe", marked), ("precious", {})):
            await cluster.create(resources.PODS, make_pod(name, annotations))
            await cluster.client.delete(resources.PODS, name, namespace=NAMESPACE, grace_seconds=30)
        await asyncio.sleep(600)
        assert await find(cluster, "safe") is not None
        await cluster.patch(resources.NODES, "n", {"spec": {"taints": UNREACHABLE}})
        await asyncio.sleep(1)
        assert await find(cluster, "safe") is None
        assert await find(cluster, "precious") is not None
        events = await cluster.events()
        assert ("Pod", "safe", "KueueForcefullyDeleted") in events
