"""What a person on call is told about admission checks."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.serde import decode
from multiqueue.cli.views.checks import RequestRow, list_requests, next_step, show_since
from multiqueue.cli.views.explanation import explain
from multiqueue.jobs.framework.copy_adapter import refuse_other_manager
from tests.unit.cli.builders import T0, WHEN, condition, make_answer, make_objects, make_workload

RESERVED = condition("QuotaReserved")
ON_A100 = {"queue": "cq", "flavor": "a100"}


def check(state: str, **fields: Any) -> dict[str, Any]:
    return {"name": "mk", "state": state, "message": "m", "lastTransitionTime": WHEN, **fields}


def make_request(name: str, *conditions: Any) -> ProvisioningRequest:
    return decode(
        ProvisioningRequest,
        {
            "metadata": {"name": name},
            "spec": {"provisioningClassName": "dws"},
            "status": {"conditions": list(conditions)},
        },
    )


def test_a_check_tells_state_age_and_retries() -> None:
    workload = make_workload(
        "a", RESERVED, admission=ON_A100, admissionChecks=[check("Pending", retryCount=2)]
    )
    (row,) = explain(make_objects(workload, checks=True), workload).checks
    assert (row.name, row.state, row.retries, row.message, row.inactive) == (
        "mk",
        "Pending",
        2,
        "m",
        "",
    )
    assert show_since(row.since, T0) == "60s"
    assert show_since("", T0) == "-"


def test_a_check_that_is_gone_or_inactive_says_so() -> None:
    workload = make_workload("a", RESERVED, admissionChecks=[check("Pending")])
    objects = make_objects(workload)
    assert explain(objects, workload).checks[0].inactive == "AdmissionCheck mk doesn't exist"
    for conditions, words in (
        ([], "is not active yet; is the controller kueue.x-k8s.io/multikueue running?"),
        ([condition("Active", "False", "Bad", "no config")], "is inactive: no config"),
    ):
        objects = make_objects(workload, checks=True)
        objects.checks["mk"] = decode(
            api.AdmissionCheck,
            {
                "metadata": {"name": "mk"},
                "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
                "status": {"conditions": conditions},
            },
        )
        assert explain(objects, workload).checks[0].inactive == f"AdmissionCheck mk {words}"


def test_a_queue_without_its_check_names_what_the_check_says() -> None:
    workload = make_workload("a")
    objects = make_objects(workload, checks=True)
    objects.checks.clear()
    objects.cluster_queues["cq"] = decode(
        api.ClusterQueue,
        {
            "metadata": {"name": "cq"},
            "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}},
            "status": {"conditions": [condition("Active", "False", "R", "inactive checks")]},
        },
    )
    assert explain(objects, workload).cause == (
        "ClusterQueue cq is inactive: inactive checks; AdmissionCheck mk doesn't exist"
    )


@pytest.mark.parametrize(
    ("workload", "want"),
    [
        pytest.param(make_workload("a"), "", id="it waits for quota"),
        pytest.param(
            make_workload("a", requeueState={"requeueAt": "2026-01-01T12:05:00Z"}),
            "tried again in 5m, at 2026-01-01T12:05:00Z",
            id="it was sent back",
        ),
        pytest.param(
            make_workload("a", requeueState={"requeueAt": "2026-01-01T11:05:00Z"}),
            "",
            id="the pause is over",
        ),
        pytest.param(
            make_workload(
                "a",
                RESERVED,
                admissionChecks=[check("Retry", requeueAfterSeconds=120)],
            ),
            "tried again in 60s, at 2026-01-01T12:01:00Z",
            id="it is about to be sent back",
        ),
        pytest.param(
            make_workload(
                "a",
                RESERVED,
                admissionChecks=[check("Pending", requeueAfterSeconds=120)],
                requeueState={"requeueAt": "2026-01-01T12:05:00Z"},
            ),
            "",
            id="its next try has begun",
        ),
        pytest.param(
            make_workload("a", condition("Finished", reason="Succeeded"), active=False),
            "",
            id="it is over",
        ),
    ],
)
def test_the_next_step_has_its_time(workload: api.Workload, want: str) -> None:
    assert next_step(workload, T0) == want


def test_what_is_given_up_tells_how_to_try_again() -> None:
    words = next_step(make_workload("a", active=False), T0)
    assert words.endswith(
        'kubectl patch workload a -n team --type merge -p \'{"spec":{"active":true}}\''
    )


def test_a_job_that_has_to_be_created_again_is_not_to_be_activated() -> None:
    job = {"metadata": {"name": "a", "namespace": "team"}}
    why = refuse_other_manager(job, "Job", ("spec", "managedBy"))
    evicted = condition("Evicted", "False", "DeactivatedDueToAdmissionCheckRejected", f"mk: {why}")
    workload = make_workload("a", evicted, active=False)
    explained = explain(make_objects(workload), workload)
    assert "create it again with managedBy" in explained.view.why
    assert explained.next == ""


def test_numbers_of_quota_are_left_out_while_a_pause_runs() -> None:
    pause = {"requeueAt": "2026-01-01T12:05:00Z"}
    paused = make_workload("a", condition("QuotaReserved", "False"), requeueState=pause)
    waiting = make_workload("b", condition("QuotaReserved", "False"))
    objects = make_objects(paused, waiting)
    assert explain(objects, paused, make_answer()).numbers == ()
    assert explain(objects, waiting, make_answer()).numbers
    assert explain(objects, paused).to_dict()["next"].startswith("tried again in")


@pytest.mark.parametrize(
    ("conditions", "state", "message"),
    [
        pytest.param([], "NotAnswered", "no autoscaler has looked at it yet", id="no answer"),
        pytest.param([condition("Accepted", message="ok")], "Accepted", "ok", id="accepted"),
        pytest.param(
            [condition("Accepted", message="ok"), condition("Provisioned", "False", "R", "soon")],
            "Accepted",
            "soon",
            id="accepted, with an expectation",
        ),
        pytest.param(
            [condition("Provisioned"), condition("Failed", message="no stock")],
            "Failed",
            "no stock",
            id="the worst counts",
        ),
    ],
)
def test_a_request_says_what_the_autoscaler_said(
    conditions: list[Any], state: str, message: str
) -> None:
    rows = list_requests([make_request("b", *conditions), make_request("a")])
    assert [row.name for row in rows] == ["a", "b"]
    assert rows[1] == RequestRow(name="b", provisioning_class="dws", state=state, message=message)
