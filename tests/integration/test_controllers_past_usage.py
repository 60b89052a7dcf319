"""LocalQueues take turns by past usage, which outlives the manager (E-120 to E-126)."""

from __future__ import annotations

from multiqueue.api.config import AdmissionFairSharing, Configuration
from multiqueue.api.config.durations import Duration
from multiqueue.kube import resources
from multiqueue.lib.quantity import parse_quantity
from tests.integration.queue_steps import complete, running, submit
from tests.queue_manager import CONFIG, NAMESPACE, QueueCluster, queue_cluster
from tests.queue_objects import make_cluster_queue, make_flavor, make_job, make_local_queue

SHARING = Configuration(
    namespace=CONFIG.namespace,
    admission_fair_sharing=AdmissionFairSharing(
        usage_half_life_time=Duration(hours=1),
        usage_sampling_interval=Duration(milliseconds=100),
    ),
)


async def make_shared_queue(cluster: QueueCluster) -> None:
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
    await cluster.create(
        resources.CLUSTER_QUEUES, make_cluster_queue(cpu="4", admissionScope=scope)
    )
    for name in ("used", "unused"):
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name))


def consumed(cluster: QueueCluster, local_queue: str) -> int:
    """Nanos of cpu in the status; -1 before there is one."""
    queue = cluster.informers.local_queues.store.get(f"{NAMESPACE}/{local_queue}")
    sharing = queue.status.fair_sharing if queue is not None else None
    status = sharing.admission_fair_sharing_status if sharing is not None else None
    if status is None:
        return -1
    return parse_quantity(status.consumed_resources.get("cpu", "0")).nano


async def test_a_restart_does_not_forget_who_used_how_much() -> None:
    async with queue_cluster() as cluster:
        async with cluster.manager(SHARING):
            await make_shared_queue(cluster)
            await submit(cluster, make_job("first", queue="used", cpu="4"))
            await cluster.changes.until(lambda: consumed(cluster, "used") > 0, "past usage")
            await cluster.changes.until(lambda: consumed(cluster, "unused") == 0, "no usage")
            await complete(cluster, "first")
            await cluster.changes.until(
                lambda: (w := cluster.workload_of("first")) and w.status.conditions[-1], "an end"
            )
        before = consumed(cluster, "used")
        await submit(cluster, make_job("a-second", queue="used", cpu="4"))
        await submit(cluster, make_job("b-other", queue="unused", cpu="4"))

        async with cluster.manager(SHARING) as manager:
            await cluster.changes.until(lambda: running(cluster, "b-other"), "the other's job")
            assert not running(cluster, "a-second")
            await cluster.changes.until(lambda: consumed(cluster, "unused") > 0, "its usage")
            gauge = manager.metrics.local_queue_admission_fair_sharing_usage
            assert gauge.child("used", NAMESPACE, "cq").collect()
        # The history that was persisted is still most of what there is, a little decayed.
        assert before * 0.99 < consumed(cluster, "used") <= before * 1.01
