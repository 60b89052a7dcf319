"""Every write on a worker may be repeated, and none hits what is not ours (I-3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find
from multiqueue.dispatch.execute.worker_writes import Busy, Foreign, RemoteWriter
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import JOBS, PODS, WORKLOADS
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.informers import build_worker_informers
from multiqueue.workers.connections.session import WorkerSession
from multiqueue.workers.owner import ManagerIdentity
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.least_privilege import REMOTE_TOKEN, kubeconfig_of
from tests.queue_manager import QueueCluster, queue_cluster
from tests.waiting import Changes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADAPTER = BatchJobAdapter()
ADAPTERS = {ADAPTER.gvk: ADAPTER}
KEY = f"{NAMESPACE}/w"
OURS = {names.MULTIKUEUE_ORIGIN: "here"}


class Worker:
    """A worker, and a writer to it."""

    def __init__(self, cluster: QueueCluster, session: WorkerSession) -> None:
        self.cluster = cluster
        self.session = session
        self.writer = RemoteWriter(session)
        self.changes = Changes(session.informers.workloads, session.informers.jobs[ADAPTER.gvk])

    async def until(self, condition: Any) -> None:
        await self.changes.until(condition)

    def copy(self) -> Workload | None:
        return self.session.informers.workloads.store.get(KEY)

    def jobs(self) -> list[dict[str, Any]]:
        return [job for _, job in self.session.find_jobs(KEY)]

    async def read(self, resource: Any, name: str) -> dict[str, Any] | None:
        try:
            return await self.cluster.client.get(resource, name, namespace=NAMESPACE)
        except NotFound:
            return None


@contextlib.asynccontextmanager
async def a_worker() -> AsyncIterator[Worker]:
    """Written to with the rights of a manager on a worker."""
    async with queue_cluster() as cluster, contextlib.AsyncExitStack() as stack:
        kubeconfig = kubeconfig_of(cluster.server.kubeconfig(), REMOTE_TOKEN)
        credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
        client = await stack.enter_async_context(KubeClient(credentials))
        informers = build_worker_informers(client, (ADAPTER,), "here", ManagerMetrics(), "worker")
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        started = [tasks.create_task(informer.run()) for informer in informers.all]
        stack.callback(lambda: [task.cancel() for task in started])
        await informers.workloads.synced.wait()
        await informers.jobs[ADAPTER.gvk].synced.wait()
        yield Worker(
            cluster,
            WorkerSession(client, informers, (ADAPTER,), tasks, ManagerIdentity(origin="here")),
        )


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    async with a_worker() as worker:
        yield worker


def make_copy_body(labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {
            "name": "w",
            "namespace": NAMESPACE,
            "labels": OURS if labels is None else labels,
            **metadata,
        },
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def make_remote_job(workload: str = "w", labels: dict[str, str] | None = None) -> dict[str, Any]:
    job = make_gpu_job(managed_by=None)
    job["metadata"]["labels"] |= OURS if labels is None else labels
    job["metadata"]["annotations"] = {names.PREBUILT_WORKLOAD_NAME: workload}
    return job


async def test_a_copy_is_made_once_however_often_it_is_asked_for(worker):
    first = await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    again = await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    assert first.metadata.uid == again.metadata.uid == worker.copy().metadata.uid


async def test_somebody_else_s_workload_of_that_name_is_not_taken_over(worker):
    await worker.cluster.create(WORKLOADS, make_copy_body(labels={}))
    got = await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    assert got == Foreign(f'has a Workload "{KEY}" that belongs to somebody else')
    assert await worker.writer.find_workload(KEY) is None
    theirs = decode(Workload, await worker.read(WORKLOADS, "w"))
    await worker.writer.deactivate(KEY, NOW)
    await worker.writer.delete_workload(theirs)
    left = decode(Workload, await worker.read(WORKLOADS, "w"))
    assert left.metadata.deletion_timestamp == ""
    assert find(left.status, WorkloadCondition.DEACTIVATION_TARGET) is None


async def test_a_copy_that_was_given_away_is_left_alone(worker):
    copy = await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    unlabelled = {"metadata": {"labels": {names.MULTIKUEUE_ORIGIN: None}}}
    await worker.cluster.patch(WORKLOADS, "w", unlabelled, namespace=NAMESPACE)
    await worker.writer.delete_workload(copy)
    assert await worker.read(WORKLOADS, "w") is not None


async def test_a_copy_that_changed_since_it_was_seen_goes_all_the_same(worker):
    copy = await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    changed = {"metadata": {"annotations": {"x": "y"}}}
    await worker.cluster.patch(WORKLOADS, "w", changed, namespace=NAMESPACE)
    await worker.writer.delete_workload(copy)
    assert await worker.read(WORKLOADS, "w") is None


async def test_a_namespace_that_is_not_there_speaks_against_the_cluster(worker):
    body = make_copy_body()
    body["metadata"]["namespace"] = "nowhere"
    got = await worker.writer.create_workload(body, ADAPTER, "train")
    assert isinstance(got, Foreign)
    assert "nowhere" in got.why
    job = make_remote_job()
    job["metadata"]["namespace"] = "nowhere"
    assert "nowhere" in (await worker.writer.create_job(ADAPTER, job, "w")).why


async def test_a_job_is_made_once_however_often_it_is_asked_for(worker):
    first = await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    again = await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    assert first["metadata"]["uid"] == again["metadata"]["uid"]
    assert await worker.writer.find_job(ADAPTER, NAMESPACE, "train") is not None
    assert await worker.writer.find_job(ADAPTER, NAMESPACE, "other") is None


async def test_a_job_that_the_worker_refuses_speaks_against_it(worker):
    job = make_remote_job()
    job["spec"]["parallelism"] = -1
    got = await worker.writer.create_job(ADAPTER, job, "w")
    assert isinstance(got, Foreign)
    assert "parallelism" in got.why


async def test_our_own_job_of_an_earlier_workload_is_waited_for(worker):
    await worker.cluster.create(JOBS, make_remote_job("earlier"))
    want = Busy(f'Job "{NAMESPACE}/train" of an earlier workload is being deleted')
    assert await worker.writer.create_workload(make_copy_body(), ADAPTER, "train") == want
    assert await worker.writer.create_job(ADAPTER, make_remote_job(), "w") == want


async def test_removal_takes_job_and_copy_and_the_finalizer(worker):
    """M-135."""
    await worker.writer.create_workload(
        make_copy_body(finalizers=[names.RESOURCE_IN_USE]), ADAPTER, "train"
    )
    await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    await worker.writer.remove(KEY, ADAPTERS)
    await worker.until(lambda: worker.copy() is None and not worker.jobs())
    await worker.writer.remove(KEY, ADAPTERS)
    assert (await worker.read(JOBS, "train"), await worker.read(WORKLOADS, "w")) == (None, None)


async def test_a_job_is_not_gone_before_its_pods_are(worker):
    """Else another cluster could start it while they stop (M-135)."""
    await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    job = await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": NAMESPACE,
            "finalizers": ["example.com/stopping"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await worker.cluster.create(PODS, pod)
    await worker.writer.remove(KEY, ADAPTERS)
    await worker.until(lambda: worker.copy() is None)
    assert (await worker.read(JOBS, "train"))["metadata"]["deletionTimestamp"]
    assert len(worker.jobs()) == 1
    await worker.cluster.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    await worker.until(lambda: not worker.jobs())


async def test_other_finalizers_are_left_to_their_owners(worker):
    body = make_copy_body(finalizers=["example.com/mine", names.RESOURCE_IN_USE])
    await worker.writer.create_workload(body, ADAPTER, "train")
    await worker.writer.remove(KEY, ADAPTERS)
    left = await worker.read(WORKLOADS, "w")
    assert left["metadata"]["finalizers"] == ["example.com/mine"]
    await worker.cluster.patch(
        WORKLOADS, "w", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
    )


async def test_a_job_whose_label_was_taken_off_is_not_ours_any_more(worker):
    """The informer may show the old state for a moment; the last look decides."""
    job = await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    await worker.cluster.patch(
        JOBS,
        "train",
        {"metadata": {"labels": {names.MULTIKUEUE_ORIGIN: None}}},
        namespace=NAMESPACE,
    )
    await worker.writer.delete_job(ADAPTER, job)
    assert await worker.read(JOBS, "train") is not None


async def test_a_newer_job_of_the_same_name_is_not_hit(worker):
    job = await worker.writer.create_job(ADAPTER, make_remote_job(), "w")
    old = {**job, "metadata": {**job["metadata"], "uid": "another"}}
    await worker.writer.delete_job(ADAPTER, old)
    assert await worker.read(JOBS, "train") is not None


async def test_a_newer_copy_of_the_same_name_is_not_hit(worker):
    copy = await worker.writer.create_workload(
        make_copy_body(finalizers=[names.RESOURCE_IN_USE]), ADAPTER, "train"
    )
    metadata = msgspec.structs.replace(copy.metadata, uid="another")
    await worker.writer.delete_workload(msgspec.structs.replace(copy, metadata=metadata))
    left = await worker.read(WORKLOADS, "w")
    assert "deletionTimestamp" not in left["metadata"]


async def test_a_copy_is_deactivated_on_its_newest_state(worker):
    await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    await worker.cluster.patch(
        WORKLOADS, "w", {"metadata": {"annotations": {"x": "y"}}}, namespace=NAMESPACE
    )
    await worker.writer.deactivate(KEY, NOW)
    await worker.writer.deactivate(KEY, NOW)
    target = find(worker.copy().status, WorkloadCondition.DEACTIVATION_TARGET)
    assert target.reason == "EvictedOnManagerCluster"


async def test_a_priority_is_changed_on_what_was_seen(worker):
    await worker.writer.create_workload(make_copy_body(), ADAPTER, "train")
    changed = decode(
        Workload,
        {
            "spec": {
                "priority": 7,
                "priorityClassRef": {
                    "group": names.GROUP,
                    "kind": "WorkloadPriorityClass",
                    "name": "high",
                },
            }
        },
    )
    await worker.writer.update_priority(KEY, changed)
    assert worker.copy().spec.priority == 7
    await worker.writer.update_priority(f"{NAMESPACE}/gone", changed)


async def test_the_same_work_is_done_once_at_a_time_and_ends_with_its_error(worker):
    entered, release = asyncio.Event(), asyncio.Event()
    calls = 0

    async def work() -> int:
        nonlocal calls
        calls += 1
        entered.set()
        await release.wait()
        return calls

    first = worker.session.submit("x", KEY, work)
    await entered.wait()
    assert worker.session.submit("x", KEY, work) is first
    release.set()
    assert await first == 1

    async def fail() -> None:
        raise NotFound(404, message="gone")

    assert isinstance(await worker.session.submit("x", KEY, fail), NotFound)

    async def break_down() -> None:
        raise RuntimeError("a bug")

    future = worker.session.submit("x", KEY, break_down)
    await asyncio.wait({future})
    assert future.cancelled()
