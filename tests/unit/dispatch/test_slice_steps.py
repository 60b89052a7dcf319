"""What is told of the steps of elastic jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from multiqueue.dispatch.decide.view import GroupView
from multiqueue.dispatch.execute.remote_steps import LATE, RemoteSteps
from multiqueue.dispatch.execute.slice_steps import SliceSteps
from multiqueue.dispatch.execute.worker_writes import Busy
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.kube.errors import TransportError
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import make_workload


class Answered(RemoteSteps):
    """Every request has the same answer."""

    def __init__(self, *args: Any, got: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.got = got

    async def call(self, *_: Any) -> Any:
        return self.got


@pytest.mark.parametrize(
    ("got", "told"), [(None, 1), (LATE, 0), (Busy("is about to go"), 0), (TransportError("no"), 0)]
)
async def test_a_resize_is_told_when_it_is_done(got: object, told: int) -> None:
    adapter: Any = SimpleNamespace(resize_patch=lambda *_, **__: {"spec": {"parallelism": 2}})
    session = SimpleNamespace(find_jobs=lambda _: [("Job", {"metadata": {}})])
    fleet: Any = SimpleNamespace(
        adapters=(), find_session=lambda _: session, find_health=lambda _: None
    )
    workload = make_workload("a")
    view = GroupView(key=workload.metadata.key)
    seen = Observation(view=view, workload=workload, adapter=adapter, job={})

    context: Any = SimpleNamespace(
        metrics=ManagerMetrics(),
        informers=SimpleNamespace(workloads=SimpleNamespace(add_handler=lambda _: None)),
    )
    fitting: Any = None  # nothing is sent
    steps = SliceSteps(fleet, Answered(context, fleet, fitting, wake=lambda _: None, got=got))
    with capture_logs() as logs:
        await steps.resize_job("w", seen, GroupMemory())
    assert [entry["event"] for entry in logs].count("remote job resized") == told
