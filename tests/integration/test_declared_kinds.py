"""Kinds that a JobKind declares: queued, dispatched, changed and removed while the manager runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multiqueue.api import workload_state
from multiqueue.api.conditions import find_condition
from multiqueue.api.v1alpha1 import JobKind
from multiqueue.api.v1beta2 import Workload
from multiqueue.embedded.cluster.kind_crds import build_kind_crd
from multiqueue.jobs.rights import build_declared_roles
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import CRDS, JOB_KINDS, Resource, resource_of
from multiqueue.runtime.manifests import create_missing
from tests.builders.job_kinds import GADGET, make_gadget, make_job_kind
from tests.builders.queues import GPU, make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import make_config, multikueue_world
from tests.queue_manager import QueueCluster, queue_cluster

GADGETS: Resource = resource_of(GADGET.api_version, GADGET.plural, GADGET.kind)
CRD = build_kind_crd(GADGET)
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
assert CRD is not None


def conditions(cluster: QueueCluster, name: str = "gadgets") -> dict[str, tuple[str, str]]:
    """Reason and message of each condition of a JobKind."""
    job_kind: JobKind | None = cluster.informers.job_kinds.store.get(name)
    found = job_kind.status.conditions if job_kind is not None else ()
    return {c.type: (c.reason, c.message) for c in found}


async def until_condition(
    cluster: QueueCluster, type_: str, reason: str, name: str = "gadgets"
) -> str:
    await cluster.changes.until(
        lambda: conditions(cluster, name).get(type_, ("",))[0] == reason, f"{type_} is {reason}"
    )
    return conditions(cluster, name)[type_][1]


async def make_queues(cluster: QueueCluster) -> None:
    await create_missing(
        cluster.client, [make_gpu_flavor("gpu"), make_gpu_queue(4), make_local_queue()]
    )


async def gadget(cluster: QueueCluster, name: str = "train") -> dict[str, Any]:
    return await cluster.client.get(GADGETS, name, namespace=NAMESPACE)


def is_admitted(cluster: QueueCluster, name: str = "train") -> Callable[[], bool]:
    def check() -> bool:
        found = cluster.workload_of(name)
        return found is not None and workload_state.is_admitted(found.status)

    return check


async def test_a_job_of_a_declared_kind_waits_starts_and_ends() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager():
        await make_queues(cluster)
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(GADGETS, make_gadget(size=2))
        await cluster.create(JOB_KINDS, make_job_kind())
        await cluster.changes.until(is_admitted(cluster), "admitted")
        workload = cluster.workload_of("train")
        assert workload is not None
        assert [(each.name, each.count) for each in workload.spec.pod_sets] == [("main", 2)]
        await until_condition(cluster, "Active", "Queued")
        started = await gadget(cluster)
        assert "pause" not in started["spec"]
        labels = started["spec"]["template"]["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/podset"] == "main"
        status = {"phase": "Done", "reason": "all is well"}
        await cluster.patch(
            GADGETS, "train", {"status": status}, namespace=NAMESPACE, subresource="status"
        )

        def ended() -> Workload | None:
            found = cluster.workload_of("train")
            return found if found and workload_state.is_finished(found.status) else None

        finished = await cluster.changes.until(ended, "finished")
        condition = find_condition(finished.status.conditions, "Finished")
        assert condition.message == "all is well"
