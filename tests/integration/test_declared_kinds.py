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
from multiqueue.kube.resources import CRDS, JOB_KINDS, Resource, resource_of
from multiqueue.runtime.manifests import create_missing
from tests.builders.job_kinds import GADGET, make_gadget, make_job_kind
from tests.builders.queues import make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import make_config, multikueue_world
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time
from tests.waiting import Changes

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


@virtual_time
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


async def test_a_job_runs_on_a_worker_and_its_status_comes_back() -> None:
    async with (
        multikueue_world("w1", real_workers=True, crds=[CRD], gpus=4) as world,
        world.manager(make_config()),
    ):
        worker = world.workers["w1"]
        await world.until_connected()  # the kind comes to a session that is connected already
        for cluster in (world.hub, worker):
            await create_missing(cluster.client, build_declared_roles(GADGET))
            await cluster.create(JOB_KINDS, make_job_kind())
        await until_condition(world.hub, "Active", "Queued")
        await world.hub.create(GADGETS, make_gadget(size=2, controller=MULTIKUEUE))
        assert await world.until_ready() == "w1"
        remote = await worker.client.get(GADGETS, "train", namespace=NAMESPACE)
        assert "controller" not in remote["spec"]
        await worker.changes.until(is_admitted(worker), "started there")
        await worker.patch(
            GADGETS,
            "train",
            {"status": {"phase": "Done", "reason": "trained"}},
            namespace=NAMESPACE,
            subresource="status",
        )

        def is_over() -> bool:
            found = world.workload()
            return found is not None and workload_state.is_finished(found.status)

        await world.until(is_over, "the end came back")
        assert (await gadget(world.hub))["status"] == {"phase": "Done", "reason": "trained"}


async def test_a_new_manager_goes_on_with_the_jobs_of_declared_kinds() -> None:
    async with multikueue_world("w1", real_workers=True, crds=[CRD], gpus=4) as world:
        worker = world.workers["w1"]
        for cluster in (world.hub, worker):
            await create_missing(cluster.client, build_declared_roles(GADGET))
            await cluster.create(JOB_KINDS, make_job_kind())
        async with world.manager(make_config()):
            await world.until_connected()
            await world.hub.create(GADGETS, make_gadget(controller=MULTIKUEUE))
            await world.until_ready()
        remote = await worker.client.get(GADGETS, "train", namespace=NAMESPACE)
        async with world.manager(make_config()) as context:
            await world.until_connected()
            running = {"status": {"phase": "Running"}}
            await worker.patch(GADGETS, "train", running, namespace=NAMESPACE, subresource="status")
            jobs = context.informers.jobs[GADGET.framework]
            await Changes(jobs).until(
                lambda: [job.get("status") for job in jobs.store.list()] == [running["status"]],
                "its status came back",
            )
            assert world.check()[0] == "Ready"
        there = await worker.client.get(GADGETS, "train", namespace=NAMESPACE)
        assert there["metadata"]["uid"] == remote["metadata"]["uid"]


@virtual_time
async def test_another_expression_is_used_for_the_jobs_that_there_are() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager():
        await create_missing(cluster.client, [make_gpu_flavor("gpu"), make_local_queue()])
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(JOB_KINDS, make_job_kind())
        await cluster.create(GADGETS, make_gadget(size=2))

        def count() -> int:
            found = cluster.workload_of("train")
            return found.spec.pod_sets[0].count if found is not None else 0

        await cluster.changes.until(lambda: count() == 2, "two pods")
        pod_sets = [{"template": "spec.template", "count": "self.spec.size + 1"}]
        await cluster.patch(JOB_KINDS, "gadgets", {"spec": {"podSets": pod_sets}})
        await cluster.changes.until(lambda: count() == 3, "one more pod")
        wrong = [{"template": "spec.template", "count": "self.spec.size +"}]
        await cluster.patch(JOB_KINDS, "gadgets", {"spec": {"podSets": wrong}})
        message = await until_condition(cluster, "Accepted", "BadExpression")
        assert message.startswith("spec.podSets[0].count: does not compile: ")
        assert message.endswith("; an earlier version of it stays in use")
        assert conditions(cluster)["Active"][0] == "Queued"


@virtual_time
async def test_a_deleted_kind_goes_when_its_jobs_have_ended() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager() as context:
        await make_queues(cluster)
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(JOB_KINDS, make_job_kind())
        await cluster.create(GADGETS, make_gadget())
        await cluster.changes.until(is_admitted(cluster), "admitted")
        await until_condition(cluster, "Active", "Queued")
        await cluster.client.delete(JOB_KINDS, "gadgets")
        assert context.integrations.find("gadgets.example.com/gadget") is not None
        await cluster.patch(
            GADGETS,
            "train",
            {"status": {"phase": "Done"}},
            namespace=NAMESPACE,
            subresource="status",
        )
        await cluster.changes.until(
            lambda: cluster.informers.job_kinds.store.get("gadgets") is None, "the JobKind is gone"
        )
        await cluster.create(JOB_KINDS, make_job_kind("again"))
        await until_condition(cluster, "Active", "Queued", name="again")
        await cluster.create(GADGETS, make_gadget("second"))
        await cluster.changes.until(is_admitted(cluster, "second"), "queued again")


@virtual_time
async def test_the_status_says_what_a_kind_lacks() -> None:
    async with queue_cluster() as cluster, cluster.manager():
        await cluster.create(JOB_KINDS, make_job_kind())
        message = await until_condition(cluster, "Active", "RightMissing")
        assert "list gadgets.gadgets.example.com" in message
        assert 'apply the roles that "multiqueue jobkind role FILE" prints' in message
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await until_condition(cluster, "Active", "NotServed")
        await cluster.create(CRDS, CRD)
        await until_condition(cluster, "Active", "Queued")


async def test_the_older_of_two_kinds_wins_and_a_built_in_kind_is_refused() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager():
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(JOB_KINDS, make_job_kind())
        await until_condition(cluster, "Active", "Queued")
        await cluster.create(JOB_KINDS, make_job_kind("others"))
        message = await until_condition(cluster, "Accepted", "Duplicate", name="others")
        assert message.startswith('JobKind "gadgets" declares gadgets.example.com/Gadget already')
        await cluster.create(
            JOB_KINDS, make_job_kind("jobs", group="batch", kind="Job", plural="jobs")
        )
        message = await until_condition(cluster, "Accepted", "BuiltIn", name="jobs")
        assert 'integrations.frameworks: ["batch/job"]' in message
        await cluster.client.delete(JOB_KINDS, "gadgets")
        await until_condition(cluster, "Active", "Queued", name="others")


@virtual_time
async def test_an_expression_without_a_value_is_told_on_the_job_and_on_the_kind() -> None:
    async with queue_cluster(crds=[CRD]) as cluster, cluster.manager():
        await make_queues(cluster)
        await create_missing(cluster.client, build_declared_roles(GADGET))
        await cluster.create(
            JOB_KINDS,
            make_job_kind(podSets=[{"template": "spec.template", "count": "self.spec.shards"}]),
        )
        await cluster.create(GADGETS, make_gadget("bad"))
        await cluster.create(GADGETS, make_gadget("good", shards=1))
        await cluster.changes.until(is_admitted(cluster, "good"), "the other job runs")
        message = await until_condition(cluster, "Healthy", "ExpressionFailing")
        assert message.startswith('Gadget "team-a/bad": spec.podSets[0].count: no such key: shards')
        events = await cluster.events()
        assert ("Gadget", "bad", "JobKindExpressionFailed") in events
        assert cluster.workload_of("bad") is None
