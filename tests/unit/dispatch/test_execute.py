"""What is not carried out any more because something changed since the decision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api.v1beta2 import Workload
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.rules.follow import set_ready
from multiqueue.dispatch.decide.view import GroupView
from multiqueue.dispatch.execute.execute import Executor
from multiqueue.dispatch.execute.outcome import AGAIN
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.kube.clock import SystemClock
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import make_workload
from tests.unit.dispatch.builders import make_local


def executor_with(copy: Workload | None) -> tuple[Executor, list[str]]:
    """An executor that sees this copy on every worker, and the keys that it writes."""
    written: list[str] = []

    async def update_status(key: str, _: object) -> None:
        written.append(key)

    session = SimpleNamespace(find_copy=lambda _: copy)
    writer = SimpleNamespace(update_status=update_status, patch_spec=update_status)
    workloads = SimpleNamespace(add_handler=lambda _: None)
    context: Any = SimpleNamespace(
        clock=SystemClock(),
        writer=writer,
        metrics=ManagerMetrics(),
        informers=SimpleNamespace(workloads=workloads),
    )
    fleet: Any = SimpleNamespace(find_session=lambda _: session)
    unused: Any = None
    return Executor(context, fleet, unused, unused, wake=lambda _: None), written


@pytest.mark.parametrize("copy", [None, make_workload("train")], ids=["gone", "evicted"])
async def test_a_copy_that_lost_its_admission_does_not_become_ready(copy: Workload | None) -> None:
    """Without it, nothing tells how many pods run there: the job here would show another number.

    Found by the simulated fleet: the worker preempted the copy while the status of its job was
    brought back.
    """
    executor, written = executor_with(copy)
    workload = make_workload("train")
    view = GroupView(key=workload.metadata.key, local=make_local())
    seen = Observation(view=view, workload=workload)
    got = await executor.apply(GroupPlan(steps=(set_ready("a"),)), seen, GroupMemory())
    assert got is AGAIN
    assert written == []
