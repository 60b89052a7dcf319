"""A job that ran on a worker is deleted here once its time to live is over (J-148)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import finish
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import DeleteJob, JobPlan, Wait
from multiqueue.jobs.setup import load_kind
from tests.builders.workloads import T0, make_workload, with_status
from tests.job_kinds import EXAMPLES
from tests.unit.jobs.job_views import UID, make_view

(EXAMPLE,) = (each for each in EXAMPLES if each.row.kind == "JobSet")
ENDED = {"conditions": [{"type": "Completed", "status": "True"}]}


def ended_job(**spec: Any) -> dict[str, Any]:
    job = EXAMPLE.make("j", queue="lq", suspend=False, **spec)
    job["metadata"].update(uid=UID, resourceVersion="7")
    return {**job, "status": ENDED}


def finished_workload() -> Workload:
    workload = make_workload(owner_uid=UID)
    released = msgspec.structs.replace(workload.metadata, finalizers=())
    workload = msgspec.structs.replace(workload, metadata=released)
    return with_status(workload, finish(workload.status, "Succeeded", "", now=T0))


def plan(seconds: int, **spec: Any) -> JobPlan:
    """What is done that many seconds after the end."""
    return decide(
        make_view(
            ended_job(**spec),
            finished_workload(),
            integration=load_kind(EXAMPLE.row).integration,
            now=T0 + timedelta(seconds=seconds),
        )
    )


def test_it_is_deleted_when_the_time_is_over() -> None:
    delegated = {"managedBy": MULTIKUEUE_CONTROLLER, "ttlSecondsAfterFinished": 30}
    assert plan(10, **delegated) == Wait(requeue_after=20)
    done = plan(30, **delegated)
    assert isinstance(done, DeleteJob)
    assert done.note is not None
    assert done.note.reason == "Deleted"


@pytest.mark.parametrize(
    "spec", [{"managedBy": MULTIKUEUE_CONTROLLER}, {"ttlSecondsAfterFinished": 0}]
)
def test_nothing_else_is_deleted(spec: dict[str, Any]) -> None:
    """Without a time to live, or where the kind's own controller runs the job."""
    assert plan(1000, **spec) == Wait()
