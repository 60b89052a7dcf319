"""The order of one reconcile, and which writes it asks for (E-154 to E-157)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from multiqueue.api.conditions import CheckState, ProvisioningCondition, Reason
from multiqueue.api.v1beta2 import AdmissionCheckState, PodSetUpdate, WorkloadStatus
from multiqueue.api.workload_checks import find_check, set_check_state
from multiqueue.api.workload_state import evict, finish, is_admitted, release_quota, sync_admitted
from multiqueue.controllers.provisioning.decide import decide
from multiqueue.controllers.provisioning.plan import (
    ChangeChecks,
    CreateRequest,
    DeleteRequests,
    ProvisioningDone,
    ProvisioningPlan,
    Refuse,
    RepairTemplates,
)
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from tests.builders.workloads import NAMESPACE, T0, make_template, make_workload, with_status
from tests.unit.controllers.provisioning.worlds import (
    CHECK,
    config,
    counting,
    flavor,
    holding,
    pod_set,
    request,
    view,
    whole,
)

FAILED = ProvisioningCondition.FAILED
PROVISIONED = ProvisioningCondition.PROVISIONED
EXPIRED = ProvisioningCondition.BOOKING_EXPIRED
GPU = "nvidia.com/gpu"


def over(kind: str) -> Any:
    workload = holding()
    if kind == "finished":
        status = finish(workload.status, Reason.SUCCEEDED, "done", now=T0)
    else:
        status = evict(workload.status, Reason.PREEMPTED, "go", now=T0)
    return with_status(workload, status)


def deleted(plan: ProvisioningPlan) -> list[str]:
    assert isinstance(plan, DeleteRequests)
    return [request.metadata.name for request in plan.requests]


def created(plan: ProvisioningPlan) -> dict[str, Any]:
    assert isinstance(plan, CreateRequest)
    return plan.content.request


def changed(world: ProvisioningView) -> WorkloadStatus:
    plan = decide(world)
    assert isinstance(plan, ChangeChecks)
    return plan.change(world)


def check_of(world: ProvisioningView, name: str = CHECK) -> AdmissionCheckState:
    check = find_check(changed(world), name)
    assert check is not None
    return check


# ------------------------------------------------------------ what is over


@pytest.mark.parametrize("kind", ["finished", "evicted"])
def test_requests_of_what_is_over_are_deleted(kind: str) -> None:
    assert deleted(decide(view(over(kind), request(1), request(2)))) == ["wl-prov-1", "wl-prov-2"]


def test_with_the_gate_off_an_eviction_keeps_requests_and_a_finish_does_not() -> None:
    assert decide(view(over("evicted"), request(1), cleanup=False)) == ProvisioningDone()
    assert deleted(decide(view(over("finished"), request(1), cleanup=False))) == ["wl-prov-1"]


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    assert decide(view(over("finished"), request(1, deleted=True))) == ProvisioningDone()


def test_what_has_no_quota_is_ignored() -> None:
    workload = holding()
    waiting = with_status(
        workload, release_quota(workload.status, reason="Suspended", message="", now=T0)
    )
    assert decide(view(waiting, request(1))) == ProvisioningDone()
    assert decide(view(make_workload())) == ProvisioningDone()


def test_what_is_being_deleted_asks_for_nothing() -> None:
    gone = holding(workload=make_workload(deleted=True))
    assert decide(view(gone)) == ProvisioningDone()


# ------------------------------------------------------------ checks


def test_an_inactive_check_says_so() -> None:
    check = check_of(view(inactive=True))
    assert (check.state, check.message) == ("Pending", "the check is not active")


def test_an_inactive_check_takes_ready_back_until_the_admission() -> None:
    ready = holding(state=CheckState.READY)
    assert check_of(view(ready, inactive=True)).state == CheckState.PENDING
    admitted = with_status(ready, sync_admitted(ready.status, now=T0))
    assert decide(view(admitted, request(1, PROVISIONED), inactive=True)) == ProvisioningDone()


def test_a_request_that_is_not_needed_is_ready_and_admits() -> None:
    workload = holding()
    update = PodSetUpdate(name="main", annotations={"a": "b"})
    status = set_check_state(
        workload.status, CHECK, CheckState.PENDING, message="", now=T0, pod_set_updates=(update,)
    )
    world = view(with_status(workload, status), spec=config(managed_resources=(GPU,)))
    check = check_of(world)
    assert (check.state, check.message) == (
        "Ready",
        "the provisioning request is not needed",
    )
    assert check.pod_set_updates == ()
    assert is_admitted(changed(world))


def test_a_ready_check_without_need_is_left_alone() -> None:
    ready = holding(state=CheckState.READY)
    admitted = with_status(ready, sync_admitted(ready.status, now=T0))
    assert decide(view(admitted, spec=config(managed_resources=(GPU,)))) == ProvisioningDone()


def test_ready_and_admitted_are_one_write() -> None:
    status = changed(view(holding(), request(1, PROVISIONED)))
    assert is_admitted(status)
    assert [check.state for check in status.admission_checks] == ["Ready"]


def test_the_change_fits_the_newest_workload() -> None:
    world = view(holding(), request(1, PROVISIONED))
    plan = decide(world)
    assert isinstance(plan, ChangeChecks)
    evicted = over("evicted")
    assert plan.change(replace(world, workload=evicted)) == evicted.status


def two_checks(*requests: Any, state: CheckState = CheckState.PENDING) -> ProvisioningView:
    checks = (
        ProvisioningCheck(name="a", config=config()),
        ProvisioningCheck(name="b", config=config()),
    )
    workload = holding(checks=("a", "b"), state=state)
    return view(workload, *requests, checks=checks)


def test_nothing_is_written_before_every_needed_check_has_its_request() -> None:
    plan = decide(two_checks(request(1, PROVISIONED, check="a")))
    assert created(plan)["metadata"]["name"] == "wl-b-1"


def test_all_checks_are_brought_up_to_date_in_one_write() -> None:
    world = two_checks(request(1, PROVISIONED, check="a"), request(1, FAILED, check="b"))
    states = [check.state for check in changed(world).admission_checks]
    assert states == ["Ready", "Retry"]


# ------------------------------------------------------------ requests


def test_what_no_check_goes_by_is_deleted() -> None:
    world = view(holding(), request(1), request(2), request(1, class_name="old", check="other"))
    assert deleted(decide(world)) == ["wl-prov-1", "wl-other-1"]


def test_what_is_admitted_keeps_what_it_has() -> None:
    ready = holding(state=CheckState.READY)
    admitted = with_status(ready, sync_admitted(ready.status, now=T0))
    assert decide(view(admitted, request(1, PROVISIONED), checks=())) == ProvisioningDone()


@pytest.mark.parametrize("condition", [FAILED, EXPIRED])
def test_what_is_admitted_keeps_no_earlier_attempt(condition: ProvisioningCondition) -> None:
    ready = holding(state=CheckState.READY, retry_count=1)
    admitted = with_status(ready, sync_admitted(ready.status, now=T0))
    before = request(1, PROVISIONED, condition)
    assert deleted(decide(view(admitted, before, request(2, PROVISIONED)))) == ["wl-prov-1"]


def test_revoked_capacity_counts_without_a_configuration() -> None:
    ready = holding(state=CheckState.READY)
    admitted = with_status(ready, sync_admitted(ready.status, now=T0))
    revoked = request(1, PROVISIONED, ProvisioningCondition.CAPACITY_REVOKED)
    check = check_of(view(admitted, revoked, inactive=True))
    assert (check.state, check.message) == ("Rejected", "CapacityRevoked!")


def test_an_edited_configuration_starts_again() -> None:
    world = view(holding(), request(1), spec=config(provisioning_class_name="other.class"))
    assert deleted(decide(world)) == ["wl-prov-1"]
    again = decide(replace(world, requests=()))
    assert created(again)["metadata"]["name"] == "wl-prov-1"
    assert created(again)["spec"]["provisioningClassName"] == "other.class"


@pytest.mark.parametrize(("count", "name"), [(None, "wl-prov-1"), (2, "wl-prov-3")])
def test_a_fresh_request_counts_the_retries(count: int | None, name: str) -> None:
    assert created(decide(view(holding(retry_count=count))))["metadata"]["name"] == name


@pytest.mark.parametrize("condition", [FAILED, EXPIRED])
def test_after_a_retry_the_next_attempt_follows_one_that_was_kept(
    condition: ProvisioningCondition,
) -> None:
    workload = holding(retry_count=1)
    words = "failure" if condition is FAILED else "booking expired"
    status = set_check_state(
        workload.status,
        CHECK,
        CheckState.PENDING,
        message=f"Retrying after {words}: {condition}!",
        now=T0,
    )
    world = view(with_status(workload, status), request(1, condition), cleanup=False)
    assert created(decide(world))["metadata"]["name"] == "wl-prov-2"


@pytest.mark.parametrize("state", [CheckState.RETRY, CheckState.REJECTED, CheckState.READY])
def test_no_request_is_made_for_a_check_that_is_decided(state: CheckState) -> None:
    workload = holding(state=state)
    if state is CheckState.READY:
        workload = with_status(workload, sync_admitted(workload.status, now=T0))
    assert decide(view(workload)) == ProvisioningDone()


def test_nothing_is_asked_for_what_is_admitted() -> None:
    admitted = with_status(holding(checks=()), sync_admitted(holding(checks=()).status, now=T0))
    pending = AdmissionCheckState(name=CHECK, state="Pending")
    late = msgspec.structs.replace(admitted.status, admission_checks=(pending,))
    assert decide(view(with_status(admitted, late))) == ProvisioningDone()


def test_a_request_is_complete() -> None:
    workload = make_workload(
        pod_sets=(pod_set("driver", 1), pod_set("workers", 8)),
        annotations={"provreq.kueue.x-k8s.io/zone": "b"},
    )
    world = view(
        counting(holding(workload=workload), workers=6),
        spec=config(parameters={"zone": "a", "more": "1"}),
        api_version="autoscaling.x-k8s.io/v1beta1",
    )
    assert created(decide(world)) == {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": "wl-prov-1",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/managed": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Workload",
                    "name": "wl",
                    "uid": "uid-wl",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "provisioningClassName": "queued.gke.io",
            "parameters": {"zone": "b", "more": "1"},
            "podSets": [
                {"podTemplateRef": {"name": "ppt-wl-prov-1-driver"}, "count": 1},
                {"podTemplateRef": {"name": "ppt-wl-prov-1-workers"}, "count": 6},
            ],
        },
    }


def test_templates_carry_the_flavor_and_the_requests() -> None:
    template = make_template(initContainers=[{"name": "i", "resources": {"limits": {"cpu": "1"}}}])
    container = template["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", GPU: "1"}}
    template["metadata"]["labels"] = {"app": "x"}
    before = msgspec.json.encode(template)
    world = view(
        holding(workload=make_workload(template=template)),
        flavors={"default": flavor("default", gpu="a100")},
    )
    plan = decide(world)
    assert isinstance(plan, CreateRequest)
    (body,) = plan.content.templates
    spec = body["template"]["spec"]
    assert body["metadata"]["name"] == "ppt-wl-prov-1-main"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-wl"
    assert body["template"]["metadata"] == {"labels": {"app": "x"}}
    assert spec["nodeSelector"] == {"gpu": "a100"}
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", GPU: "1"}
    assert spec["initContainers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert msgspec.json.encode(template) == before


@pytest.mark.parametrize(
    ("flavors", "words"),
    [
        pytest.param({}, '"default" of pod set "main" does not exist', id="no flavor"),
        pytest.param(
            {"default": flavor("default", gpu="a100")},
            "conflict for nodeSelector: conflict for key=gpu, value1=h100, value2=a100",
            id="another node selector",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(flavors: dict[str, Any], words: str) -> None:
    template = make_template(nodeSelector={"gpu": "h100"})
    world = view(holding(workload=make_workload(template=template)), flavors=flavors)
    plan = decide(world)
    assert isinstance(plan, Refuse)
    assert words in plan.message


def test_templates_are_completed_and_given_to_their_request() -> None:
    asked = request(1)
    world = view(holding(), asked, template_owners={})
    plan = decide(world)
    assert isinstance(plan, RepairTemplates)
    assert plan.request == asked
    assert [t["metadata"]["name"] for t in plan.content.templates] == ["ppt-wl-prov-1-main"]
    assert decide(replace(world, template_owners=whole(asked))) == ProvisioningDone()
