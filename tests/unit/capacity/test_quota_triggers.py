"""T-288 to T-302: what has the quotas of a manager looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.capacity.quota_automation_controller import BATCH_SECONDS, QuotaAutomation
from multiqueue.kube.workqueue import WorkQueue
from tests.virtual_time import virtual_time

KINDS = (
    "cluster_queues",
    "local_queues",
    "admission_checks",
    "multikueue_configs",
    "multikueue_clusters",
)
QUEUE = {"metadata": {"name": "cq"}, "spec": {"admissionChecksStrategy": {"admissionChecks": []}}}
PLAIN = {"metadata": {"name": "plain"}}


def make(kind: type[Any], name: str, *, generation: int = 1, **spec: Any) -> Any:
    metadata = {"name": name, "namespace": "ns", "generation": generation}
    return decode(kind, {"metadata": metadata, "spec": spec})


class Listening:
    """A controller whose informers a test speaks for."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[Any, Any], None]] = {}
        queues = [decode(api.ClusterQueue, obj) for obj in (QUEUE, PLAIN)]
        store = SimpleNamespace(list=lambda: queues)
        informers = {
            kind: SimpleNamespace(
                add_handler=lambda handler, kind=kind: self.handlers.update({kind: handler}),
                store=store,
            )
            for kind in KINDS
        }
        limits: Any = SimpleNamespace(
            add_listener=lambda listener: setattr(self, "limits", listener)
        )
        context: Any = SimpleNamespace(
            informers=SimpleNamespace(**informers),
            config=SimpleNamespace(multi_kueue=SimpleNamespace(worker_lost_timeout=None)),
            metrics=SimpleNamespace(watch_queue=self._watch_queue),
        )
        fleet: Any = None  # nothing is reconciled
        self.limits: Callable[[], None] = list
        QuotaAutomation(context, fleet, limits)

    def _watch_queue(self, _: str, queue: WorkQueue[str]) -> None:
        self.queue = queue

    async def tell(self, kind: str, old: Any, new: Any) -> set[str]:
        """Return the ClusterQueues that are reconciled after an event."""
        self.handlers[kind](old, new)
        return await self.woken()

    async def woken(self) -> set[str]:
        """Return the ClusterQueues that are reconciled a little later."""
        await asyncio.sleep(2 * BATCH_SECONDS)
        return {await self.queue.get() for _ in range(len(self.queue))}


CHECK = make(api.AdmissionCheck, "check", controllerName="x")
CONFIG = make(api.MultiKueueConfig, "fleet", clusters=["a"])
CLUSTER = make(api.MultiKueueCluster, "a")
LOCAL = make(api.LocalQueue, "lq", clusterQueue="mine")


@pytest.mark.parametrize(
    ("kind", "obj", "changed"),
    [
        ("admission_checks", CHECK, make(api.AdmissionCheck, "check", controllerName="y")),
        ("multikueue_configs", CONFIG, make(api.MultiKueueConfig, "fleet", clusters=["a", "b"])),
        (
            "multikueue_clusters",
            CLUSTER,
            make(api.MultiKueueCluster, "a", clusterSource={"kubeConfig": {"location": "s"}}),
        ),
    ],
    ids=["check", "configuration", "cluster"],
)
@virtual_time
async def test_what_all_queues_depend_on(kind: str, obj: Any, changed: Any):
    """M-204."""
    for old, new in ((None, obj), (obj, changed), (obj, None)):
        assert await Listening().tell(kind, old, new) == {"cq"}
    assert await Listening().tell(kind, obj, obj) == set()


@virtual_time
async def test_a_local_queue_is_about_its_own_queue():
    moved = make(api.LocalQueue, "lq", clusterQueue="other")
    for old, new in ((None, LOCAL), (LOCAL, None)):
        assert await Listening().tell("local_queues", old, new) == {"mine"}
    assert await Listening().tell("local_queues", LOCAL, moved) == {"mine", "other"}
    touched = make(api.LocalQueue, "lq", generation=2, clusterQueue="mine")
    assert await Listening().tell("local_queues", LOCAL, touched) == set()


@virtual_time
async def test_a_cluster_queue_is_looked_at_when_its_spec_changes():
    queue, plain = (
        decode(api.ClusterQueue, QUEUE),
        decode(api.ClusterQueue, {"metadata": {"name": "cq"}}),
    )
    assert await Listening().tell("cluster_queues", None, queue) == {"cq"}
    assert await Listening().tell("cluster_queues", queue, plain) == {"cq"}
    assert await Listening().tell("cluster_queues", queue, queue) == set()
    assert await Listening().tell("cluster_queues", queue, None) == set()


@virtual_time
async def test_limits_of_a_worker_are_about_all_queues():
    listening = Listening()
    listening.limits()
    assert await listening.woken() == {"cq"}
