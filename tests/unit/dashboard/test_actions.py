"""What the buttons of a page cost the API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast

from multiqueue.dashboard.actions import PageActions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import Resource

NOW = datetime(2026, 1, 20, tzinfo=UTC)
PODS = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(300)]
GROUP = {
    "metadata": {"name": "group", "namespace": "a", "uid": "u", "ownerReferences": PODS},
    "spec": {"queueName": "lq", "podSets": []},
}
TARGET = {"kind": "workloads", "namespace": "a", "name": "group"}


class ReviewedCluster:
    """A client of a cluster with a pod group; `reviews` are the rights that it was asked about."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied
        self.reviews: Counter[tuple[str, str]] = Counter()

    async def get(self, resource: Resource, name: str, **_: Any) -> Any:
        del resource, name
        return GROUP

    async def create(self, resource: Resource, obj: Any) -> Any:
        del resource
        wanted = obj["spec"]["resourceAttributes"]
        self.reviews[wanted["resource"], wanted["verb"]] += 1
        return {"status": {"allowed": wanted["verb"] not in self.denied}}


async def test_the_rights_on_the_pods_of_a_group_are_asked_about_once() -> None:
    offered = {}
    for denied in ("", "delete"):
        cluster = ReviewedCluster(denied)
        actions = PageActions(cast("KubeClient", cluster), lambda: NOW, asyncio.Semaphore(1), "ns")
        told = await actions.describe(TARGET)
        offered[denied] = [each["verb"] for each in told["actions"]]
        asked = [("workloads", "patch"), ("pods", "patch"), ("pods", "delete")]
        assert cluster.reviews == Counter(asked)
    assert offered == {"": ["stop", "priority", "cancel"], "delete": ["stop", "priority"]}
