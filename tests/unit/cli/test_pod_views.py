"""Pods and events of a job as tables."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.cli.views.events import event_row, sort_events
from multiqueue.cli.views.pods import describe_pod, pod_row
from tests.unit.cli.builders import T0, WHEN


def make_pod(*states: dict[str, Any], phase: str = "Running", **fields: Any) -> dict[str, Any]:
    statuses = [
        {"name": f"c{i}", "ready": "running" in state, "restartCount": i, "state": state}
        for i, state in enumerate(states)
    ]
    metadata = {"name": "train-a", "creationTimestamp": WHEN, **fields.pop("metadata", {})}
    containers = [{"name": f"c{i}", "image": "i"} for i in range(max(1, len(states)))]
    spec = {"containers": containers, "nodeName": "n1", **fields.pop("spec", {})}
    status = {"phase": phase, "containerStatuses": statuses, **fields}
    return {"metadata": metadata, "spec": spec, "status": status}


RUNS: dict[str, Any] = {"running": {"startedAt": WHEN}}
INIT = {"spec": {"initContainers": [{"name": "a"}, {"name": "b"}]}}


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(make_pod(phase="Pending"), "Pending", id="nothing is known"),
        pytest.param(
            make_pod({"waiting": {"reason": "ImagePullBackOff"}}, phase="Pending"),
            "ImagePullBackOff",
            id="what it waits for",
        ),
        pytest.param(make_pod(RUNS), "Running", id="runs"),
        pytest.param(
            make_pod(RUNS, {"terminated": {"exitCode": 0, "reason": "Completed"}}),
            "Running",
            id="a helper has ended",
        ),
        pytest.param(
            make_pod(RUNS, {"waiting": {"reason": "CrashLoopBackOff"}}),
            "CrashLoopBackOff",
            id="one of two crashes",
        ),
        pytest.param(
            make_pod({"terminated": {"exitCode": 7}}, phase="Failed"), "ExitCode:7", id="no reason"
        ),
        pytest.param(make_pod(RUNS, reason="Evicted"), "Evicted", id="its own reason"),
        pytest.param(
            make_pod(RUNS, metadata={"deletionTimestamp": WHEN}), "Terminating", id="on its way out"
        ),
        pytest.param(
            make_pod(
                phase="Pending",
                initContainerStatuses=[
                    {"name": "a", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "b", "state": {"running": {}}},
                ],
                **INIT,
            ),
            "Init:1/2",
            id="in its second step",
        ),
        pytest.param(
            make_pod(
                phase="Pending",
                initContainerStatuses=[{"state": {"terminated": {"exitCode": 1}}}],
                **INIT,
            ),
            "Init:ExitCode:1",
            id="a step failed",
        ),
        pytest.param(
            make_pod(phase="Pending", spec={"nodeName": "", "schedulingGates": [{"name": "g"}]}),
            "SchedulingGated",
            id="held back",
        ),
    ],
)
def test_the_status_of_a_pod_is_in_kubectls_words(pod: dict[str, Any], words: str) -> None:
    assert describe_pod(pod) == words


def test_a_row_says_where_the_pod_is() -> None:
    pod = make_pod(
        RUNS,
        {"waiting": {"reason": "ContainerCreating"}},
        metadata={"annotations": {"multiqueue.dev/cluster": "worker-a"}},
        podIP="10.0.0.1",
    )
    row = pod_row(pod, T0, wide=True)
    assert row[:7] == ["train-a", "1/2", "ContainerCreating", "1", "60s", "worker-a", "n1"]
    assert row[7:] == ["10.0.0.1", "c0,c1", "i,i"]


def make_event(name: str, at: str, cluster: str = "", **fields: Any) -> dict[str, Any]:
    annotations = {"multiqueue.dev/cluster": cluster} if cluster else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "involvedObject": {"kind": "Pod", "name": "train-a"},
        "type": "Normal",
        "reason": "Pulled",
        "message": "m",
        "lastTimestamp": at,
        **fields,
    }


def test_events_of_all_clusters_are_in_the_order_of_time() -> None:
    late = make_event("late", "2026-01-01T11:59:30Z")
    fine = make_event("fine", "", "w1", lastTimestamp=None, eventTime="2026-01-01T11:59:20.500000Z")
    first = make_event("first", "2026-01-01T11:59:10Z", "w2")
    events = sort_events([late, fine, first])
    assert [event["metadata"]["name"] for event in events] == ["first", "fine", "late"]


def test_an_event_that_repeats_says_how_often() -> None:
    event = make_event("a", WHEN, "w1", count=3)
    assert event_row(event, T0) == ["60s (x3)", "w1", "Normal", "Pulled", "pod/train-a", "m"]
