"""What a Workload costs the API server: status writes and Events of the manager, per Workload.

The budget of an admission is that of upstream's scheduler benchmark, where somebody else makes
Workloads and ends them: 1.2 status writes and 1 Event (upstream, measured: 2.35 and 2.4). Jobs cost
more on both sides: their end is a write, and so are ready pods where somebody waits for them. On a
virtual clock, so figures do not depend on the machine.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import finish, is_admitted, is_finished
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from tests.audited_writes import AuditedWrites
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE, make_template
from tests.integration.queue_steps import create_queue
from tests.integration.waiting import simulation
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

COUNT = 200
SECONDS = 60.0
"""How long each of them runs."""
STATUS_WRITES = 1.2
EVENTS = 1.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Lines of log are not what is measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.reset_defaults()


@asynccontextmanager
async def managed(
    cpu: int, config: Configuration, audit: AuditedWrites
) -> AsyncIterator[QueueCluster]:
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(config, clock=clock, client_type=audit.make_client),
    ):
        await create_queue(cluster, cpu=str(cpu))
        yield cluster


async def count(cluster: QueueCluster, audit: AuditedWrites) -> tuple[float, Counter[str]]:
    """Return status writes per Workload, and Events per Workload by kind and reason."""
    events: Counter[str] = Counter()
    for event in (await cluster.client.list(resources.EVENTS)).items:
        events[f"{event['involvedObject']['kind']} {event['reason']}"] += event.get("count") or 1
    return audit.seen["workloads/status"] / COUNT, Counter(
        {name: value / COUNT for name, value in events.items()}
    )


def show(capsys: pytest.CaptureFixture[str], what: str, writes: float, events: Any) -> None:
    told = ", ".join(f"{name} {value:.2f}" for name, value in sorted(events.items()))
    with capsys.disabled():
        sys.stdout.write(
            f"\nwrites, {what}: {writes:.2f} status writes, {sum(events.values()):.2f} Events"
            f" per Workload ({told})\n"
        )


def make_body(number: int) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 1, "template": make_template()}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": f"wl-{number}", "namespace": NAMESPACE},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
    }


async def run_workloads(cluster: QueueCluster) -> None:
    """Make Workloads, end each some time after its admission, and wait for the last end."""
    writer = WorkloadWriter(cluster.client, cluster.informers.workloads)
    clock = LoopClock()
    begun: set[str] = set()
    store = cluster.informers.workloads.store

    async def end(key: str) -> None:
        await asyncio.sleep(SECONDS)
        await writer.update_status(
            key, lambda newest: finish(newest.status, "Succeeded", "done", now=clock.now())
        )

    async with asyncio.TaskGroup() as runs:

        def on_workload(_: Workload | None, new: Workload | None) -> None:
            if new is not None and is_admitted(new.status) and new.metadata.key not in begun:
                begun.add(new.metadata.key)
                runs.create_task(end(new.metadata.key))

        cluster.informers.workloads.add_handler(on_workload)
        for number in range(COUNT):
            await cluster.create(resources.WORKLOADS, make_body(number))
        await cluster.changes.until(
            lambda: sum(is_finished(w.status) for w in store.list()) == COUNT,
            "all ended",
            seconds=COUNT * SECONDS,
        )


@pytest.mark.parametrize("cpu", [COUNT, COUNT // 2], ids=["ample quota", "half of it"])
def test_an_admission_costs_one_write_and_one_event(
    cpu: int, capsys: pytest.CaptureFixture[str]
) -> None:
    @virtual_time
    async def measure() -> None:
        config, audit = (
            Configuration(namespace="kueue-system", wait_for_pods_ready=None),
            AuditedWrites(),
        )
        async with managed(cpu, config, audit) as cluster:
            await run_workloads(cluster)
            writes, events = await count(cluster, audit)
        show(capsys, f"Workloads, quota for {cpu} of {COUNT}", writes, events)
        # Who waits is told why, once: the cycles that look at it again cost nothing.
        waiting = (COUNT - cpu) / COUNT
        assert writes <= STATUS_WRITES + waiting
        assert sum(events.values()) <= EVENTS + waiting

    measure()


@pytest.mark.parametrize("waits", [False, True], ids=["nobody waits for pods", "by default"])
def test_a_job_costs_its_end_and_its_ready_pods_more(
    waits: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    @virtual_time
    async def measure() -> None:
        config, audit = Configuration(namespace="kueue-system"), AuditedWrites()
        if not waits:
            config = Configuration(namespace="kueue-system", wait_for_pods_ready=None)
        clock = LoopClock()
        async with (
            managed(COUNT, config, audit) as cluster,
            simulation(cluster.client, "4xcpu", clock=clock),
        ):
            for number in range(COUNT):
                job = make_job(f"job-{number}", cpu="10m")
                job["spec"]["template"]["metadata"] = {
                    "annotations": {RUN_SECONDS: str(int(SECONDS))}
                }
                await cluster.create(resources.JOBS, job)
            store = cluster.informers.workloads.store
            await cluster.changes.until(
                lambda: sum(is_finished(w.status) for w in store.list()) == COUNT,
                "all ended",
                seconds=COUNT * SECONDS,
            )
            writes, events = await count(cluster, audit)
        show(capsys, f"Jobs, ready pods awaited: {waits}", writes, events)
        assert writes <= STATUS_WRITES + 1 + waits
        on_workload = sum(n for name, n in events.items() if name.startswith("Workload "))
        assert on_workload <= EVENTS

    measure()
