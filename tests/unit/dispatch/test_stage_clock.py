"""The time from quota and checks to the first copy on a worker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.execute.stage_clock import StageClock, may_go
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import admitted, make_workload, reserved, with_checks
from tests.virtual_time import virtual_time


class Stages:
    """A clock that a test tells of Workloads."""

    def __init__(self) -> None:
        self.metrics = ManagerMetrics()
        workloads = SimpleNamespace(add_handler=self._take)
        informers = SimpleNamespace(workloads=workloads)
        context: Any = SimpleNamespace(metrics=self.metrics, informers=informers)
        self.clock = StageClock(context)

    def _take(self, handler: Any) -> None:
        self.tell = handler

    def measured(self) -> tuple[float | None, float | None]:
        labels = {"stage": "dispatch", "cluster": "", "replica_role": "standalone"}
        return tuple(  # type: ignore[return-value]
            self.metrics.registry.get_sample_value(f"multiqueue_stage_seconds_{part}", labels)
            for part in ("count", "sum")
        )


@virtual_time
async def test_only_the_first_copy_counts_since_quota_and_other_checks() -> None:
    stages, new = Stages(), make_workload()
    key = new.metadata.key
    first = with_checks(reserved(new), mk=CheckState.PENDING, other=CheckState.PENDING)
    ready = with_checks(reserved(new), mk=CheckState.PENDING, other=CheckState.READY)
    stages.tell(None, new)
    stages.tell(new, first)
    await asyncio.sleep(100)
    stages.tell(first, ready)
    await asyncio.sleep(3)
    stages.clock.note_copy(key)
    await asyncio.sleep(60)
    stages.clock.note_copy(key)
    assert stages.measured() == (1, 3)

    stages.tell(ready, new)  # it lost its quota: the next time counts again
    stages.tell(new, ready)
    await asyncio.sleep(1)
    stages.clock.note_copy(key)
    assert stages.measured() == (2, 4)


def test_what_has_no_quota_or_runs_here_does_not_go() -> None:
    new = make_workload()
    assert not may_go(new)
    assert not may_go(admitted(new))
    assert may_go(with_checks(reserved(new), mk=CheckState.PENDING))
