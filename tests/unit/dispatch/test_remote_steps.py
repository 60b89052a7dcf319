"""What follows from the answers of workers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from multiqueue.dispatch.decide.view import GroupView
from multiqueue.dispatch.execute.outcome import AGAIN, WAITING, Outcome, stuck
from multiqueue.dispatch.execute.remote_steps import BUSY_SECONDS, REFUSAL_FOR, RemoteSteps
from multiqueue.dispatch.execute.worker_writes import Foreign
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.errors import Conflict
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.owner import ManagerIdentity
from tests.builders.workloads import make_workload
from tests.unit.dispatch.builders import make_local

REFUSED = Foreign("does not take the job: too large")


def answering(answer: object) -> RemoteSteps:
    """A worker that answers so, whatever it is asked."""

    def submit(*_: object) -> asyncio.Future[object]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        return future

    session = SimpleNamespace(client=None, owner=None, submit=submit)
    fleet: Any = SimpleNamespace(
        adapters=(),
        owner=ManagerIdentity(origin="here"),
        find_session=lambda _: session,
        find_health=lambda _: None,
    )
    recorder = SimpleNamespace(event=lambda *_: None)
    informers = SimpleNamespace(workloads=SimpleNamespace(add_handler=lambda _: None))
    context: Any = SimpleNamespace(
        clock=SystemClock(), metrics=ManagerMetrics(), recorder=recorder, informers=informers
    )
    limits: Any = None  # nothing is resized
    fitting = Fitting(context, fleet, limits)
    return RemoteSteps(context, fleet, fitting, wake=lambda _: None)


@pytest.mark.parametrize(
    ("latch", "outcome"),
    [
        (None, AGAIN),
        ("b", AGAIN),
        ("a", Outcome(goes_on=False, after=REFUSAL_FOR.total_seconds())),
    ],
    ids=["it may go elsewhere", "another one runs it", "it runs there and can go nowhere else"],
)
async def test_a_refusal_is_thought_about_at_once_only_where_there_is_a_choice(
    latch: str | None, outcome: Outcome
) -> None:
    """A slice that grew goes where its job runs: asked again at once, it would be for ever."""
    workload = make_workload("train")
    view = GroupView(key=workload.metadata.key, local=make_local(cluster_name=latch))
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": workload.metadata.namespace},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    seen = Observation(view=view, workload=workload, job=job, adapter=BatchJobAdapter())
    memory, worker = GroupMemory(), answering(REFUSED)
    got = await worker.create_job("a", seen, memory)
    assert got == outcome
    assert memory.refusals["a"][0] == REFUSED.why
    assert await worker.create_workloads(["a"], seen, memory) is WAITING


async def test_a_copy_that_somebody_else_keeps_changing_is_no_failure_of_its_worker() -> None:
    """Whatever is to be stopped is tried again soon, and nobody is told."""
    workload = make_workload("train")
    view = GroupView(key=workload.metadata.key, local=make_local(cluster_name="a"))
    seen = Observation(view=view, workload=workload)
    worker = answering(Conflict(409, reason="Conflict", message="modified"))
    with capture_logs() as logs:
        assert await worker.deactivate("a", seen, GroupMemory()) == stuck(BUSY_SECONDS)
    assert {entry["log_level"] for entry in logs} <= {"debug"}
