"""What the metrics for alerts and boards say: GPUs of queues and workers, stages, changes."""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.kube import resources
from multiqueue.observability.families import ROLE
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.integration.queue_steps import admitted, submit
from tests.multikueue_world import multikueue_world
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time


def values(metrics: ManagerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by those of its labels, without the role."""
    return {
        tuple(value for label, value in sample.labels.items() if label != ROLE): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def job_of(queue: str, name: str, gpus: int) -> dict[str, Any]:
    job = make_gpu_job(name, gpus=gpus, managed_by=None)
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return job


async def make_cohort(cluster: QueueCluster) -> None:
    await cluster.create(resources.RESOURCE_FLAVORS, make_gpu_flavor("gpu"))
    for name in ("lender", "borrower"):
        queue = make_gpu_queue(4, name=name)
        queue["spec"]["cohortName"] = "co"
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name, cluster_queue=name))


@virtual_time
async def test_a_queue_starves_while_others_hold_what_it_lent() -> None:
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster, cluster.manager(CONFIG, clock=clock) as m:
        await make_cohort(cluster)
        await submit(cluster, job_of("borrower", "large", 6))
        await cluster.changes.until(lambda: admitted(cluster, "large"), "it borrows")
        await asyncio.sleep(5)  # virtual; queues are looked at once a second
        assert values(m.metrics, "multiqueue_starved_seconds")[("lender",)] == 0
        await submit(cluster, job_of("lender", "own", 4))
        await cluster.changes.until(lambda: cluster.workload_of("own"), "it waits")
        await asyncio.sleep(200)

        gpus = values(m.metrics, "multiqueue_gpus")
        assert {kind: gpus["borrower", "gpu", kind] for kind in ("reserved", "borrowed")} == {
            "reserved": 6,
            "borrowed": 2,
        }
        lender = {labels[1:]: value for labels, value in gpus.items() if labels[0] == "lender"}
        assert lender == {
            ("gpu", "nominal"): 4,
            ("gpu", "reserved"): 0,
            ("gpu", "running"): 0,
            ("gpu", "borrowed"): 0,
            ("gpu", "lent"): 2,
            ("gpu", "free"): 2,
            ("", "pending"): 4,
        }
        starved = values(m.metrics, "multiqueue_starved_seconds")
        assert 190 <= starved[("lender",)] <= 210
        assert starved[("borrower",)] == 0
        assert values(m.metrics, "multiqueue_oldest_waiting_seconds")[("lender",)] >= 190
        assert values(m.metrics, "multiqueue_phase_workloads")[("lender", "Queued")] == 1

        alone: dict[str, Any] = {"spec": {"cohortName": None}}
        await cluster.patch(resources.CLUSTER_QUEUES, "lender", alone)
        await asyncio.sleep(30)
        assert values(m.metrics, "multiqueue_starved_seconds")[("lender",)] == 0
        assert values(m.metrics, "multiqueue_gpus")["lender", "gpu", "lent"] == 0

        await cluster.client.delete(resources.CLUSTER_QUEUES, "lender")
        await cluster.client.delete(resources.JOBS, "own", namespace="team-a")
        await asyncio.sleep(30)
        for name in ("multiqueue_gpus", "multiqueue_starved_seconds"):
            assert {labels[0] for labels in values(m.metrics, name)} == {"borrower"}, name


@virtual_time
async def test_changed_specs_are_counted_and_statuses_are_not() -> None:
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster, cluster.manager(CONFIG, clock=clock) as m:
        await make_cohort(cluster)
        await submit(cluster, job_of("borrower", "large", 6))
        await cluster.changes.until(lambda: admitted(cluster, "large"), "its queue has a status")
        await asyncio.sleep(5)
        stop = {"spec": {"stopPolicy": "Hold"}}
        await cluster.patch(resources.CLUSTER_QUEUES, "lender", stop)
        await asyncio.sleep(5)
        assert values(m.metrics, "multiqueue_config_changes_total") == {
            ("ClusterQueue",): 3,
            ("LocalQueue",): 2,
            ("ResourceFlavor",): 1,
        }


@virtual_time
async def test_workers_and_stages_are_measured() -> None:
    async with multikueue_world("worker1", gpus=8) as world, world.manager() as manager:
        metrics = manager.metrics
        await world.until_connected()
        await world.hub.create(resources.JOBS, make_gpu_job("train"))
        await world.admit("worker1")
        await world.until_ready()
        await asyncio.sleep(10)
        free = {("worker1", "gpu", "total"): 8, ("worker1", "gpu", "used"): 0}
        gpus = values(metrics, "multiqueue_worker_gpus")
        assert gpus == {**free, ("worker1", "gpu", "free"): 8, ("worker1", "gpu", "cordoned"): 0}
        (info,) = values(metrics, "multiqueue_worker_info")
        assert info[:2] == ("worker1", "kueue")  # it has no definitions of ours
        stages = values(metrics, "multiqueue_stage_seconds_count")
        assert stages["reserve", ""] == 1
        assert stages["dispatch", ""] == 1

        cordon = {"metadata": {"annotations": {"multiqueue.dev/cordon": "true"}}}
        await world.hub.patch(resources.MULTIKUEUE_CLUSTERS, "worker1", cordon)
        await asyncio.sleep(5)
        gpus = values(metrics, "multiqueue_worker_gpus")
        assert gpus == {**free, ("worker1", "gpu", "free"): 0, ("worker1", "gpu", "cordoned"): 8}
        world.gates["worker1"].cut()
        await asyncio.sleep(60)
        assert values(metrics, "multiqueue_worker_gpus") == {}
