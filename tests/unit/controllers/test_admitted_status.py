"""The one write of an admission, and when a decision is too old to be written."""

from __future__ import annotations

import msgspec
import pytest

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import finish, has_quota, is_admitted, set_pending
from multiqueue.controllers.plan_applier import (
    OutdatedDecisionError,
    PendingAdmission,
    admitted_status,
)
from multiqueue.engine.plan import Admit
from multiqueue.model.workload import Admission as Assigned
from multiqueue.model.workload import PodSetAssignment
from tests.builders.workloads import T0, make_workload, reserved, with_checks, with_status

ASSIGNED = PodSetAssignment(name="main", flavors={"cpu": "default"}, usage={"cpu": 1500}, count=1)


def decided(*checks: str) -> PendingAdmission:
    """What the engine decided for the Workload ``wl``, which needs these checks."""
    decision = Admit(
        workload="team-a/wl",
        cluster_queue="cq",
        admission=Assigned(cluster_queue="cq", pod_sets=(ASSIGNED,)),
        checks=checks,
    )
    return PendingAdmission(
        decision=decision,
        since=0.0,
        decided_at=0.0,
        uid="uid-wl",
        generation=1,
        resource_version="1",
    )


def test_quota_and_admission_come_in_one() -> None:
    status = admitted_status(make_workload(), decided(), T0)
    assert has_quota(status)
    assert is_admitted(status)
    assert status.admission is not None
    (assignment,) = status.admission.pod_set_assignments
    assert (assignment.flavors, assignment.resource_usage) == ({"cpu": "default"}, {"cpu": "1500m"})


def test_the_checks_come_with_the_quota_and_hold_the_admission_back() -> None:
    status = admitted_status(make_workload(), decided("b", "a"), T0)
    assert [(c.name, c.state) for c in status.admission_checks] == [
        ("a", "Pending"),
        ("b", "Pending"),
    ]
    assert not is_admitted(status)


def test_checks_that_were_ready_before_still_are() -> None:
    workload = with_checks(make_workload(), a=CheckState.READY)
    assert is_admitted(admitted_status(workload, decided("a"), T0))


def changed(**metadata: object) -> Workload:
    workload = make_workload()
    return msgspec.structs.replace(
        workload, metadata=msgspec.structs.replace(workload.metadata, **metadata)
    )


def ended() -> Workload:
    workload = make_workload()
    return with_status(workload, finish(workload.status, "Succeeded", "", now=T0))


def on_hold() -> Workload:
    workload = make_workload()
    return with_status(
        workload, set_pending(workload.status, reason=Reason.ON_HOLD, message="", now=T0)
    )


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param(changed(uid="another"), id="another one of the same name"),
        pytest.param(changed(deletion_timestamp="t"), id="being deleted"),
        pytest.param(changed(generation=2), id="another spec"),
        pytest.param(reserved(make_workload()), id="reserved by somebody else"),
        pytest.param(make_workload(active=False), id="deactivated"),
        pytest.param(ended(), id="finished"),
        pytest.param(on_hold(), id="on hold"),
    ],
)
def test_an_outdated_decision_is_not_written(newest: Workload) -> None:
    with pytest.raises(OutdatedDecisionError):
        admitted_status(newest, decided(), T0)
