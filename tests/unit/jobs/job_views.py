"""Views of jobs for tests of the rules."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import (
    ObjectMeta,
    PriorityClassRef,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.framework.plan import ChangeStatus, JobPlan, WriteJob
from multiqueue.jobs.framework.priority import PriorityClasses
from multiqueue.jobs.framework.view import JobOptions, JobView
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE, T0, make_workload, with_status

UID = "job-uid"
JOB = BatchJob()
FLAVOR = ResourceFlavor(metadata=ObjectMeta(name="default"))
HIGH = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=100)
CLASSES = PriorityClasses(
    find_workload_class={"high": HIGH}.get, find_pod_class={}.get, list_pod_classes=list
)


def stored_job(*, deleted: bool = False, status: dict[str, Any] | None = None, **what: Any) -> Any:
    """A job as the API server gives it back."""
    job = make_job(**what)
    job["metadata"].update(uid=UID, resourceVersion="7")
    if deleted:
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**job, "status": status or {}}


def own_workload(job: dict[str, Any], **what: Any) -> Workload:
    """The Workload of that job, pending."""
    pod_set = JOB.pod_sets(job)[0]
    return make_workload(owner_uid=UID, pod_sets=(pod_set,), **what)


def make_view(job: dict[str, Any], *workloads: Workload, **what: Any) -> JobView:
    config = what.pop("config", Configuration())
    defaults: dict[str, Any] = {
        "namespace_labels": {"kubernetes.io/metadata.name": NAMESPACE},
        "options": JobOptions.from_config(config),
        "classes": CLASSES,
        "find_flavor": {"default": FLAVOR}.get,
        "now": T0,
    }
    defaults["integration"] = JOB
    return JobView(job=job, workloads=workloads, **{**defaults, **what})


def released(workload: Workload) -> Workload:
    """The Workload without our finalizer."""
    metadata = msgspec.structs.replace(workload.metadata, finalizers=("other",))
    return msgspec.structs.replace(workload, metadata=metadata)


def with_class(
    workload: Workload, name: str, kind: str = "WorkloadPriorityClass", value: int = 100
) -> Workload:
    """The Workload with the priority of a class."""
    group = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    reference = PriorityClassRef(group=group, kind=kind, name=name)
    spec = msgspec.structs.replace(workload.spec, priority=value, priority_class_ref=reference)
    return msgspec.structs.replace(workload, spec=spec)


def note_of(plan: JobPlan) -> tuple[str, str]:
    note = getattr(plan, "note", None)
    assert note is not None
    return (note.reason, note.message)


def suspends(plan: JobPlan) -> bool:
    return isinstance(plan, WriteJob) and plan.patch.patch.get("spec", {}).get("suspend") is True


def status_after(plan: JobPlan) -> Workload:
    assert isinstance(plan, ChangeStatus)
    return with_status(plan.workload, plan.change(plan.workload))


def started(job: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**job, "spec": {**job["spec"], "suspend": False}, "status": status}
