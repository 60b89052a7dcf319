"""The simulated controllers of all kinds beside Job: suspended, running, stopped, ended."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.embedded.server.server import ServerOptions
from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import PODS
from tests.integration.waiting import api_client, simulation, until, until_one
from tests.job_kinds import EXAMPLES, KindExample
from tests.virtual_time import LoopClock, virtual_time

FIELDS = [each for each in EXAMPLES if isinstance(each.kind.integration, TemplateKind)]
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
