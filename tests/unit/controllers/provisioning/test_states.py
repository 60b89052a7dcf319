"""What the conditions of a request mean for its check, and when it is tried again (E-156)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState, ProvisioningCondition, Reason
from multiqueue.api.v1beta2 import PodSetUpdate
from multiqueue.api.v1beta2.admission_check import (
    ProvisioningRequestNodeSelectorUpdate,
    ProvisioningRequestPodSetUpdates,
)
from multiqueue.api.workload_state import finish, sync_admitted
from multiqueue.controllers.provisioning.states import (
    UNCHANGED,
    CheckChange,
    RequestedCheck,
    judge,
    pause_seconds,
)
from multiqueue.controllers.provisioning.view import ProvisioningCheck
from tests.builders.workloads import T0, make_workload, with_status
from tests.unit.controllers.provisioning.worlds import (
    CHECK,
    config,
    holding,
    pod_set,
    request,
    retries,
    view,
)

ACCEPTED = ProvisioningCondition.ACCEPTED
PROVISIONED = ProvisioningCondition.PROVISIONED
FAILED = ProvisioningCondition.FAILED
EXPIRED = ProvisioningCondition.BOOKING_EXPIRED
REVOKED = ProvisioningCondition.CAPACITY_REVOKED

READY = holding(state=CheckState.READY)
ADMITTED = with_status(READY, sync_admitted(READY.status, now=T0))


def judged(asked: ProvisioningRequest, workload: Any = None, **spec: Any) -> CheckChange:
    world = view(workload or holding(), asked, spec=config(**spec))
    return judge(RequestedCheck(view=world, check=world.checks[0], request=asked))


def test_a_new_request_leaves_the_check_pending() -> None:
    assert judged(request()) == CheckChange(state=CheckState.PENDING)


def test_an_accepted_request_says_when_the_capacity_comes() -> None:
    asked = request(1, ACCEPTED, false={PROVISIONED: "ETA: 10 minutes"})
    assert judged(asked) == CheckChange(state=CheckState.PENDING, message="ETA: 10 minutes")


def test_an_accepted_request_without_news_leaves_the_message() -> None:
    assert judged(request(1, ACCEPTED)) == CheckChange(state=CheckState.PENDING)


def test_what_is_provisioned_is_ready_and_tells_the_pods() -> None:
    change = judged(request(1, ACCEPTED, PROVISIONED))
    update = PodSetUpdate(
        name="main",
        annotations={
            "autoscaling.x-k8s.io/consume-provisioning-request": "wl-prov-1",
            "autoscaling.x-k8s.io/provisioning-class-name": "queued.gke.io",
        },
    )
    assert change == CheckChange(
        state=CheckState.READY, message="Provisioned!", pod_set_updates=(update,)
    )


def test_details_of_the_class_become_node_selectors_where_they_are_there() -> None:
    keys = {"autoscaling.gke.io/resize": "RequestName", "zone": "Zone"}
    selectors = tuple(
        ProvisioningRequestNodeSelectorUpdate(key=k, value_from_provisioning_class_detail=v)
        for k, v in keys.items()
    )
    change = judged(
        request(1, PROVISIONED, details={"RequestName": "r-7", "Other": "x"}),
        pod_set_updates=ProvisioningRequestPodSetUpdates(node_selector=selectors),
    )
    assert change.pod_set_updates is not None
    assert change.pod_set_updates[0].node_selector == {"autoscaling.gke.io/resize": "r-7"}


def test_only_the_pod_sets_of_the_request_get_updates() -> None:
    pods = (pod_set("a"), pod_set("b"), pod_set("c"))
    workload = holding(workload=make_workload(pod_sets=pods))
    change = judged(request(1, PROVISIONED, pod_sets={"a": 2, "c": 1}), workload)
    assert [update.name for update in change.pod_set_updates or ()] == ["a", "c"]


def test_ready_stays_as_it_was() -> None:
    assert judged(request(1, PROVISIONED), READY) == UNCHANGED


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        pytest.param(FAILED, "Retrying after failure: Failed!", id="failed"),
        pytest.param(
            EXPIRED, "Retrying after booking expired: BookingExpired!", id="booking expired"
        ),
    ],
)
@pytest.mark.parametrize("workload", [holding(), READY], ids=["pending", "ready"])
def test_it_is_tried_again_after_a_pause(
    condition: ProvisioningCondition, words: str, workload: Any
) -> None:
    assert judged(request(1, PROVISIONED, condition), workload) == CheckChange(
        state=CheckState.RETRY, message=words, requeue_after_seconds=60
    )


@pytest.mark.parametrize("condition", [FAILED, EXPIRED])
@pytest.mark.parametrize(
    ("attempt", "limit", "rejected"), [(3, 3, False), (4, 3, True), (1, 0, True)]
)
def test_the_limit_is_the_last_retry(
    condition: ProvisioningCondition, attempt: int, limit: int, rejected: bool
) -> None:
    workload = holding(retry_count=attempt - 1)
    change = judged(request(attempt, condition), workload, **retries(limit=limit))
    if rejected:
        assert change == CheckChange(state=CheckState.REJECTED, message=f"{condition}!")
    else:
        assert change.state is CheckState.RETRY
        assert change.requeue_after_seconds == 60 * 2 ** (attempt - 1)


def test_an_old_request_asks_for_no_retry() -> None:
    change = judged(request(2, FAILED), holding(retry_count=2))
    assert change == CheckChange(message="Retrying after failure: Failed!")


def test_a_retry_keeps_its_pause() -> None:
    change = judged(request(1, FAILED), holding(state=CheckState.RETRY))
    assert change == CheckChange(message="Retrying after failure: Failed!")


def test_a_failure_ends_even_what_is_admitted() -> None:
    assert judged(request(1, PROVISIONED, FAILED), ADMITTED).state is CheckState.RETRY


def test_an_expired_booking_does_not_matter_after_the_admission() -> None:
    assert judged(request(1, PROVISIONED, EXPIRED), ADMITTED) == UNCHANGED


@pytest.mark.parametrize("workload", [holding(), READY, ADMITTED])
def test_revoked_capacity_gives_the_workload_up(workload: Any) -> None:
    change = judged(request(1, PROVISIONED, REVOKED), workload)
    assert change == CheckChange(state=CheckState.REJECTED, message="CapacityRevoked!")


def test_revoked_capacity_does_not_matter_to_what_is_over() -> None:
    finished = with_status(ADMITTED, finish(ADMITTED.status, Reason.SUCCEEDED, "done", now=T0))
    spec = msgspec.structs.replace(ADMITTED.spec, active=False)
    inactive = msgspec.structs.replace(ADMITTED, spec=spec)
    assert judged(request(1, PROVISIONED, REVOKED), finished) == UNCHANGED
    assert judged(request(1, PROVISIONED, REVOKED), inactive) == UNCHANGED


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((FAILED, REVOKED, EXPIRED, PROVISIONED, ACCEPTED), CheckState.RETRY),
        ((REVOKED, EXPIRED, PROVISIONED, ACCEPTED), CheckState.REJECTED),
        ((EXPIRED, PROVISIONED, ACCEPTED), CheckState.RETRY),
        ((PROVISIONED, ACCEPTED), CheckState.READY),
        ((ACCEPTED,), CheckState.PENDING),
    ],
)
def test_the_first_match_wins(
    conditions: tuple[ProvisioningCondition, ...], state: CheckState
) -> None:
    assert judged(request(1, *conditions)).state is state


@pytest.mark.parametrize(
    ("retried", "want"), [(0, 60), (1, 120), (2, 240), (4, 960), (5, 1800), (6, 1800), (9999, 1800)]
)
def test_pauses_double_up_to_the_longest(retried: int, want: int) -> None:
    check = ProvisioningCheck(name=CHECK, config=config())
    assert pause_seconds(check, retries=retried, jitter=0.99) == want


def test_a_pause_has_a_ten_thousandth_of_jitter_in_whole_seconds() -> None:
    check = ProvisioningCheck(name=CHECK, config=config(**retries(base=100_000, most=200_000)))
    assert pause_seconds(check, retries=0, jitter=0.0) == 100_000
    assert pause_seconds(check, retries=0, jitter=0.55) == 100_005
    assert pause_seconds(check, retries=1, jitter=0.999) == 200_019
