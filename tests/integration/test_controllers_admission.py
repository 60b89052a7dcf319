"""A single-cluster queue on a real API: jobs wait, are admitted, run and finish."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.config.types import Integrations
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import admitted, complete, create_queue, running, submit
from tests.queue_manager import queue_cluster
from tests.virtual_time import virtual_time


@virtual_time
async def test_a_job_is_admitted_with_its_flavor_and_started() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, gpu="a100")
        await submit(cluster, make_job("train"))
        job = await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        workload = admitted(cluster, "train")
        assert workload is not None
        template = job["spec"]["template"]
        assert template["spec"]["nodeSelector"] == {"gpu": "a100"}
        assert template["metadata"]["labels"][names.PODSET] == "main"
        assert template["metadata"]["labels"][names.CLUSTER_QUEUE_NAME] == "cq"
        admission = workload.status.admission
        assert admission is not None
        assert admission.pod_set_assignments[0].flavors == {"cpu": "default"}
        assert workload.metadata.finalizers == (names.RESOURCE_IN_USE,)
        assert workload.metadata.labels[names.JOB_UID] == job["metadata"]["uid"]


@virtual_time
async def test_a_life_costs_three_writes_of_the_workload() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        await complete(cluster, "train")
        await cluster.changes.until(
            lambda: (w := cluster.workload_of("train")) and is_finished(w.status),
            "a finished workload",
        )
        got = [w.method for w in cluster.writes if w.resource == "workloads"]
        assert got == ["POST", "PATCH", "PATCH"]


@virtual_time
async def test_who_pays_is_on_the_workload_and_its_pods() -> None:
    """The label of the LocalQueue counts; a stop takes it off the template again."""
    config = Configuration(integrations=Integrations(chargeback_label_keys=("payer", "team")))
    async with queue_cluster() as cluster, cluster.manager(config):
        await create_queue(cluster)
        queue = make_local_queue("paid")
        queue["metadata"]["labels"] = {"payer": "owner"}
        await cluster.create(resources.LOCAL_QUEUES, queue)
        job = make_job("train", queue="paid", labels={"payer": "me", "team": "ml"})
        await submit(cluster, job)
        started = await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        workload = cluster.workload_of("train")
        assert workload is not None
        pods = started["spec"]["template"]["metadata"]["labels"]
        for labels in (workload.metadata.labels, pods):
            assert (labels["payer"], labels["team"]) == ("owner", "ml")
        hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", hold)

        def restored() -> bool:
            job = cluster.job("train")
            assert job is not None
            labels = job["spec"]["template"]["metadata"].get("labels") or {}
            return bool(job["spec"]["suspend"]) and "payer" not in labels

        await cluster.changes.until(restored, "a template without the labels")


@virtual_time
async def test_what_does_not_fit_waits_with_a_reason_and_follows_a_finished_job() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="1")
        await submit(cluster, make_job("first"))
        await cluster.changes.until(lambda: running(cluster, "first"), "the first running")
        await submit(cluster, make_job("second"))

        def explained() -> str | None:
            workload = cluster.workload_of("second")
            condition = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            return condition.message if condition else None

        message = await cluster.changes.until(explained, "an explanation")
        assert message == (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in "
            "flavor default, 1 more needed"
        )
        stored = await cluster.client.list(resources.WORKLOADS, namespace=NAMESPACE)
        assert [w["status"].get("resourceRequests") for w in stored.items] == [
            None,
            [{"name": "main", "resources": {"cpu": "1"}}],
        ]
        await complete(cluster, "first")
        await cluster.changes.until(lambda: running(cluster, "second"), "the second running")


@virtual_time
async def test_a_job_that_arrives_running_is_suspended_until_it_is_admitted() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue(stopPolicy="Hold"))
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        await submit(cluster, make_job("train", suspend=False))
        await cluster.changes.until(
            lambda: (j := cluster.job("train")) and j["spec"]["suspend"], "a suspended job"
        )
        await cluster.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_a_job_for_an_unknown_queue_is_told_so_and_runs_once_the_queue_exists() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await submit(cluster, make_job("train"))

        def reason() -> tuple[str, str] | None:
            workload = cluster.workload_of("train")
            condition = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            return (condition.reason, condition.message) if condition else None

        got = await cluster.changes.until(reason, "a reason")
        assert got == (Reason.MISCONFIGURED, "LocalQueue lq doesn't exist")
        await create_queue(cluster)
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")


@virtual_time
async def test_a_deleted_job_takes_its_workload_along_and_frees_the_quota() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="1")
        await submit(cluster, make_job("first"))
        await cluster.changes.until(lambda: running(cluster, "first"), "the first running")
        await submit(cluster, make_job("second"))
        await cluster.client.delete(
            resources.JOBS, "first", namespace=NAMESPACE, propagation="Background"
        )
        await cluster.changes.until(lambda: running(cluster, "second"), "the second running")
        await cluster.changes.until(
            lambda: cluster.workload_of("first") is None, "no workload of the first"
        )


@virtual_time
async def test_queue_statuses_show_usage() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster)
        await submit(cluster, make_job("train", cpu="1500m"))

        def usage() -> tuple[object, ...] | None:
            queue = cluster.informers.cluster_queues.store.get("cq")
            if queue is None or queue.status.admitted_workloads != 1:
                return None
            used = queue.status.flavors_usage[0].resources[0]
            active = queue.status.conditions[0]
            return (used.name, used.total, used.borrowed, active.type, active.status)

        got = await cluster.changes.until(usage, "usage")
        assert got == ("cpu", "1500m", "0", "Active", "True")


@virtual_time
async def test_the_quota_of_a_workload_is_never_given_twice() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await create_queue(cluster, cpu="3")
        for number in range(8):
            await submit(cluster, make_job(f"job-{number}"))
        await cluster.changes.until(
            lambda: sum(1 for n in range(8) if running(cluster, f"job-{n}")) == 3, "three running"
        )
        holding = [w for w in cluster.informers.workloads.store.list() if has_quota(w.status)]
        assert len(holding) == 3
