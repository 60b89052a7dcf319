"""Pods and groups of pods as a queued kind. Pure. Parity: J-208..J-262.

A group is one job made of its pods (`members_of`); a pod without a group is a group of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from multiqueue.api import names
from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.v1beta2 import Condition, PodSet, ReclaimablePod, Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import is_finished
from multiqueue.jobs.framework.compose import MAX_POD_SETS, max_execution_seconds
from multiqueue.jobs.framework.decide import Rule
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import (
    Finished,
    IntegrationDefaults,
    InvalidJobError,
    Job,
    JobPatch,
    MemberAction,
    MemberWrite,
    MemberWrites,
    PodSetInfo,
)
from multiqueue.jobs.framework.pod_set_info import apply_info
from multiqueue.jobs.framework.template_kind import find_condition
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.jobs.pod import rules
from multiqueue.jobs.pod.pods import (
    Pod,
    ends_at,
    gates_of,
    group_name,
    is_active_member,
    is_fast,
    is_gated,
    is_group,
    is_held,
    is_ready,
    is_retriable,
    is_serving,
    is_terminated,
    is_terminating,
    labels_of,
    members_of,
    phase,
    role_of,
    total_count,
)
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.resources import Resource, resource_of

TERMINATION_TARGET = "TerminationTarget"
"""Condition of a pod that is deleted because its Workload must not run."""


class PodKind(IntegrationDefaults):
    """The integration ``pod``."""

    is_composed: ClassVar[bool] = True
    early_rules: ClassVar[Sequence[Rule]] = rules.EARLY
    member_rules: ClassVar[Sequence[Rule]] = rules.ABOUT_MEMBERS
    late_rules: ClassVar[Sequence[Rule]] = rules.LATE

    def __init__(self, row: KnownKind) -> None:
        self.name = row.framework
        self.resource: Resource = resource_of(row.api_version, row.plural, row.kind)
        self.gvk = GroupVersionKind(row.group, row.version, row.kind)

    # ------------------------------------------------------------ state

    def is_suspended(self, job: Job) -> bool:
        """Whether a pod waits at its gate, or none is left that could run.

        The pods of a serving group that ended are to be replaced, so the group is not suspended.

        Deviates: upstream also counts a terminated pod (J-253), which delays the stop of others.
        """
        left = [pod for pod in members_of(job) if not is_terminating(pod)]
        alive = [pod for pod in left if not is_terminated(pod)]
        if left and not alive and is_serving(job):
            return False
        return not alive or any(is_gated(pod) for pod in alive)

    def is_top_level(self, job: Job) -> bool:
        """Return True: the webhook has looked for an owner that manages the pod (J-28)."""
        return True

    def finished(self, job: Job) -> Finished | None:
        """Return the end of a pod, or of a group (J-220, J-254); a serving group has none."""
        if is_serving(job):
            return None
        pods = members_of(job)
        if not is_group(job):
            if not is_terminated(job):
                return None
            message = str(get_field(job, ("status", "message")) or "")
            return Finished(success=phase(job) == "Succeeded", message=message)
        try:
            total = total_count(job)
        except InvalidJobError:
            return None
        succeeded = sum(phase(pod) == "Succeeded" for pod in pods)
        is_final = all(map(is_terminated, pods)) and not all(map(is_retriable, pods))
        if succeeded != total and not is_final:
            return None
        # As upstream, a group that failed for good counts as succeeded; its message tells.
        return Finished(success=True, message=f"Pods succeeded: {succeeded}/{total}.")

    def is_active(self, job: Job) -> bool:
        """Whether a pod runs."""
        return any(phase(pod) == "Running" for pod in members_of(job))

    def overdue_at(self, job: Job) -> datetime | None:
        """Return when the last running pod is to have ended; None if one is not to end."""
        ends = [ends_at(pod) for pod in members_of(job) if phase(pod) == "Running"]
        known = [end for end in ends if end is not None]
        return max(known, default=None) if len(known) == len(ends) else None

    def pods_ready(self, job: Job) -> bool:
        """Whether all pods are there and are ready; a pod that ended is not (J-256)."""
        pods = members_of(job)
        try:
            wanted = total_count(job) if is_group(job) else 1
        except InvalidJobError:
            return False
        return len(pods) >= wanted and all(map(is_ready, pods))

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return the pods of a group that succeeded, by role (J-258)."""
        if not is_group(job) or is_serving(job):
            return ()
        done = Counter(role_of(pod) for pod in members_of(job) if phase(pod) == "Succeeded")
        return tuple(ReclaimablePod(name=role, count=done[role]) for role in sorted(done))

    def priority_class(self, job: Job) -> str:
        """Return the first priority class that a pod names."""
        classes = (get_field(pod, ("spec", "priorityClassName")) for pod in members_of(job))
        return next((str(name) for name in classes if name), "")

    def pod_selector(self, job: Job) -> str:
        """The label of all pods that are queued; they need not have another one in common."""
        return f"{names.MANAGED}=true"

    def template_path(self, job: Job, position: int) -> str:
        """A pod is its own template."""
        return ""

    def managed_by(self, job: Job) -> str:
        """Return "": a pod does not say who runs it."""
        return ""

    def more_conditions(self, job: Job, workload: Workload) -> tuple[Condition, ...]:
        """Say whether a group lacks pods; its Workload is not queued meanwhile (J-249)."""
        return rules.replacement_conditions(job, workload)

    def follows_queue(self, job: Job) -> bool:
        """Whether the label decides: the owner of a serving group writes its Workload (J-260)."""
        return not is_serving(job)

    # ------------------------------------------------------------ the Workload

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return one pod set, or one for each role of a group (J-214, J-242, J-246).

        Raises:
            InvalidJobError: the group has too many roles, or no pod that could run.
        """
        if not is_group(job):
            return (_pod_set(job, names.DEFAULT_PODSET, 1),)
        active = [pod for pod in members_of(job) if is_active_member(pod)]
        if not active:
            raise InvalidJobError("failed to find a runnable pod in the group")
        if is_fast(job):
            return (_pod_set(active[0], role_of(active[0]), total_count(job)),)
        counts = Counter(map(role_of, active))
        if len(counts) > MAX_POD_SETS:
            raise InvalidJobError(
                f"pod group can't include more than {MAX_POD_SETS} roles, this one has"
                f" {len(counts)}; pods of one role are equal in all that their scheduling needs"
            )
        first = {role_of(pod): pod for pod in reversed(active)}
        return tuple(_pod_set(first[role], role, counts[role]) for role in sorted(counts))

    def complete_workload(
        self, job: Job, body: dict[str, Any], label_keys: Sequence[str]
    ) -> dict[str, Any]:
        """Give the Workload of a group its name, and all pods as owners (J-238).

        Raises:
            InvalidJobError: the pods have different values of a label to copy (J-244).
        """
        if not is_group(job):
            return body
        pods, metadata = members_of(job), body["metadata"]
        labels = {key: value for key, value in metadata["labels"].items() if key != names.JOB_UID}
        for pod in pods:
            for key, value in labels_of(pod).items():
                if key in label_keys and labels.setdefault(key, value) != value:
                    raise InvalidJobError(
                        f'the pods of the group have different values of label {key}: "{value}"'
                        f' and "{labels[key]}"; give them the same one'
                    )
        return {
            **body,
            "metadata": {
                **metadata,
                "name": group_name(job),
                "labels": labels,
                "annotations": {**metadata["annotations"], names.IS_GROUP_WORKLOAD: "true"},
                "ownerReferences": [rules.member_reference(pod) for pod in pods],
            },
        }

    def matches(self, job: Job, workload: Workload) -> bool | None:
        """Whether the Workload of a group has room for the roles of its pods.

        Pods of other roles do not count: they are reported. A single pod is compared as usual.
        """
        if not is_group(job):
            return None
        if workload.spec.maximum_execution_time_seconds != max_execution_seconds(job):
            return False
        sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        counts = Counter(role_of(pod) for pod in members_of(job) if is_active_member(pod))
        if rules.is_prebuilt(job) and not is_finished(workload.status):
            return all(sizes.get(role, 0) >= count for role, count in counts.items())
        return any(role_of(pod) in sizes for pod in members_of(job))

    # ------------------------------------------------------------ starting and stopping

    def start_writes(self, job: Job, infos: Sequence[PodSetInfo]) -> MemberWrites:
        """Return the writes that let the gated pods be scheduled (J-216, J-252).

        Raises:
            InvalidJobError: a prebuilt Workload lacks the role of a pod (J-251).
            StartConflictError: a field to add contradicts a pod.
        """
        by_role = {info.name: info for info in infos}
        writes = []
        for pod in members_of(job):
            if not is_gated(pod) or is_terminated(pod) or is_terminating(pod):
                continue
            role = role_of(pod) if is_group(job) else infos[0].name
            info = by_role.get(role)
            if info is not None:
                patch = JobPatch(patch=diff(pod, _ungated(pod, info)))
                writes.append(MemberWrite(member=pod, steps=(patch,)))
            elif rules.is_prebuilt(job):
                raise InvalidJobError(f"podSetInfo with the name '{role}' is not found")
        return writes

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Not used: the pods of a group are written one by one."""
        raise NotImplementedError

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Not used: pods that must not run are deleted."""
        raise NotImplementedError

    def stop_writes(self, job: Job, reason: str, message: str, now: datetime) -> MemberWrites:
        """Return the writes that delete running pods; all pods if their Workload is deleted."""
        is_deleted = reason == "WorkloadDeleted"
        condition = {
            "type": TERMINATION_TARGET,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(now),
        }
        mark = JobPatch(patch={"status": {"conditions": [condition]}}, subresource="status")
        writes = []
        for pod in members_of(job):
            if is_terminating(pod):
                if is_deleted and is_group(job) and is_held(pod):
                    writes.append(MemberWrite(member=pod, steps=(MemberAction.RELEASE,)))
            elif is_deleted or not (is_gated(pod) or is_terminated(pod)):
                known = find_condition(pod, TERMINATION_TARGET) is not None
                marked = () if known else (mark,)
                released = (MemberAction.RELEASE,) if is_deleted and is_held(pod) else ()
                steps = (*marked, MemberAction.DELETE, *released)
                writes.append(MemberWrite(member=pod, steps=steps, repeats=known))
        return writes


def _pod_set(pod: Pod, name: str, count: int) -> PodSet:
    request = build_topology_request(pod, pod_index_label=names.POD_GROUP_POD_INDEX)
    return PodSet(
        name=name,
        count=count,
        template={"spec": pod.get("spec") or {}},
        topology_request=request,
    )


def _ungated(pod: Pod, info: PodSetInfo) -> Pod:
    """Return the pod with the fields of its admission, and without its gates (J-216)."""
    # A gate cannot be added to a pod that exists.
    gates = set(gates_of(pod)) - {names.ADMISSION_GATE}
    if names.TOPOLOGY_GATE not in info.scheduling_gates:
        gates -= {names.TOPOLOGY_GATE}
    started = apply_info(pod, replace(info, scheduling_gates=()))
    kept = [gate for gate in get_field(pod, ("spec", "schedulingGates")) if gate["name"] in gates]
    return {**started, "spec": {**started["spec"], "schedulingGates": kept}}
