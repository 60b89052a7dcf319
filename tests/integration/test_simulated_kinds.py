"""The simulated controllers of all kinds beside Job: suspended, running, stopped, ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.embedded.cluster.simulated_kinds import pod_template
from multiqueue.embedded.server.server import ServerOptions
from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import JOBS, PODS, resource_of
from tests.integration.waiting import api_client, simulation, until, until_one
from tests.job_kinds import EXAMPLES, KindExample
from tests.virtual_time import LoopClock, virtual_time

FIELDS = [each for each in EXAMPLES if isinstance(each.kind.integration, TemplateKind)]
SETS = [each for each in EXAMPLES if each.simulated.children is not None]
every_kind = pytest.mark.parametrize("example", FIELDS, ids=lambda each: each.row.kind)


def make(example: KindExample, *, suspend: bool) -> dict[str, Any]:
    """An example in the default namespace whose pods run for ten seconds."""
    integration = example.kind.integration
    assert isinstance(integration, TemplateKind)
    job = example.make()
    for source in integration.sources(example.read(job)):
        if get_field(job, source.template) is None:
            continue  # its templates are in another object
        path = (*source.template, "metadata", "annotations", RUN_SECONDS)
        job = set_field(job, path, "10")
    job["metadata"]["namespace"] = "default"
    return integration.set_suspended(job, value=suspend)


async def until_pods(client: KubeClient, count: int) -> None:
    await until(client, PODS, lambda pods: len(pods) == count)


@every_kind
@virtual_time
async def test_a_job_runs_when_it_is_not_suspended(example: KindExample) -> None:
    clock, integration = LoopClock(), example.kind.integration
    options = ServerOptions(tls=False, clock=clock, crds=example.crds)
    async with api_client(options) as client, simulation(client, "4xcpu", clock=clock):
        await example.create_objects(client)
        job = make(example, suspend=True)
        pods = sum(pod_set.count for pod_set in integration.pod_sets(example.read(job)))
        await client.create(example.resource, job)
        running = make(example, suspend=False)["spec"]
        await client.patch(example.resource, "job", {"spec": running}, namespace="default")
        await until_pods(client, pods)
        await until_one(
            client, example.resource, "job", lambda job: integration.pods_ready(example.read(job))
        )
        assert integration.is_active(await client.get(example.resource, "job", namespace="default"))
        if example.simulated.ends:
            await until_one(
                client, example.resource, "job", lambda job: integration.finished(job) is not None
            )


@every_kind
@virtual_time
async def test_a_job_that_is_suspended_loses_its_pods(example: KindExample) -> None:
    clock, integration = LoopClock(), example.kind.integration
    options = ServerOptions(tls=False, clock=clock, crds=example.crds)
    async with api_client(options) as client, simulation(client, "4xcpu", clock=clock):
        await example.create_objects(client)
        await client.create(example.resource, make(example, suspend=False))
        await until_one(
            client, example.resource, "job", lambda job: integration.pods_ready(example.read(job))
        )
        stopped = make(example, suspend=True)["spec"]
        await client.patch(example.resource, "job", {"spec": stopped}, namespace="default")
        await until_pods(client, 0)
        await until_one(client, example.resource, "job", lambda job: not integration.is_active(job))


def is_ready(example: KindExample) -> Callable[[dict[str, Any]], bool]:
    wanted = example.simulated.spec()["replicas"]
    return lambda job: (job.get("status") or {}).get("readyReplicas") == wanted


@pytest.mark.parametrize("example", SETS, ids=lambda each: each.row.kind)
@virtual_time
async def test_a_set_has_the_pods_of_all_its_replicas(example: KindExample) -> None:
    clock = LoopClock()
    options = ServerOptions(tls=False, clock=clock, crds=example.crds)
    async with api_client(options) as client, simulation(client, "8xcpu", clock=clock):
        job = example.make()
        job["metadata"]["namespace"] = "default"
        assert example.simulated.children is not None
        wanted = {pod["metadata"]["name"] for pod in example.simulated.children(job)}
        await client.create(example.resource, job)
        await until(client, PODS, lambda pods: {pod["metadata"]["name"] for pod in pods} == wanted)
        await until_one(client, example.resource, "job", is_ready(example))
        await client.patch(example.resource, "job", {"spec": {"replicas": 0}}, namespace="default")
        await until_pods(client, 0)


@virtual_time
async def test_a_cron_job_makes_a_job() -> None:
    clock = LoopClock()
    template = pod_template()
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {
            "schedule": "0 1 * * *",
            "jobTemplate": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {"template": template},
            },
        },
    }
    options = ServerOptions(tls=False, clock=clock)
    async with api_client(options) as client, simulation(client, "8xcpu", clock=clock):
        await client.create(resource_of("batch/v1", "cronjobs", "CronJob"), cron_job)
        await until(client, JOBS, lambda jobs: len(jobs) == 1)
        job = await client.get(JOBS, "nightly-1", namespace="default")
    assert job["metadata"]["labels"]["team"] == "a"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
