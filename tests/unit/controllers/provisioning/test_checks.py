"""Which configuration a check leads to, and what its Active condition says."""

from __future__ import annotations

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.v1beta2.admission_check import (
    AdmissionCheckParametersReference,
    AdmissionCheckSpec,
    ProvisioningRequestConfig,
)
from multiqueue.controllers.provisioning.check_controller import judge_check
from multiqueue.controllers.provisioning.configs import find_config, is_provisioning
from tests.unit.controllers.provisioning.worlds import config

GROUP = "kueue.x-k8s.io"
KIND = "ProvisioningRequestConfig"
STORED = {
    "good": ProvisioningRequestConfig(spec=config()),
    "empty": ProvisioningRequestConfig(spec=config(provisioning_class_name="")),
}


def make_check(group: str = GROUP, kind: str = KIND, name: str = "good") -> api.AdmissionCheck:
    reference = AdmissionCheckParametersReference(api_group=group, kind=kind, name=name)
    return api.AdmissionCheck(
        metadata=api.ObjectMeta(name="prov"),
        spec=AdmissionCheckSpec(
            controller_name="kueue.x-k8s.io/provisioning-request", parameters=reference
        ),
    )


def test_a_check_leads_to_its_configuration() -> None:
    found = find_config(make_check(), STORED.get)
    assert found.config is STORED["good"]
    verdict = judge_check(found, watch_problem="")
    assert (verdict.active, verdict.reason) == (True, "Active")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        pytest.param(
            api.AdmissionCheck(), "spec.parameters is not set; refer to a", id="no parameters"
        ),
        pytest.param(
            make_check(kind="MultiKueueConfig"),
            'refers to MultiKueueConfig.kueue.x-k8s.io "good"; refer to a',
            id="another kind",
        ),
        pytest.param(make_check(group="x"), f"refers to {KIND}.x", id="another group"),
        pytest.param(make_check(name=""), "refer to a", id="no name"),
        pytest.param(
            make_check(name="gone"), '"gone" not found; create it, or change', id="not found"
        ),
        pytest.param(
            make_check(name="empty"), "spec.provisioningClassName is empty", id="no class"
        ),
    ],
)
def test_a_check_that_leads_nowhere_says_what_to_do(check: api.AdmissionCheck, words: str) -> None:
    found = find_config(check, STORED.get)
    verdict = judge_check(found, watch_problem="")
    assert found.config is None
    assert (verdict.active, verdict.reason) == (False, "BadParametersRef")
    assert words in verdict.message


def test_a_check_whose_requests_cannot_be_watched_is_not_active() -> None:
    verdict = judge_check(find_config(make_check(), STORED.get), watch_problem="not served")
    assert (verdict.active, verdict.reason, verdict.message) == (
        False,
        "ProvisioningRequestUnavailable",
        "not served",
    )


def test_checks_of_other_controllers_are_none_of_ours() -> None:
    assert is_provisioning(make_check())
    assert not is_provisioning(api.AdmissionCheck(spec=AdmissionCheckSpec(controller_name="x")))
    assert not is_provisioning(None)
