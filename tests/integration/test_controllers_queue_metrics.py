"""What the metrics of queues say while Workloads wait, and who has metrics; on a virtual clock."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.api.config import Configuration, build_configuration
from multiqueue.kube import resources
from multiqueue.observability.families import ROLE
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, submit
from tests.queue_manager import CONFIG, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

FAIR = {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}}


def config(**gates: bool) -> Configuration:
    return build_configuration({"namespace": CONFIG.namespace, "featureGates": gates, **FAIR})


def values(metrics: ManagerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by those of its labels, without the role."""
    return {
        tuple(value for label, value in sample.labels.items() if label != ROLE): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


async def run_contended_queue(settings: Configuration) -> ManagerMetrics:
    """Two jobs of three CPUs want a queue of four: one waits for a wake."""
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster, cluster.manager(settings, clock=clock) as m:
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue(cohortName="co"))
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await submit(cluster, make_job("first", cpu="3"))
        await cluster.changes.until(lambda: admitted(cluster, "first"), "the first admitted")
        await submit(cluster, make_job("second", cpu="3"))
        await cluster.changes.until(lambda: cluster.workload_of("second"), "the second waiting")
        await asyncio.sleep(10)  # virtual; states are told once a second
        return m.metrics


@virtual_time
async def test_a_workload_that_waits_for_a_wake_counts_as_inadmissible() -> None:
    metrics = await run_contended_queue(config())

    assert values(metrics, "kueue_pending_workloads") == {
        ("cq", "active"): 0.0,
        ("cq", "inadmissible"): 1.0,
    }
    assert values(metrics, "kueue_local_queue_pending_workloads") == {
        ("lq", NAMESPACE, "active"): 0.0,
        ("lq", NAMESPACE, "inadmissible"): 1.0,
    }
    lq = ("lq", NAMESPACE)
    assert values(metrics, "kueue_local_queue_status") == {
        (*lq, "True"): 1.0,
        (*lq, "False"): 0.0,
        (*lq, "Unknown"): 0.0,
    }
    for name in ("reserving_active_workloads", "admitted_active_workloads"):
        assert values(metrics, f"kueue_local_queue_{name}") == {lq: 1.0}
    for name in ("resource_reservation", "resource_usage"):
        assert values(metrics, f"kueue_local_queue_{name}") == {(*lq, "default", "cpu"): 3.0}
    assert values(metrics, "kueue_cohort_weighted_share") == {("co",): 0.0}


@pytest.mark.parametrize(
    ("gate", "metric"),
    [
        ("LocalQueueMetrics", "kueue_local_queue_pending_workloads"),
        ("MetricsForCohorts", "kueue_cohort_weighted_share"),
    ],
)
@virtual_time
async def test_metrics_end_with_their_gate(gate: str, metric: str) -> None:
    metrics = await run_contended_queue(config(**{gate: False}))

    assert values(metrics, metric) == {}
    assert len(values(metrics, "kueue_pending_workloads")) == 2


@virtual_time
async def test_a_local_queue_that_is_relabelled_or_gone_has_no_metrics() -> None:
    clock = LoopClock()
    section = {"enable": True, "localQueueSelector": {"matchLabels": {"team": "blue"}}}
    settings = build_configuration({"metrics": {"localQueueMetrics": section}})
    async with queue_cluster(clock=clock) as cluster, cluster.manager(settings, clock=clock) as m:

        async def relabel(name: str, label: str | None) -> None:
            patch = {"metadata": {"labels": {"team": label}}}
            await cluster.patch(resources.LOCAL_QUEUES, name, patch, namespace=NAMESPACE)

        def measured() -> set[str]:
            return {name for name, *_ in values(m.metrics, "kueue_local_queue_status")}

        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue())
        for name in ("deleted", "relabelled"):
            await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name))
            await relabel(name, "blue")
        await asyncio.sleep(10)
        assert measured() == {"deleted", "relabelled"}

        await relabel("relabelled", None)
        await cluster.client.delete(resources.LOCAL_QUEUES, "deleted", namespace=NAMESPACE)
        await asyncio.sleep(10)
        assert measured() == set()
