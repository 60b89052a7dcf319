"""Where a Workload stands."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.model.resources import is_accelerator
from multiqueue.views.phase import PhaseState
from multiqueue.views.workloads import view_workload
from tests.unit.cli.builders import condition, make_workload

QUOTA = condition("QuotaReserved")
NO_QUOTA = condition("QuotaReserved", "False", "WaitingForQuota", "2 more needed")
ADMITTED = condition("Admitted")
HOLDS = {"queue": "cq", "flavor": "a100"}
PENDING_CHECK = {
    "name": "mk",
    "state": "Pending",
    "message": "looking for a worker",
    "lastTransitionTime": "2026-01-01T11:59:00Z",
}


@pytest.mark.parametrize(
    ("workload", "state", "why"),
    [
        pytest.param(make_workload(), PhaseState.QUEUED, "not looked at yet", id="new"),
        pytest.param(
            make_workload("w", NO_QUOTA),
            PhaseState.QUEUED,
            "WaitingForQuota: 2 more needed",
            id="waits for quota",
        ),
        pytest.param(
            make_workload("w", QUOTA, admission=HOLDS, admissionChecks=[PENDING_CHECK]),
            PhaseState.CHECKING,
            "mk: looking for a worker",
            id="waits for a check",
        ),
        pytest.param(
            make_workload(
                "w",
                QUOTA,
                admission=HOLDS,
                admissionChecks=[PENDING_CHECK],
                nominatedClusterNames=["w1"],
            ),
            PhaseState.DISPATCHED,
            "mk: looking for a worker",
            id="offered to a worker",
        ),
        pytest.param(
            make_workload("w", QUOTA, ADMITTED, admission=HOLDS),
            PhaseState.ADMITTED,
            "",
            id="admitted",
        ),
        pytest.param(
            make_workload(
                "w",
                QUOTA,
                ADMITTED,
                condition("PodsReady", "False", "WaitForStart", "pods start"),
                admission=HOLDS,
            ),
            PhaseState.STARTING,
            "pods start",
            id="pods are not ready yet",
        ),
        pytest.param(
            make_workload("w", QUOTA, ADMITTED, condition("PodsReady"), admission=HOLDS),
            PhaseState.RUNNING,
            "",
            id="pods are ready",
        ),
        pytest.param(
            make_workload(
                "w", QUOTA, condition("Evicted", "True", "Preempted", "by b"), admission=HOLDS
            ),
            PhaseState.EVICTED,
            "by b",
            id="gives its quota back",
        ),
        pytest.param(
            make_workload("w", condition("Finished", "True", "Succeeded", "done")),
            PhaseState.SUCCEEDED,
            "done",
            id="succeeded",
        ),
        pytest.param(
            make_workload("w", condition("Finished", "True", "Failed", "boom")),
            PhaseState.FAILED,
            "boom",
            id="failed",
        ),
        pytest.param(
            make_workload("w", active=False),
            PhaseState.DEACTIVATED,
            "spec.active is false",
            id="switched off",
        ),
    ],
)
def test_states(workload: Any, state: PhaseState, why: str) -> None:
    view = view_workload(workload)
    assert (view.state, view.why) == (state, why)


def test_jobs_and_gpus_are_named() -> None:
    view = view_workload(make_workload(gpus=3, job="sweep"))
    assert (view.job, view.gpus, view.requests["cpu"]) == ("Job/sweep", 3, 3000)


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("google.com/tpu", True),
        ("cpu", False),
        ("example.com/nic", False),
    ],
)
def test_accelerators(resource: str, *, is_one: bool) -> None:
    assert is_accelerator(resource) is is_one
