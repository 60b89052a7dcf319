"""What a running job says about its pods, and for whom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_readiness import sync_pods_ready
from multiqueue.api.workload_state import find
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import Wait
from tests.builders.workloads import T0, admitted, evicted, with_status
from tests.unit.jobs.job_views import (
    make_view,
    own_workload,
    started,
    status_after,
    stored_job,
)

NOT_WAITING = Configuration(wait_for_pods_ready=None)


def running(*, ready: int, **what: Any) -> tuple[dict[str, Any], Workload]:
    """A started job of two pods, so many of them ready, with its Workload."""
    job = stored_job(parallelism=2, completions=2, **what)
    return started(job, active=2, ready=ready), admitted(own_workload(job))


def said(workload: Workload, *, ready: bool) -> Workload:
    return with_status(workload, sync_pods_ready(workload.status, ready=ready, now=T0))


def test_ready_pods_are_told_once() -> None:
    job, workload = running(ready=2)
    told = status_after(decide(make_view(job, workload)))
    condition = find(told.status, WorkloadCondition.PODS_READY)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "Started")
    assert decide(make_view(job, told)) == Wait()


def test_a_lost_pod_is_told() -> None:
    """E-185."""
    job, workload = running(ready=1)
    told = status_after(decide(make_view(job, said(workload, ready=True))))
    condition = find(told.status, WorkloadCondition.PODS_READY)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "WaitForRecovery")


@pytest.mark.parametrize("known", [False, True], ids=["nothing written", "waiting"])
def test_pods_that_start_cost_no_write(known: bool) -> None:
    job, workload = running(ready=1)
    workload = said(workload, ready=False) if known else workload
    assert decide(make_view(job, workload)) == Wait()


def test_nothing_is_said_if_nobody_waits() -> None:
    assert decide(make_view(*running(ready=2), config=NOT_WAITING)) == Wait()


def test_nothing_is_said_of_a_job_on_another_cluster() -> None:
    job, workload = running(ready=2, managedBy=names.MULTIKUEUE_CONTROLLER)
    status = msgspec.structs.replace(workload.status, cluster_name="worker1")
    view = make_view(job, with_status(workload, status), dispatched=True)
    assert decide(view) == Wait()


def test_a_prebuilt_workload_waits_for_pods_once_its_job_is_there() -> None:
    """A Workload that was made for its job says so with its first reason for waiting."""
    what = {names.PREBUILT_WORKLOAD_NAME: "pre"}
    job, workload = stored_job(annotations=what), own_workload(stored_job())
    told = status_after(decide(make_view(job, prebuilt_name="pre", prebuilt=workload)))
    condition = find(told.status, WorkloadCondition.PODS_READY)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "WaitForStart")
    assert decide(make_view(stored_job(), workload)) == Wait()


def test_an_eviction_is_no_lost_pod() -> None:
    job, workload = running(ready=0)
    workload = evicted(said(workload, ready=True))
    stopped = {**job, "spec": {**job["spec"], "suspend": True}}
    assert decide(make_view(stopped, workload)) == Wait()
