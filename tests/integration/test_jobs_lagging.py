"""A manager whose news of Jobs is older than its news of Workloads."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import JobReconciler
from multiqueue.jobs.informers import build_informers
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue, running, submit
from tests.queue_manager import queue_cluster


async def stop_the_watch_of_jobs(context: ManagerContext) -> ManagerContext:
    """The same manager, with an informer of Jobs that stands still at what there is now."""
    informer = build_informers(context.client, context.config, context.integrations).jobs[
        "batch/job"
    ]
    run = asyncio.create_task(informer.run())
    await informer.settled.wait()
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    return replace(context, informers=replace(context.informers, jobs={"batch/job": informer}))


async def test_the_workload_of_a_job_that_was_not_heard_of_yet_is_spared() -> None:
    async with queue_cluster() as cluster, cluster.manager() as context:
        late = await stop_the_watch_of_jobs(context)
        await create_queue(cluster)
        await submit(cluster, make_job("train"))
        await cluster.changes.until(lambda: running(cluster, "train"), "a running job")
        workload = cluster.workload_of("train")
        assert workload is not None
        integration = late.integrations.find("batch/job")
        assert integration is not None
        await JobReconciler(late, integration, dispatches=False).reconcile(f"{NAMESPACE}/train")
        found = await cluster.client.get(
            resources.WORKLOADS, workload.metadata.name, namespace=NAMESPACE
        )
        assert found["metadata"]["uid"] == workload.metadata.uid
        assert "deletionTimestamp" not in found["metadata"]
