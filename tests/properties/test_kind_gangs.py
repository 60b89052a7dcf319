"""No pod of any kind starts before all pod sets of its job have quota."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.v1beta2 import Admission, Workload
from multiqueue.api.workload_state import finish
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import JobPlan, WriteJob, WriteMembers
from multiqueue.jobs.framework.template_kind import TemplateKind
from tests.builders.workloads import admitted, evicted, make_workload, with_checks, with_status
from tests.fleet.objects import merge
from tests.job_kinds import EXAMPLES, KindExample
from tests.unit.jobs.job_views import T0, UID, make_view


def make_waiting(example: KindExample) -> dict[str, Any]:
    """A job as the API server has it, which waits for quota."""
    job = example.make()
    job["metadata"] |= {"uid": UID, "resourceVersion": "7", "annotations": {}}
    if example.row.kind == "Pod":
        job["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        job["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
        return example.read(job)
    integration = example.kind.integration
    if isinstance(integration, TemplateKind):
        return example.read(integration.set_suspended(job, value=True))
    job["spec"]["suspend"] = True
    return job


def lets_run(example: KindExample, job: dict[str, Any], plan: JobPlan) -> bool:
    """Whether pods may run once a plan is carried out."""
    if isinstance(plan, WriteMembers):
        return any(True for write in plan.writes for _ in write.steps)
    if not isinstance(plan, WriteJob):
        return False
    return not example.kind.integration.is_suspended(merge(job, plan.patch.patch))


@st.composite
def workloads(draw: st.DrawFn, pod_sets: tuple[Any, ...]) -> tuple[Workload, bool]:
    """A Workload in any state, and whether all of its pod sets have quota now."""
    own = make_workload(owner_uid=UID, pod_sets=pod_sets)
    names = draw(st.lists(st.sampled_from([each.name for each in pod_sets]), unique=True))
    whole = admitted(own)
    assert whole.status.admission is not None
    assignments = tuple(
        each for each in whole.status.admission.pod_set_assignments if each.name in names
    )
    state = draw(st.sampled_from(["pending", "reserved", "admitted", "evicted", "finished"]))
    if state == "pending":
        return own, False
    admission = Admission(cluster_queue="cq", pod_set_assignments=assignments)
    found = with_status(own, msgspec.structs.replace(whole.status, admission=admission))
    if state == "reserved":
        conditions = tuple(c for c in found.status.conditions if c.type != "Admitted")
        found = with_status(found, msgspec.structs.replace(found.status, conditions=conditions))
        check = draw(st.sampled_from(list(CheckState)))
        return with_checks(found, check=check), False
    if state == "evicted":
        return evicted(found), False
    if state == "finished":
        ended = finish(found.status, Reason.SUCCEEDED, "m", now=T0, generation=1)
        return with_status(found, ended), False
    return found, len(names) == len(pod_sets)


KINDS = [each for each in EXAMPLES if not each.row.implies_pods]
"""The others run through pods, which are a kind of their own."""


@pytest.mark.parametrize("example", KINDS, ids=lambda each: each.row.kind)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_job_starts_only_with_quota_for_all_its_pod_sets(
    example: KindExample, data: st.DataObject
) -> None:
    job = make_waiting(example)
    pod_sets = example.kind.integration.pod_sets(job)
    workload, whole = data.draw(workloads(tuple(pod_sets)))
    view = make_view(job, workload, integration=example.kind.integration)
    plan = decide(view)
    assert whole or not lets_run(example, job, plan)
    # Some kinds start with more than one write.
    assert (getattr(plan, "start_of", None) is not None) is whole
