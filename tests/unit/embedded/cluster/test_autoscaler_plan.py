"""What the simulated autoscaler answers, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.embedded.cluster.autoscaler_plan import (
    NODE_GROUP_LABEL,
    decide_request,
    node_group,
    provisioned_nodes,
)
from tests.virtual_time import T0

Request = dict[str, Any]


def make_request(name: str = "wl-prov-1", **parameters: str) -> Request:
    return {
        "metadata": {"name": name, "uid": "0123456789"},
        "spec": {"parameters": {key.replace("_", "-"): v for key, v in parameters.items()}},
    }


def advance(request: Request, seconds: float, speed: float = 1) -> tuple[Request, float | None]:
    """The request after the step that is due then, and what is waited for."""
    step = decide_request(request, now=T0 + timedelta(seconds=seconds), speed=speed)
    if step.status is None:
        return request, step.wait_seconds
    return {**request, "status": {**request.get("status", {}), **step.status}}, step.wait_seconds


def true(request: Request) -> list[str]:
    conditions = request.get("status", {}).get("conditions", ())
    return [c["type"] for c in conditions if c["status"] == "True"]


def message(request: Request, type_: str) -> str:
    return str(next(c["message"] for c in request["status"]["conditions"] if c["type"] == type_))


def test_it_is_accepted_and_says_when_the_capacity_comes() -> None:
    request, wait = advance(make_request(sim_delay_seconds="60"), 0, speed=2)
    assert (true(request), wait) == (["Accepted"], 60)
    assert message(request, "Provisioned").endswith("expected at 2026-01-01T00:00:30Z")


def test_the_capacity_comes_after_the_delay() -> None:
    request, _ = advance(make_request(sim_delay_seconds="60"), 0)
    assert advance(request, 59) == (request, 1)
    request, wait = advance(request, 60)
    assert (true(request), wait) == (["Accepted", "Provisioned"], None)
    assert request["status"]["provisioningClassDetails"] == {"NodeGroup": node_group(request)}
    assert advance(request, 9999) == (request, None)


@pytest.mark.parametrize("outcome", ["BookingExpired", "CapacityRevoked"])
def test_the_capacity_goes_again(outcome: str) -> None:
    request = make_request(sim_delay_seconds="1", sim_outcome=outcome, sim_after_seconds="10")
    request, _ = advance(request, 0)
    request, wait = advance(request, 1)
    assert wait == 10
    assert advance(request, 5) == (request, 6)
    request, _ = advance(request, 11)
    assert true(request) == ["Accepted", "Provisioned", outcome]
    assert advance(request, 12) == (request, None)


def test_a_request_fails() -> None:
    request, _ = advance(make_request(sim_delay_seconds="0", sim_outcome="Failed"), 0)
    request, wait = advance(request, 0)
    assert (true(request), wait) == (["Accepted", "Failed"], None)
    assert advance(request, 100) == (request, None)


@pytest.mark.parametrize(("attempt", "end"), [(1, "Failed"), (2, "Failed"), (3, "Provisioned")])
def test_so_many_attempts_fail(attempt: int, end: str) -> None:
    request = make_request(f"wl-prov-{attempt}", sim_failures="2", sim_delay_seconds="1")
    request, _ = advance(request, 0)
    request, _ = advance(request, 1)
    assert true(request) == ["Accepted", end]


def test_some_requests_are_never_answered() -> None:
    request = make_request(sim_outcome="Nothing")
    assert advance(request, 0) == (request, None)


def test_an_annotation_changes_the_outcome_at_any_time() -> None:
    request, _ = advance(make_request(sim_delay_seconds="1"), 0)
    request, _ = advance(request, 1)
    request["metadata"]["annotations"] = {"multiqueue.dev/sim-outcome": "CapacityRevoked"}
    request, _ = advance(request, 50)
    assert true(request) == ["Accepted", "Provisioned", "CapacityRevoked"]


@pytest.mark.parametrize(
    "parameters",
    [{"sim_outcome": "Perhaps"}, {"sim_delay_seconds": "soon"}, {"sim_nodes": "many"}],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_told(parameters: dict[str, str]) -> None:
    request, _ = advance(make_request(**parameters), 0)
    assert true(request) == ["Failed"]
    assert next(iter(parameters)).replace("_", "-") in message(request, "Failed")


def test_nodes_come_with_the_capacity_and_go_with_it() -> None:
    request = make_request(sim_delay_seconds="1", sim_nodes="2xa100/4,zone=b")
    assert provisioned_nodes(request) == []
    request, _ = advance(request, 0)
    request, _ = advance(request, 1)
    nodes = provisioned_nodes(request)
    assert [node["metadata"]["name"] for node in nodes] == ["a100-01234567-0", "a100-01234567-1"]
    labels = nodes[0]["metadata"]["labels"]
    details = request["status"]["provisioningClassDetails"]
    assert (labels["zone"], labels[NODE_GROUP_LABEL]) == ("b", details["NodeGroup"])
    request["metadata"]["annotations"] = {"multiqueue.dev/sim-outcome": "CapacityRevoked"}
    request, _ = advance(request, 2)
    assert provisioned_nodes(request) == []


def test_the_group_fits_a_label() -> None:
    assert len(node_group(make_request("w" * 253))) <= 63
