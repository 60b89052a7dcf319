"""What kubelets do next."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.embedded.cluster.lifecycle import (
    EXIT_CODE,
    RUN_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    PodAction,
    PodPace,
    PodRun,
    PodStep,
    crashed_status,
    decide_step,
    exit_code,
    finished_status,
    restart_delay,
    restarts_in_place,
    running_status,
)
from tests.unit.embedded.cluster.builders import T0, make_pod

PACE = PodPace(start_seconds=1, run_seconds=5, stop_seconds=2)


def wait(seconds: float) -> PodStep:
    return PodStep(wait_seconds=seconds)


def act(action: PodAction) -> PodStep:
    return PodStep(action=action)


BOUND = PodRun(bound_at=100)
STARTED = PodRun(bound_at=100, started_at=101)


@pytest.mark.parametrize(
    ("pod", "run", "now", "want"),
    [
        pytest.param(make_pod(), BOUND, 100.25, wait(0.75), id="waits for the start"),
        pytest.param(make_pod(), BOUND, 101, act(PodAction.START), id="starts when due"),
        pytest.param(
            make_pod(annotations={START_SECONDS: "3"}), BOUND, 101, wait(2), id="own start delay"
        ),
        pytest.param(make_pod(phase="Running"), STARTED, 104, wait(2), id="runs"),
        pytest.param(make_pod(phase="Running"), STARTED, 106, act(PodAction.FINISH), id="ends"),
        pytest.param(
            make_pod(phase="Running", annotations={RUN_SECONDS: "0.5"}),
            STARTED,
            101.5,
            act(PodAction.FINISH),
            id="own run time",
        ),
        pytest.param(
            make_pod(phase="Running", annotations={RUN_SECONDS: "forever"}),
            STARTED,
            10_000,
            PodStep(),
            id="forever never ends",
        ),
        pytest.param(
            make_pod(phase="Running", restartPolicy="Always"),
            STARTED,
            10_000,
            PodStep(),
            id="a service never ends by itself",
        ),
        pytest.param(make_pod(phase="Succeeded"), STARTED, 200, PodStep(), id="the end is the end"),
        pytest.param(
            make_pod(annotations={RUN_SECONDS: "soon"}),
            STARTED,
            102,
            wait(4),
            id="nonsense",
        ),
        pytest.param(
            make_pod(phase="Running", deleting=True),
            PodRun(bound_at=100, started_at=101, stopping_at=103),
            104,
            wait(1),
            id="stops for a while",
        ),
        pytest.param(
            make_pod(phase="Running", deleting=True, annotations={STOP_SECONDS: "100"}),
            PodRun(bound_at=100, started_at=101, stopping_at=103),
            133,
            act(PodAction.REMOVE),
            id="not longer than its grace",
        ),
        pytest.param(
            make_pod(deleting=True), BOUND, 100, act(PodAction.REMOVE), id="never ran: gone"
        ),
        pytest.param(
            make_pod(phase="Failed", deleting=True),
            STARTED,
            102,
            act(PodAction.REMOVE),
            id="ended",
        ),
    ],
)
def test_next_step(pod: dict[str, Any], run: PodRun, now: float, want: PodStep) -> None:
    assert decide_step(pod, run, pace=PACE, now=now) == want


@pytest.mark.parametrize(("text", "code"), [(None, 0), ("3", 3), ("boom", 1)])
def test_exit_codes(text: str | None, code: int) -> None:
    assert exit_code(make_pod(annotations={EXIT_CODE: text} if text else None)) == code


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy: str, code: int, *, again: bool) -> None:
    assert restarts_in_place(make_pod(restartPolicy=policy), code) is again


def test_restarts_wait_longer_and_longer() -> None:
    assert [restart_delay(n) for n in (0, 1, 2, 20)] == [10, 20, 40, 300]


def conditions_of(status: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in status["conditions"]}


def test_a_running_pod_is_ready_and_keeps_conditions_of_others() -> None:
    pod = make_pod(initContainers=[{"name": "init"}])
    pod["status"]["conditions"] = [{"type": "example.com/gate", "status": "True"}]
    status = running_status(pod, now=T0)
    assert status["phase"] == "Running"
    assert conditions_of(status) == {
        "example.com/gate": "True",
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (7, "Failed")])
def test_an_ended_pod_tells_its_exit_code(code: int, phase: str) -> None:
    status = finished_status(make_pod(phase="Running", ready=True), code, now=T0)
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert conditions_of(status)["Ready"] == "False"


def test_a_crashed_pod_stays_and_counts_its_restarts() -> None:
    status = crashed_status(make_pod(phase="Running"), 1, now=T0, restarts=2)
    assert "phase" not in status
    assert status["containerStatuses"][0]["restartCount"] == 2
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
