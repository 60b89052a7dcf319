"""Kinds that put their pods into groups, and the Workloads of these groups. Pure.

Parity: J-276 to J-288, J-296 to J-306. The Workload of a group is made from the object, before the
pods. The pods are stamped with its name, and then the rules of groups of pods take over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import PodSet, Workload, WorkloadStatus
from multiqueue.api.workload_state import has_quota, is_on_hold, release_quota, set_pending
from multiqueue.jobs.framework.compose import (
    build_pod_set,
    build_priority,
    compose_workload,
    workload_class,
)
from multiqueue.jobs.framework.integration import InvalidJobError, Job
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    DeleteWorkload,
    EventNote,
    JobPlan,
    PatchWorkload,
    Wait,
)
from multiqueue.jobs.framework.priority import PriorityClassNotFoundError, resolve_priority
from multiqueue.jobs.framework.rules.following import remove_gates
from multiqueue.jobs.framework.rules.holding import end_hold
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.pod.pods import Pod, gates_of, is_terminated, is_terminating
from multiqueue.jobs.pod_owners.kind import PodOwnerKind
from multiqueue.jobs.workload_wire import diff

OFF_HOLD = "Workload no longer on hold; waiting for quota reservation"
OUR_GATES = frozenset({names.ADMISSION_GATE, names.TOPOLOGY_GATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """One group of pods that an object makes.

    Attributes:
        workload: The name of its Workload.
        pod_sets: What its pods request.
        index: The position of the group, if the object has several.
    """

    workload: str
    pod_sets: tuple[PodSet, ...]
    index: int | None = None


class GroupOwnerKind(PodOwnerKind):
    """A kind that puts its pods into groups."""

    def groups(self, job: Job, limit: int) -> Sequence[PodGroup]:
        """Return the groups that the object is to have.

        Args:
            job: The object.
            limit: The longest allowed name of a Workload.

        Raises:
            InvalidJobError: a template is invalid.
        """
        raise NotImplementedError

    def owner_name(self, pod: Pod) -> str:
        """Return the name of the object that a pod belongs to, or an empty string."""
        raise NotImplementedError

    def pods_by(self, job: Job) -> tuple[str, str]:
        """Return the index of pods, and the value in it, that finds the pods of an object."""
        raise NotImplementedError

    def stamp(self, job: Job, pod: Pod, limit: int) -> Pod:
        """Return a pod with the labels and annotations that put it into its group."""
        raise NotImplementedError

    def parent_set(self, job: Job, pod: Pod) -> Job | str:
        """Return the StatefulSet that controls a pod, or the name of one that must be read."""
        raise NotImplementedError


def origin_uid(job: Job) -> str:
    """Return the uid that names are made from; on a worker, that of the original (J-313)."""
    annotations = job["metadata"].get("annotations") or {}
    return str(annotations.get(names.MULTIKUEUE_ORIGIN_UID) or job["metadata"]["uid"])


def is_copy(job: Job) -> bool:
    """Whether the object is a manager's copy, whose Workloads the manager makes (J-314)."""
    return bool((job["metadata"].get("labels") or {}).get(names.MULTIKUEUE_ORIGIN))


def is_followed(view: JobView) -> bool:
    """Whether the object is queued here (J-22, J-278)."""
    options = view.options
    return bool(view.queue or options.manage_all) and options.namespaces.matches(
        view.namespace_labels
    )


# ---------------------------------------------------------------- Workloads


def decide_workloads(view: JobView, kind: GroupOwnerKind) -> JobPlan | None:
    """Return the next step for the Workloads of an object; None if they are as they should be."""
    if is_copy(view.job):
        return None
    try:
        return _decide(view, kind)
    except InvalidJobError as error:
        return Wait(note=EventNote(reason="ErrWorkloadCompose", message=str(error), warning=True))
    except PriorityClassNotFoundError as error:
        return Wait(
            note=EventNote(reason="WorkloadPriorityClassNotFound", message=str(error), warning=True)
        )


def _decide(view: JobView, kind: GroupOwnerKind) -> JobPlan | None:
    wanted = {group.workload: group for group in kind.groups(view.job, view.options.name_limit)}
    known = {workload.metadata.name: workload for workload in view.workloads}
    for name, group in wanted.items():
        workload = known.get(name)
        if workload is None:
            if not kind.on_hold(view.job):
                return CreateJobWorkload(body=_compose(view, kind, group))
        elif not workload.metadata.deletion_timestamp:
            plan = _follow(view, kind, group, workload)
            if plan is not None:
                return plan
    for name, workload in known.items():
        if name not in wanted and not workload.metadata.deletion_timestamp:
            return DeleteWorkload(workload=workload)
    return None


def _compose(view: JobView, kind: GroupOwnerKind, group: PodGroup) -> dict[str, Any]:
    """Return the Workload of a group (J-277, J-296); it has no finalizer, as its pods have none."""
    job = view.job
    priority = resolve_priority(workload_class(job), kind.priority_class(job), view.classes)
    body = compose_workload(
        job,
        kind.gvk,
        group.pod_sets,
        priority,
        label_keys=view.options.label_keys,
        more_labels=view.chargeback_labels,
    )
    metadata = body["metadata"]
    del metadata["finalizers"]
    owner = metadata["ownerReferences"][0]
    del owner["controller"], owner["blockOwnerDeletion"]
    metadata["name"] = group.workload
    metadata["annotations"] |= {
        names.IS_GROUP_WORKLOAD: "true",
        names.JOB_OWNER_GVK: str(kind.gvk),
        names.JOB_OWNER_NAME: job["metadata"]["name"],
    }
    if group.index is not None:
        metadata["annotations"][names.COMPONENT_WORKLOAD_INDEX] = str(group.index)
    return body


def _follow(
    view: JobView, kind: GroupOwnerKind, group: PodGroup, workload: Workload
) -> JobPlan | None:
    """Bring one Workload in line with the object (J-282 to J-287, J-302).

    Deviates: the queue name is written only while no quota is reserved in the first queue, as for
    every kind. Upstream tries earlier, and the definition of Workloads refuses that.
    """
    ungated = remove_gates(view, workload)
    if ungated is not None:
        return ungated
    resized = [p.count for p in workload.spec.pod_sets] != [p.count for p in group.pod_sets]
    reserved = has_quota(workload.status)
    if kind.on_hold(view.job) or (resized and reserved):
        return None if is_on_hold(workload.status) else _hold(view, kind, workload)
    spec: dict[str, Any] = {}
    if resized:
        spec["podSets"] = [build_pod_set(pod_set) for pod_set in group.pod_sets]
    if not reserved and view.queue != workload.spec.queue_name:
        spec["queueName"] = view.queue
    spec |= _changed_priority(view, kind, workload)
    if spec:
        note = EventNote(
            reason="UpdatedWorkload", message=f"Updated Workload: {workload.metadata.key}"
        )
        return PatchWorkload(
            workload=workload,
            patch={"spec": spec},
            note=note if "priorityClassRef" in spec else None,
        )
    return end_hold(view, workload, OFF_HOLD) if is_on_hold(workload.status) else None


def _changed_priority(view: JobView, kind: GroupOwnerKind, workload: Workload) -> dict[str, Any]:
    name, reference = workload_class(view.job), workload.spec.priority_class_ref
    if not name or (reference is not None and reference.name == name):
        return {}
    return build_priority(resolve_priority(name, kind.priority_class(view.job), view.classes))


def _hold(view: JobView, kind: GroupOwnerKind, workload: Workload) -> JobPlan:
    """Take a Workload out of the queue, with or without quota (J-283)."""
    message = f"{kind.gvk.kind} scaled to zero; workload on hold"

    def change(newest: Workload) -> WorkloadStatus:
        write = release_quota if has_quota(newest.status) else set_pending
        return write(
            newest.status,
            reason=Reason.ON_HOLD,
            message=message,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=workload, change=change)


# ---------------------------------------------------------------- pods


def is_to_stamp(pod: Pod) -> bool:
    """Whether a pod may still take part in its group."""
    return not (is_terminated(pod) or is_terminating(pod))


def is_old_revision(parent: Mapping[str, Any], pod: Pod) -> bool:
    """Whether a rollout is about to replace a pod; it must not wait at its gates (J-289, J-307)."""
    status = parent.get("status") or {}
    current, update = status.get("currentRevision"), status.get("updateRevision")
    revision = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    return bool(current and update and current != update and revision == current)


def pod_patch(pod: Pod, stamped: Pod, *, ungated: bool) -> dict[str, Any]:
    """Return the merge patch from a pod to what it should be; empty if it is that already."""
    metadata = diff(pod["metadata"], stamped["metadata"])
    patch: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if ungated and OUR_GATES & set(gates_of(pod)):
        gates = pod["spec"]["schedulingGates"]
        left = [gate for gate in gates if gate["name"] not in OUR_GATES]
        patch["spec"] = {"schedulingGates": left or None}
    return patch
