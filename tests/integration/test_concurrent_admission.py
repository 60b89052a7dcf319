"""Concurrent admission: one variant for each flavor, and the job runs with the best one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition
from multiqueue.api.v1beta2 import PodSetUpdate, Workload
from multiqueue.api.variants import parent_of, variant_flavor
from multiqueue.api.workload_checks import set_check_state
from multiqueue.api.workload_state import (
    eviction_reason,
    find,
    has_quota,
    is_admitted,
    is_evicted,
    is_finished,
)
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_check, make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE, T0
from tests.integration.queue_steps import complete, running, submit
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

FLAVORS = ("reserved", "on-demand", "spot")
GATED = msgspec.structs.replace(CONFIG, feature_gates={"ConcurrentAdmission": True})


def make_queue(mode: str = "TryPreferredFlavors", last: str = "", **quotas: str) -> dict[str, Any]:
    """A ClusterQueue with that much CPU of each flavor; 4 by default."""
    flavors = [
        {
            "name": name,
            "resources": [{"name": "cpu", "nominalQuota": quotas.get(name.replace("-", "_"), "4")}],
        }
        for name in FLAVORS
    ]
    migration: dict[str, Any] = {"mode": mode}
    if last:
        migration["constraints"] = {"lastAcceptableFlavorName": last}
    return make_cluster_queue(
        resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}],
        concurrentAdmissionPolicy={"migration": migration},
    )


@asynccontextmanager
async def queued_cluster(queue: dict[str, Any]) -> AsyncIterator[QueueCluster]:
    async with queue_cluster() as cluster:
        for name in FLAVORS:
            await cluster.create(resources.RESOURCE_FLAVORS, make_flavor(name, tier=name))
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


@asynccontextmanager
async def family_cluster(queue: dict[str, Any], config: Any = GATED) -> AsyncIterator[QueueCluster]:
    async with queued_cluster(queue) as cluster, cluster.manager(config):
        yield cluster


def variants(cluster: QueueCluster, job: str = "train") -> dict[str, Workload]:
    """The variants of a job by flavor."""
    parent = cluster.workload_of(job)
    return {
        variant_flavor(workload): workload
        for workload in cluster.informers.workloads.store.list()
        if (owner := parent_of(workload)) and parent and owner.uid == parent.metadata.uid
    }


def runs_on(cluster: QueueCluster, flavor: str, job: str = "train") -> Callable[[], bool]:
    """Whether the job runs with the quota of this flavor, and with no other's."""

    def check() -> bool:
        parent, started = cluster.workload_of(job), running(cluster, job)
        if parent is None or started is None or not is_admitted(parent.status):
            return False
        selector = started["spec"]["template"]["spec"].get("nodeSelector")
        holders = [f for f, v in variants(cluster, job).items() if has_quota(v.status)]
        return selector == {"tier": flavor} and holders == [flavor]

    return check


async def set_quota(cluster: QueueCluster, **quotas: str) -> None:
    groups = make_queue(**quotas)["spec"]["resourceGroups"]
    await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": groups}})


def active(cluster: QueueCluster) -> list[str]:
    return sorted(f for f, v in variants(cluster).items() if v.spec.active)


@virtual_time
async def test_a_job_starts_with_its_best_variant_and_ends_with_all() -> None:
    async with family_cluster(make_queue(reserved="0")) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "on-demand"), "the job runs on demand")
        parent = cluster.workload_of("train")
        assert parent is not None
        assert parent.metadata.labels[names.CONCURRENT_ADMISSION_PARENT] == "true"
        admitted = find(parent.status, WorkloadCondition.ADMITTED)
        chosen = variants(cluster)["on-demand"]
        assert admitted
        assert admitted.message == f"The variant {chosen.metadata.name} is admitted"
        await cluster.changes.until(
            lambda: active(cluster) == ["on-demand", "reserved"], "only better ones stay active"
        )
        await complete(cluster, "train")
        await cluster.changes.until(
            lambda: all(is_finished(v.status) for v in variants(cluster).values()), "all finish"
        )
        assert len(variants(cluster)) == 3


@virtual_time
async def test_a_running_job_moves_to_a_better_flavor() -> None:
    async with family_cluster(make_queue(reserved="0", on_demand="0")) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "spot"), "the job runs on spot")
        await set_quota(cluster, on_demand="0")
        await cluster.changes.until(runs_on(cluster, "reserved"), "the job moved")
        assert eviction_reason(variants(cluster)["spot"].status) is not None
        reasons = {reason for kind, _, reason in await cluster.events() if kind == "Workload"}
        assert {"EvictedDueToFlavorMigration", "EvictedDueToVariantEvicted"} <= reasons


@virtual_time
async def test_a_new_manager_ends_a_move_that_another_one_began() -> None:
    async with queued_cluster(make_queue(reserved="0", on_demand="0")) as cluster:
        async with cluster.manager(GATED):
            await submit(cluster, make_job("train"))
            await cluster.changes.until(runs_on(cluster, "spot"), "the job runs on spot")
            await set_quota(cluster, on_demand="0")
            await cluster.changes.until(
                lambda: is_evicted(variants(cluster)["spot"].status), "its variant has to go"
            )
        async with cluster.manager(GATED):
            await cluster.changes.until(runs_on(cluster, "reserved"), "the job moved")


@virtual_time
async def test_a_job_moves_no_further_than_the_last_acceptable_flavor() -> None:
    queue = make_queue(last="reserved", reserved="0", on_demand="0")
    async with family_cluster(queue) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "spot"), "the job runs on spot")
        await cluster.changes.until(
            lambda: active(cluster) == ["reserved", "spot"], "on-demand is not tried"
        )
        await set_quota(cluster, reserved="0")
        await submit(cluster, make_job("other", cpu="2"))
        await cluster.changes.until(runs_on(cluster, "on-demand", "other"), "another job runs")
        assert runs_on(cluster, "spot")()


@virtual_time
async def test_a_job_stays_where_it_was_admitted_first() -> None:
    queue = make_queue("RetainFirstAdmission", reserved="0")
    async with family_cluster(queue) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "on-demand"), "the job runs on demand")
        await cluster.changes.until(lambda: active(cluster) == ["on-demand"], "others are inactive")
        await cluster.client.delete(
            resources.WORKLOADS,
            variants(cluster)["on-demand"].metadata.name,
            namespace=NAMESPACE,
        )
        await set_quota(cluster, on_demand="0", reserved="0")
        await cluster.changes.until(runs_on(cluster, "spot"), "the job goes on elsewhere")


@virtual_time
async def test_variants_of_removed_flavors_go_and_new_ones_come() -> None:
    async with family_cluster(make_queue()) as cluster:
        await submit(cluster, make_job("train", cpu="9"))
        await cluster.changes.until(lambda: len(variants(cluster)) == 3, "three variants")
        group = make_queue()["spec"]["resourceGroups"][0]
        group["flavors"] = group["flavors"][:1]
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})
        await cluster.changes.until(lambda: list(variants(cluster)) == ["reserved"], "one is left")
        parent = cluster.workload_of("train")
        known = parent and find(parent.status, WorkloadCondition.QUOTA_RESERVED)
        assert known is None or "reserved: " in known.message


@virtual_time
async def test_the_parent_says_why_each_variant_waits() -> None:
    async with family_cluster(make_queue(spot="1")) as cluster:
        await submit(cluster, make_job("train", cpu="9"))

        def told() -> bool:
            parent = cluster.workload_of("train")
            known = parent and find(parent.status, WorkloadCondition.QUOTA_RESERVED)
            return bool(
                known
                and known.reason == Reason.EXCEEDS_MAX_QUOTA
                and all(f"{flavor}: " in known.message for flavor in FLAVORS)
            )

        await cluster.changes.until(told, "a reason for each flavor")


@virtual_time
async def test_a_deleted_job_takes_its_variants_along() -> None:
    async with family_cluster(make_queue()) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "reserved"), "the job runs")
        await cluster.client.delete(
            resources.JOBS, "train", namespace=NAMESPACE, propagation="Background"
        )
        await cluster.changes.until(
            lambda: not cluster.informers.workloads.store.list(), "no Workload is left"
        )


@virtual_time
async def test_one_variant_preempts_at_a_time() -> None:
    queue = make_queue()
    queue["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    async with family_cluster(queue) as cluster:
        for value, name in ((1, "low"), (9, "high")):
            await cluster.create(
                resources.WORKLOAD_PRIORITY_CLASSES,
                {
                    "apiVersion": names.V1BETA2,
                    "kind": "WorkloadPriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                },
            )
        for flavor in FLAVORS:
            job = make_job(f"low-{flavor}", cpu="4", labels={names.PRIORITY_CLASS: "low"})
            job["spec"]["template"]["spec"]["nodeSelector"] = {"tier": flavor}
            await submit(cluster, job)
            await cluster.changes.until(runs_on(cluster, flavor, f"low-{flavor}"), f"{flavor} full")
        await submit(cluster, make_job("train", cpu="4", labels={names.PRIORITY_CLASS: "high"}))
        await cluster.changes.until(runs_on(cluster, "reserved"), "the job runs on the best flavor")
        for flavor in FLAVORS[1:]:
            assert runs_on(cluster, flavor, f"low-{flavor}")(), flavor


async def answer(cluster: QueueCluster, flavor: str, state: CheckState, **updates: str) -> None:
    """Answer the check of a variant; pods shall get these node labels."""
    update = PodSetUpdate(name="main", node_selector=updates)
    writer = WorkloadWriter(cluster.client, cluster.informers.workloads)
    await writer.update_status(
        variants(cluster)[flavor].metadata.key,
        lambda newest: set_check_state(
            newest.status,
            "check",
            state,
            message="so says the test",
            now=T0,
            pod_set_updates=(update,) if updates else (),
        ),
    )


def holders(cluster: QueueCluster) -> list[str]:
    return sorted(f for f, v in variants(cluster).items() if has_quota(v.status))


@asynccontextmanager
async def checked_cluster() -> AsyncIterator[QueueCluster]:
    """A job whose variants all hold quota and wait for a check."""
    queue = make_queue()
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "check"}]}
    async with family_cluster(queue) as cluster:
        await cluster.create(resources.ADMISSION_CHECKS, make_check())
        ready = {"type": "Active", "status": "True", "reason": "Active", "message": "ok"}
        ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"status": {"conditions": [ready]}}
        await cluster.patch(resources.ADMISSION_CHECKS, "check", status, subresource="status")
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: holders(cluster) == sorted(FLAVORS), "all hold quota")
        yield cluster


@virtual_time
async def test_the_first_variant_whose_checks_are_ready_starts_the_job_and_others_give_way() -> (
    None
):
    async with checked_cluster() as cluster:
        assert running(cluster, "train") is None

        await answer(cluster, "on-demand", CheckState.READY, capacity="booked")
        await cluster.changes.until(lambda: "spot" not in holders(cluster), "spot gave way")
        job = await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        want = {"tier": "on-demand", "capacity": "booked"}
        assert job["spec"]["template"]["spec"]["nodeSelector"] == want

        await answer(cluster, "reserved", CheckState.READY)
        await cluster.changes.until(runs_on(cluster, "reserved"), "the job moved")
        await cluster.changes.until(lambda: active(cluster) == ["reserved"], "the rest is inactive")


@virtual_time
async def test_a_variant_that_its_check_rejects_is_not_tried_again() -> None:
    async with checked_cluster() as cluster:
        await answer(cluster, "reserved", CheckState.REJECTED)
        rest = ["on-demand", "spot"]
        await cluster.changes.until(
            lambda: (holders(cluster), active(cluster)) == (rest, rest), "one is out"
        )
        await answer(cluster, "spot", CheckState.READY)
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        assert "reserved" not in active(cluster)


@virtual_time
async def test_a_job_whose_pods_are_late_goes_on_elsewhere_while_its_variant_backs_off() -> None:
    assert GATED.wait_for_pods_ready is not None
    waiting = msgspec.structs.replace(GATED.wait_for_pods_ready, timeout=timedelta(seconds=5))
    config = msgspec.structs.replace(GATED, wait_for_pods_ready=waiting)
    async with family_cluster(make_queue(), config) as cluster:
        await submit(cluster, make_job("train"))
        await cluster.changes.until(runs_on(cluster, "reserved"), "the job runs")
        await cluster.changes.until(runs_on(cluster, "on-demand"), "the job runs elsewhere")
        late = variants(cluster)["reserved"]
        requeued = find(late.status, WorkloadCondition.REQUEUED)
        assert requeued is not None
        assert (requeued.status, requeued.reason) == ("False", Reason.PODS_READY_TIMEOUT)
        assert late.status.requeue_state is not None
