"""Which pods are ended though nobody knows whether they run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.controllers.failure_recovery import LEAVE, RecoveryVerdict, failed_status, judge_pod
from tests.builders.workloads import T0

UNREACHABLE_NODE = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
}
SAFE = {names.SAFE_TO_FORCEFULLY_DELETE: "true"}


def make_pod(*, deleted: bool = True, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "annotations": SAFE}
    if annotations is not None:
        metadata["annotations"] = annotations
    if deleted:
        metadata["deletionTimestamp"] = format_time(T0)
    return {"metadata": metadata, "status": {"phase": "Running"}}


def after(seconds: float) -> Any:
    return T0 + timedelta(seconds=seconds)


def test_a_pod_of_an_unreachable_node_has_a_minute() -> None:
    """E-191."""
    assert judge_pod(make_pod(), UNREACHABLE_NODE, after(15)) == RecoveryVerdict(look_after=45)
    assert judge_pod(make_pod(), UNREACHABLE_NODE, after(60)) == RecoveryVerdict(ends=True)


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(make_pod(deleted=False), UNREACHABLE_NODE, id="not deleted"),
        pytest.param(make_pod(annotations={}), UNREACHABLE_NODE, id="not marked"),
        pytest.param(
            make_pod(annotations={names.SAFE_TO_FORCEFULLY_DELETE: "false"}),
            UNREACHABLE_NODE,
            id="marked as unsafe",
        ),
        pytest.param(make_pod(), {"metadata": {"name": "n"}, "spec": {}}, id="reachable"),
        pytest.param(make_pod(), None, id="no node"),
    ],
)
def test_who_is_left_alone(pod: dict[str, Any], node: dict[str, Any] | None) -> None:
    assert judge_pod(pod, node, after(3600)) == LEAVE


def test_the_end_says_who_did_it() -> None:
    pod = make_pod()
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    status = failed_status(pod, T0)["status"]
    assert status["phase"] == "Failed"
    assert [c["type"] for c in status["conditions"]] == ["Ready", "KueueForcefullyDeleted"]
