"""Rules about the pods of a group: too many, too few, replaced, released. Pure.

Parity: J-224, J-239, J-243 to J-250, J-261, J-262.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import Condition, Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import find, is_evicted, is_finished
from multiqueue.jobs.framework.compose import queue_name
from multiqueue.jobs.framework.integration import (
    InvalidJobError,
    Job,
    MemberAction,
    MemberWrite,
)
from multiqueue.jobs.framework.job_source import prebuilt_name
from multiqueue.jobs.framework.plan import (
    EventNote,
    JobPlan,
    PatchWorkload,
    Wait,
    WriteMembers,
)
from multiqueue.jobs.framework.rules.ending import NEVER_RAN
from multiqueue.jobs.framework.view import JobView
from multiqueue.jobs.pod.pods import (
    Pod,
    by_last_activity,
    by_worth,
    created_at,
    group_name,
    is_active_member,
    is_fast,
    is_gated,
    is_group,
    is_held,
    is_terminating,
    labels_of,
    members_of,
    phase,
    role_of,
    total_count,
)
from multiqueue.lib.digits import is_number

INCOMPLETE = timedelta(seconds=2)
"""The pods of a group are created one after the other: fewer than expected are reported later."""
INCONSISTENT = timedelta(seconds=10)
"""The labels of pods are changed one after the other, too."""


def is_prebuilt(job: Job) -> bool:
    """Whether the Workload was made before the pods, by whoever makes the pods, too (J-237)."""
    return bool(prebuilt_name(job))


def member_reference(pod: Pod) -> dict[str, Any]:
    """Return the owner reference to a pod of a group."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


# ---------------------------------------------------------------- before all others


def release_deleted_pod(view: JobView) -> JobPlan | None:
    """Release a deleted pod without a group once its Workload is released and it has ended."""
    if is_group(view.job) or not is_terminating(view.job):
        return None
    if any(names.RESOURCE_IN_USE in w.metadata.finalizers for w in view.workloads):
        overdue_at = view.integration.overdue_at(view.job)
        is_running = view.integration.is_active(view.job) and overdue_at is not None
        if is_running and overdue_at is not None and overdue_at > view.now:
            return Wait(requeue_after=(overdue_at - view.now).total_seconds())
        return None
    return _release([view.job])


def refuse_foreign(view: JobView) -> JobPlan | None:
    """Leave a Workload alone that has the group's name but is not that of a group (J-239)."""
    if not is_group(view.job) or is_prebuilt(view.job) or not view.workloads:
        return None
    workload = view.workloads[0]
    if workload.metadata.annotations.get(names.IS_GROUP_WORKLOAD) == "true":
        return None
    released = _release([pod for pod in members_of(view.job) if not is_active_member(pod)])
    message = (
        f'A Workload named "{workload.metadata.name}" already exists but is not a pod group '
        "workload; this pod group cannot be admitted"
    )
    return released or Wait(
        note=EventNote(reason="WorkloadNameConflict", message=message, warning=True)
    )


def release_abandoned(view: JobView) -> JobPlan | None:
    """Release the deleted pods of a group whose prebuilt Workload is gone; no other rule does.

    A manager may delete the Workload on a worker before the pods that were stopped are released.
    """
    if not is_group(view.job) or not is_prebuilt(view.job) or view.prebuilt is not None:
        return None
    return _release(filter(is_terminating, members_of(view.job)))


# ---------------------------------------------------------------- with a Workload


def release_ended(view: JobView) -> JobPlan | None:
    """Release all pods of a job that ended (J-224)."""
    workload = view.workload
    if workload is None:
        return _release(members_of(view.job)) if view.ended else None
    if not is_finished(workload.status):
        return None
    finished = find(workload.status, WorkloadCondition.FINISHED)
    if finished is not None and finished.reason in NEVER_RAN:
        return None
    # The Workload comes first: nothing is known of a group whose failed pods were released.
    is_held = names.RESOURCE_IN_USE in workload.metadata.finalizers
    return None if is_held else _release(members_of(view.job))


def own_by_all(view: JobView) -> JobPlan | None:
    """Make every pod of a group an owner of the Workload (J-262).

    A pod takes the place of an earlier one of its name.
    """
    workload = _to_keep(view)
    if workload is None:
        return None
    known = {owner.uid for owner in workload.metadata.owner_references}
    missing = [pod for pod in _kept(view.job, workload) if pod["metadata"]["uid"] not in known]
    if not missing:
        return None
    added = {pod["metadata"]["name"] for pod in missing}
    others = (
        owner
        for owner in workload.metadata.owner_references
        if owner.kind != "Pod" or owner.name not in added
    )
    references = [*map(encode, others), *map(member_reference, missing)]
    return PatchWorkload(
        workload=workload,
        patch={"metadata": {"ownerReferences": references}},
        note=EventNote(
            reason="OwnerReferencesAdded",
            message=f"Added {len(missing)} owner reference(s)",
            on_workload=True,
        ),
    )


def delete_excess(view: JobView) -> JobPlan | None:
    """Delete the pods of a role beyond those that it was admitted with (J-248)."""
    workload = _to_keep(view)
    if workload is None or is_prebuilt(view.job):
        return None
    return _delete_excess(
        pod
        for pod_set in workload.spec.pod_sets
        for pod in _active(view.job, pod_set.name)[pod_set.count :]
    )


def release_replaced(view: JobView) -> JobPlan | None:
    """Release failed and deleted pods whose replacements exist (J-247)."""
    workload = _to_keep(view)
    if workload is None or is_prebuilt(view.job):
        return None
    kept = {pod["metadata"]["uid"] for pod in _kept(view.job, workload)}
    roles = {pod_set.name for pod_set in workload.spec.pod_sets}
    return _release(
        pod
        for pod in members_of(view.job)
        if role_of(pod) in roles
        and not is_active_member(pod)
        and pod["metadata"]["uid"] not in kept
    )


def replacement_conditions(job: Job, workload: Workload) -> tuple[Condition, ...]:
    """Return the condition that says whether pods of a group are missing (J-249)."""
    if not is_group(job) or is_prebuilt(job):
        return ()
    type_ = WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS
    missing = sum(_missing(job, each.name, each.count) for each in workload.spec.pod_sets)
    known = find(workload.status, type_)
    if not missing:
        message = "No pods need replacement"
        done = Condition(type=type_, status="False", reason="PodsReady", message=message)
        return () if known is None else (done,)
    evicted = find(workload.status, WorkloadCondition.EVICTED)
    reason, message = "PodsFailed", "Some Failed pods need replacement"
    if evicted is not None and is_evicted(workload.status):
        reason, message = evicted.reason, evicted.message
    elif known is not None and known.status == "True":
        reason, message = known.reason, known.message
    return (Condition(type=type_, status="True", reason=reason, message=message),)


# ---------------------------------------------------------------- without a Workload


def gather(view: JobView) -> JobPlan | None:
    """Wait until all pods of a group are there and agree; delete those beyond its size.

    Raises:
        InvalidJobError: the pods do not make a group yet (J-243 to J-245).
    """
    job = view.job
    is_new = view.workload is None and view.matching.update is None
    if not is_new or not is_group(job) or is_prebuilt(job) or view.ended:
        return None
    released = _release([pod for pod in members_of(job) if not is_active_member(pod)])
    if released is not None:
        return released
    active = sorted(filter(is_active_member, members_of(job)), key=by_worth)
    total = total_count(job)
    _refuse_incomplete(job, active, total)
    _refuse_different(job, total)
    _refuse_index(job, total)
    return _delete_excess(active[total:])


def _refuse_incomplete(job: Job, active: list[Pod], total: int) -> None:
    if len(active) < (1 if is_fast(job) else total):
        raise InvalidJobError(
            f"'{group_name(job)}' group has fewer runnable pods than expected",
            reported_at=_youngest_at(job, INCOMPLETE),
        )


def _refuse_different(job: Job, total: int) -> None:
    name = job["metadata"]["name"]
    for pod in members_of(job):
        other = pod["metadata"]["name"]
        if phase(pod) == "Failed":
            continue
        if queue_name(pod) != queue_name(job):
            raise InvalidJobError(
                f"pods '{name}' and '{other}' has different queue names:"
                f" {queue_name(job)}!={queue_name(pod)}",
                reported_at=_youngest_at(job, INCONSISTENT),
            )
        if total_count(pod) != total:
            raise InvalidJobError(
                f"pods '{name}' and '{other}' has different '{names.POD_GROUP_TOTAL_COUNT}' values:"
                f" {total}!={total_count(pod)}",
                reported_at=_youngest_at(job, INCONSISTENT),
            )


def _refuse_index(job: Job, total: int) -> None:
    index = labels_of(job).get(names.POD_GROUP_POD_INDEX)
    if index is not None and (not is_number(index) or int(index) >= total):
        raise InvalidJobError(
            f'pod "{job["metadata"]["name"]}": label {names.POD_GROUP_POD_INDEX} "{index}" is not'
            f" a number from 0 to {total - 1}"
        )


def _youngest_at(job: Job, after: timedelta) -> datetime | None:
    newest = parse_time(max(map(created_at, members_of(job))))
    return None if newest is None else newest + after


def report_unknown_roles(view: JobView) -> JobPlan | None:
    """Name a pod that waits although its role is not in the admitted Workload (J-250)."""
    workload = _to_keep(view)
    if workload is None or is_prebuilt(view.job):
        return None
    known = {pod_set.name for pod_set in workload.spec.pod_sets}
    waiting = [
        pod
        for pod in members_of(view.job)
        if role_of(pod) not in known and is_gated(pod) and is_active_member(pod)
    ]
    if not waiting:
        return None
    name = waiting[0]["metadata"]["name"]
    message = (
        f'pod "{name}" differs from the pods that the group was admitted with, so it does not '
        "start; delete it and create it with the resources of another pod of the group"
    )
    return Wait(note=EventNote(reason="ErrWorkloadCompose", message=message, warning=True))


# ---------------------------------------------------------------- shared


def _to_keep(view: JobView) -> Workload | None:
    """Return the Workload of a group whose pods are kept in line with it."""
    workload = view.workload
    if workload is None or not is_group(view.job) or is_finished(workload.status):
        return None
    return None if workload.metadata.deletion_timestamp else workload


def _active(job: Job, role: str) -> list[Pod]:
    """Return the active pods of a role; those to keep come first."""
    pods = (pod for pod in members_of(job) if role_of(pod) == role and is_active_member(pod))
    return sorted(pods, key=by_worth)


def _kept(job: Job, workload: Workload) -> list[Pod]:
    """Return the pods that stay: active ones, and inactive ones without a replacement (J-247)."""
    if is_prebuilt(job):
        return list(members_of(job))
    kept: list[Pod] = []
    for pod_set in workload.spec.pod_sets:
        active = _active(job, pod_set.name)[: pod_set.count]
        # Newest first: of pods that were active last at the same time, older ones stay.
        inactive = [
            pod
            for pod in reversed(members_of(job))
            if role_of(pod) == pod_set.name and not is_active_member(pod)
        ]
        lacking = pod_set.count - len(active)
        latest_last = sorted(inactive, key=by_last_activity)
        kept += active + latest_last[max(0, len(inactive) - lacking) :]
    return kept


def _missing(job: Job, role: str, count: int) -> int:
    active = len(_active(job, role))
    if is_fast(job):
        return 1 if count and not active else 0
    return max(0, count - active)


def _release(pods: Iterable[Pod]) -> JobPlan | None:
    held = [pod for pod in pods if is_held(pod)]
    if not held:
        return None
    return WriteMembers(
        writes=[MemberWrite(member=pod, steps=(MemberAction.RELEASE,)) for pod in held]
    )


def _delete_excess(pods: Iterable[Pod]) -> JobPlan | None:
    writes = [
        MemberWrite(
            member=pod,
            steps=(MemberAction.DELETE, *((MemberAction.RELEASE,) if is_held(pod) else ())),
        )
        for pod in pods
        if not is_terminating(pod)
    ]
    if not writes:
        return None
    return WriteMembers(
        writes=writes, note=EventNote(reason="ExcessPodDeleted", message="Excess pod deleted")
    )


EARLY = (release_deleted_pod, refuse_foreign, release_abandoned)
ABOUT_MEMBERS = (
    release_ended,
    delete_excess,
    own_by_all,
    release_replaced,
    gather,
)
LATE = (report_unknown_roles,)
