"""The example of docs/quotas.md with weights; its other examples are commands that are run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from multiqueue.api import names
from multiqueue.api.config import Configuration, FairSharing
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.integration.queue_steps import running, submit
from tests.queue_manager import CONFIG, queue_cluster
from tests.virtual_time import virtual_time

PAGE = Path(__file__).parents[2] / "docs" / "quotas.md"
ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| .* = (\d+) \|$", re.MULTILINE)


def read_rows() -> dict[str, tuple[str, int, int]]:
    """Return weight, running jobs and share of each queue, as the page says."""
    rows = ROW.findall(PAGE.read_text())
    return {name: (weight, int(jobs), int(share)) for name, weight, jobs, share in rows}


@virtual_time
async def test_weights_divide_what_nobody_owns_as_the_page_says() -> None:
    rows = read_rows()
    assert list(rows) == ["red", "blue"]
    total = sum(jobs for _, jobs, _ in rows.values())
    sharing = FairSharing(
        preemption_strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    )
    configuration = Configuration(namespace=CONFIG.namespace, fair_sharing=sharing)
    async with queue_cluster() as cluster, cluster.manager(configuration):
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        group = make_cluster_queue(cpu=str(total))["spec"]["resourceGroups"]
        await cluster.create(
            resources.COHORTS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "Cohort",
                "metadata": {"name": "lab"},
                "spec": {"resourceGroups": group},
            },
        )
        for name, (weight, _, _) in rows.items():
            queue = make_cluster_queue(
                name,
                cpu="0",
                cohortName="lab",
                fairSharing={"weight": weight},
                preemption={"reclaimWithinCohort": "Any"},
            )
            await cluster.create(resources.CLUSTER_QUEUES, queue)
            await cluster.create(resources.LOCAL_QUEUES, make_local_queue(name, cluster_queue=name))
        for number in range(total):
            for name in rows:
                await submit(cluster, make_job(f"{name}-{number}", queue=name, cpu="1"))
        await asyncio.sleep(60)
        for name, (_, jobs, share) in rows.items():
            ran = [running(cluster, f"{name}-{number}") for number in range(total)]
            assert len(list(filter(None, ran))) == jobs
            queue_now = cluster.informers.cluster_queues.store.get(name)
            assert queue_now is not None
            assert queue_now.status.fair_sharing is not None
            assert queue_now.status.fair_sharing.weighted_share == share
