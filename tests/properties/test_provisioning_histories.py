"""Provisioning over random histories: the rules come to rest, and never ask twice.

A little world stands in for the cluster: the autoscaler answers at random, checks that say Retry
send the Workload back to the queue, a manager takes any number of steps between two events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState, ProvisioningCondition, Reason
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.api.workload_checks import checks_in, find_check
from multiqueue.api.workload_state import (
    complete_eviction,
    evict,
    has_quota,
    is_admitted,
    is_evicted,
    reserve_quota,
    sync_admitted,
)
from multiqueue.controllers.provisioning.decide import decide
from multiqueue.controllers.provisioning.plan import (
    ChangeChecks,
    CreateRequest,
    DeleteRequests,
    ProvisioningDone,
    RepairTemplates,
)
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from tests.builders.workloads import T0, with_status
from tests.unit.controllers.provisioning.worlds import (
    CHECK,
    config,
    holding,
    request,
    retries,
    view,
    whole,
)

LIMIT = 2
MAX_STEPS = 8
"""A sync, a deletion, a creation, templates, and a sync again; twice over for good measure."""
EVENTS = st.sampled_from(
    [*ProvisioningCondition, "step", "settle", "preempt", "requeue", "edit", "lose", "delete"]
)


@dataclass
class Cluster:
    """What is stored, and what was done to it."""

    workload: Workload = field(default_factory=holding)
    requests: list[ProvisioningRequest] = field(default_factory=list)
    class_name: str | None = "a"
    cleanup: bool = True
    born: int = 0
    created: list[int] = field(default_factory=list)
    """Attempts since the Workload was reserved last, in order."""

    def view(self) -> ProvisioningView:
        spec = None
        if self.class_name is not None:
            spec = config(provisioning_class_name=self.class_name, **retries(limit=LIMIT))
        return view(
            self.workload,
            *self.requests,
            checks=(ProvisioningCheck(name=CHECK, config=spec),),
            cleanup=self.cleanup,
            template_owners=whole(*self.requests),
        )

    def write(self, status: WorkloadStatus) -> None:
        self.workload = with_status(self.workload, status)

    def step(self) -> bool:
        """Take one step of the manager; False: there was nothing to do."""
        seen = self.view()
        plan = decide(seen)
        assert _essence(plan) == _essence(
            decide(replace(seen, requests=tuple(reversed(seen.requests))))
        )
        match plan:
            case ProvisioningDone():
                return False
            case DeleteRequests():
                gone = {r.metadata.uid for r in plan.requests}
                self.requests = [r for r in self.requests if r.metadata.uid not in gone]
            case ChangeChecks():
                status = plan.change(seen)
                assert status != self.workload.status
                self.write(status)
            case CreateRequest():
                self._create(plan)
            case RepairTemplates():
                raise AssertionError("templates are whole")
        return True

    def _create(self, plan: CreateRequest) -> None:
        name = plan.content.request["metadata"]["name"]
        attempt = int(name.rpartition("-")[2])
        assert name not in {r.metadata.name for r in self.requests}
        assert find_check(self.workload.status, CHECK).state == CheckState.PENDING  # type: ignore[union-attr]
        assert has_quota(self.workload.status)
        assert not is_admitted(self.workload.status)
        assert attempt <= LIMIT + 1
        made = request(attempt, class_name=self.class_name or "")
        self.born += 1
        metadata = msgspec.structs.replace(made.metadata, uid=f"uid-{self.born}")
        self.requests.append(msgspec.structs.replace(made, metadata=metadata))

    def settle(self) -> None:
        for _ in range(MAX_STEPS):
            if not self.step():
                return
        raise AssertionError("it does not come to rest")

    def answer(self, condition: ProvisioningCondition) -> None:
        """The autoscaler says something about the newest request."""
        if not self.requests:
            return
        newest = self.requests[-1]
        others = tuple(c for c in newest.status.conditions if c.type != condition)
        said = Condition(type=condition, status="True", reason="R", message=f"{condition}!")
        status = msgspec.structs.replace(newest.status, conditions=(*others, said))
        self.requests[-1] = msgspec.structs.replace(newest, status=status)

    def evict(self) -> None:
        """Be preempted, or what the workload controller does about Retry and Rejected."""
        status = self.workload.status
        if not has_quota(status):
            return
        if not is_evicted(status):
            checked = checks_in(status, CheckState.RETRY) or checks_in(status, CheckState.REJECTED)
            reason = Reason.ADMISSION_CHECK if checked else Reason.PREEMPTED
            status = evict(status, reason, "go", now=T0)
        self.write(complete_eviction(status, now=T0))

    def reserve(self) -> None:
        if not has_quota(self.workload.status):
            admission = holding().status.admission
            assert admission is not None
            self.write(reserve_quota(self.workload.status, admission, now=T0))

    def happen(self, event: str) -> None:
        match event:
            case ProvisioningCondition():
                self.answer(event)
            case "step":
                self.step()
            case "settle":
                self.settle()
            case "preempt":
                self.evict()
            case "requeue":
                self.reserve()
            case "edit":
                self.class_name = "b" if self.class_name == "a" else "a"
            case "lose":
                self.class_name = None
            case "delete":
                self.requests = self.requests[:-1]


def _essence(plan: object) -> object:
    """What a plan is about, whatever the order of what was looked at."""
    if isinstance(plan, DeleteRequests):
        return {r.metadata.uid for r in plan.requests}
    if isinstance(plan, ChangeChecks):
        return ChangeChecks
    return plan


@given(st.lists(EVENTS, max_size=40), st.booleans())
@settings(max_examples=200)
def test_it_comes_to_rest_with_at_most_one_request(events: list[str], cleanup: bool) -> None:
    cluster = Cluster(cleanup=cleanup)
    for event in events:
        cluster.happen(event)
        retrying = checks_in(cluster.workload.status, CheckState.RETRY)
        if checks_in(cluster.workload.status, CheckState.REJECTED):
            return
        if retrying:
            cluster.evict()
    cluster.settle()
    status = cluster.workload.status
    if has_quota(status) and not is_evicted(status):
        assert len(cluster.requests) <= 1
    elif is_evicted(status) and cleanup:
        assert cluster.requests == []


@given(st.lists(EVENTS, max_size=30), st.booleans())
@settings(max_examples=100)
def test_capacity_that_comes_admits_whatever_went_before(events: list[str], cleanup: bool) -> None:
    cluster = Cluster(cleanup=cleanup)
    for event in events:
        cluster.happen(event)
        if checks_in(cluster.workload.status, CheckState.REJECTED):
            return
    cluster.class_name = "a"
    for _ in range(2 * LIMIT + 4):
        cluster.settle()
        if checks_in(cluster.workload.status, CheckState.REJECTED):
            return
        if checks_in(cluster.workload.status, CheckState.RETRY) or not has_quota(
            cluster.workload.status
        ):
            cluster.evict()
            cluster.settle()
            cluster.reserve()
            continue
        cluster.answer(ProvisioningCondition.PROVISIONED)
        cluster.settle()
        status = sync_admitted(cluster.workload.status, now=T0)
        if is_admitted(status):
            return
    raise AssertionError("never admitted")
