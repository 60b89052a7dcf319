"""Which request a check goes by (E-155), and with which parameters requests are made (E-157)."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState
from multiqueue.controllers.provisioning.selection import build_parameters, pick_requests
from multiqueue.controllers.provisioning.view import ProvisioningCheck
from tests.builders.workloads import admitted, make_workload
from tests.unit.controllers.provisioning.worlds import CHECK, config, holding, request, view

PARAMETERS = {"zone": "a", "maxRunDurationSeconds": "60"}


def picked(*requests: ProvisioningRequest, **what: Any) -> str | None:
    found = pick_requests(view(what.pop("workload", None), *requests, **what)).get(CHECK)
    return found.metadata.name if found else None


def test_it_is_the_highest_attempt_by_number() -> None:
    assert picked(request(9), request(10), request(2)) == "wl-prov-10"


def test_what_is_being_deleted_does_not_count() -> None:
    assert picked(request(1), request(2, deleted=True)) == "wl-prov-1"


def test_another_checks_request_does_not_count() -> None:
    assert picked(request(1, check="prov-2")) is None


def test_another_class_is_out_of_sync() -> None:
    assert picked(request(1, class_name="other")) is None


@pytest.mark.parametrize(
    ("parameters", "in_sync"),
    [
        pytest.param(PARAMETERS, True, id="equal"),
        pytest.param({**PARAMETERS, "more": "1"}, True, id="further ones do no harm"),
        pytest.param({**PARAMETERS, "zone": "b"}, False, id="another value"),
        pytest.param({"zone": "a"}, False, id="one is missing"),
        pytest.param({}, False, id="none"),
    ],
)
def test_parameters_of_the_configuration_must_be_there(
    parameters: dict[str, str], in_sync: bool
) -> None:
    found = picked(request(parameters=parameters), spec=config(parameters=PARAMETERS))
    assert (found is not None) is in_sync


def test_an_old_attempt_that_is_in_sync_beats_a_newer_one_that_is_not() -> None:
    assert picked(request(1), request(2, class_name="other")) == "wl-prov-1"


def test_a_parameter_that_the_workload_overrides_is_in_sync() -> None:
    workload = make_workload(annotations={"provreq.kueue.x-k8s.io/zone": "b"})
    found = picked(
        request(parameters={**PARAMETERS, "zone": "b"}),
        spec=config(parameters=PARAMETERS),
        workload=holding(workload=workload),
    )
    assert found == "wl-prov-1"


def test_a_ready_check_keeps_its_request_over_edits() -> None:
    ready = holding(state=CheckState.READY)
    assert picked(request(1, class_name="old"), workload=ready) == "wl-prov-1"
    assert picked(request(1), workload=ready, inactive=True) == "wl-prov-1"


def test_without_a_configuration_a_waiting_check_has_no_request() -> None:
    assert picked(request(1), inactive=True) is None


def test_without_a_configuration_what_is_admitted_keeps_its_request() -> None:
    workload = admitted(make_workload())
    assert picked(request(1), workload=workload, inactive=True) == "wl-prov-1"


def test_a_check_that_needs_nothing_has_no_request() -> None:
    assert picked(request(1), spec=config(managed_resources=("nvidia.com/gpu",))) is None


def test_each_check_has_its_own() -> None:
    checks = (
        ProvisioningCheck(name="a", config=config()),
        ProvisioningCheck(name="a-1", config=config()),
    )
    requests = (request(1, check="a"), request(2, check="a"), request(7, check="a-1"))
    found = pick_requests(view(holding(checks=("a", "a-1")), checks=checks, requests=requests))
    names = {check: picked.metadata.name for check, picked in found.items()}
    assert names == {"a": "wl-a-2", "a-1": "wl-a-1-7"}


def test_the_workloads_parameters_win() -> None:
    workload = make_workload(
        annotations={
            "provreq.kueue.x-k8s.io/zone": "b",
            "provreq.kueue.x-k8s.io/ValidUntilSeconds": "0",
            "kueue.x-k8s.io/other": "x",
        }
    )
    assert build_parameters(workload, config(parameters=PARAMETERS)) == {
        "zone": "b",
        "maxRunDurationSeconds": "60",
        "ValidUntilSeconds": "0",
    }
