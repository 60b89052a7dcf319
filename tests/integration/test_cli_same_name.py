"""A job that was deleted and created again: commands speak of the new one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from multiqueue.cli.errors import CliError
from multiqueue.cli.find import find_workload
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import JOBS, WORKLOADS, Resource
from multiqueue.kube.wire import WatchEvent
from tests.integration.test_runtime_manager import credentials, embedded

Object = dict[str, Any]
NAMESPACE = "default"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
POD_SETS = [{"name": "main", "count": 1, "template": TEMPLATE}]


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with embedded() as (_, client):
        yield client


async def create_job(client: KubeClient) -> Object:
    """Create the job "train" in a queue."""
    metadata = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "jobs"}}
    spec = {"suspend": True, "template": TEMPLATE}
    job: Object = await client.create(
        JOBS,
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec},
        namespace=NAMESPACE,
    )
    return job


async def create_workload(client: KubeClient, name: str, job: Object) -> None:
    """Create the Workload of a job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
    owner["uid"] = job["metadata"]["uid"]
    # The finalizer keeps it after its job, as a manager's does until the worker's copy is gone.
    metadata = {"name": name, "ownerReferences": [owner], "finalizers": ["example.com/keep"]}
    workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata}
    spec = {"queueName": "jobs", "podSets": POD_SETS}
    await client.create(WORKLOADS, {**workload, "spec": spec}, namespace=NAMESPACE)


async def create_again(client: KubeClient) -> Object:
    """Create a job with a Workload, delete the job and create another one with its name."""
    await create_workload(client, "former", await create_job(client))
    await client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
    return await create_job(client)


@pytest.mark.parametrize("name", ["train", "job/train", "default/train"])
async def test_the_workload_of_the_living_job_is_meant(client: KubeClient, name: str) -> None:
    job = await create_again(client)
    await create_workload(client, "new", job)
    namespace = "elsewhere" if name.startswith("default/") else NAMESPACE
    assert (await find_workload(client, namespace, name)).metadata.name == "new"
    assert (await find_workload(client, NAMESPACE, "former")).metadata.name == "former"


class SlowManagerClient(KubeClient):
    """The client of a cluster whose manager makes a Workload only when somebody waits for it."""

    job: Object

    def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        return self._watch_late(super().watch(resource, **options))

    async def _watch_late(
        self, events: AsyncGenerator[WatchEvent, None]
    ) -> AsyncGenerator[WatchEvent, None]:
        await create_workload(self, "new", self.job)
        async with aclosing(events):
            async for event in events:
                yield event


async def test_the_new_workload_is_waited_for() -> None:
    async with (
        embedded() as (cluster, client),
        SlowManagerClient(await credentials(cluster)) as slow,
    ):
        slow.job = await create_again(client)
        assert (await find_workload(slow, NAMESPACE, "train")).metadata.name == "new"


async def test_a_new_job_without_a_workload_is_not_taken_for_the_old_one(
    client: KubeClient,
) -> None:
    await create_again(client)
    with pytest.raises(CliError, match=r"Job \"default/train\" has no Workload"):
        await find_workload(client, NAMESPACE, "train", wait_seconds=0.05)


async def test_the_workload_of_a_deleted_job_is_found(client: KubeClient) -> None:
    await create_workload(client, "former", await create_job(client))
    await client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
    assert (await find_workload(client, NAMESPACE, "train")).metadata.name == "former"
