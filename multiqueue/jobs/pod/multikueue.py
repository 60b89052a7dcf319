"""Pods and groups of pods on a worker: one copy for each pod. Pure. Parity: M-141, M-142, J-229.

The pods on the manager stay gated for ever. Deviates: a pod whose run on a worker was stopped is
pending again; upstream leaves the last status of that run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from multiqueue.jobs.framework.copy_adapter import GONE_REASON, copy_object
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.multikueue import NO_PODS, AdapterDefaults, StatusSync
from multiqueue.jobs.pod.integration import PodKind
from multiqueue.jobs.pod.pods import (
    Pod,
    gather_group,
    group_name,
    is_gated,
    is_group,
    is_terminated,
    is_terminating,
    members_of,
    phase,
)
from multiqueue.jobs.workload_wire import diff

SCHEDULED = "PodScheduled"
PENDING = "Pending"


class PodAdapter(AdapterDefaults):
    """The MultiKueue adapter of ``pod``.

    Args:
        kind: The integration of pods.
    """

    def __init__(self, kind: PodKind) -> None:
        self.gvk = kind.gvk
        self.resource = kind.resource

    def refusal(self, job: Job) -> None:
        """Return None: the queue alone decides where a pod runs (J-229)."""

    def gather(self, objects: Sequence[Job]) -> Job:
        """Return the group that the pods on a worker make, or the only pod."""
        first = objects[0]
        group = gather_group(objects) if group_name(first) else None
        if group is None or all(map(is_terminating, members_of(group))):
            return first
        return group

    def pair(self, local: Job, remote: Job) -> Sequence[tuple[Job, Job | None]]:
        """Return each pod here with its copy; pods that are being deleted are left out (J-231).

        A pod that ended gets no second copy.
        """
        if not is_group(local):
            return ((local, remote or None),)
        copies = {pod["metadata"]["name"]: pod for pod in members_of(remote)} if remote else {}
        pairs = [(pod, copies.get(pod["metadata"]["name"])) for pod in members_of(local)]
        return [
            (pod, copy)
            for pod, copy in pairs
            if not is_terminating(pod) and (copy is not None or not is_terminated(pod))
        ]

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy one pod, gates included; the worker lets it go (J-229).

        The token volume that the manager's API server added is copied, too: a worker compares the
        containers of a pod with those of its Workload.
        """
        return copy_object(local, self.resource, workload_name=workload_name, origin=origin)

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Copy the whole status; a gated pod is not called unschedulable (M-142).

        An autoscaler of the manager's cluster would otherwise add nodes for it.
        """
        if is_terminating(local):
            return StatusSync()
        status = dict(remote.get("status") or {})
        scheduled, here = _condition(remote, SCHEDULED), _condition(local, SCHEDULED)
        runs = scheduled is not None and scheduled.get("status") == "True"
        if is_gated(local) and here is not None and not runs:
            others = [c for c in status.get("conditions") or () if c.get("type") != SCHEDULED]
            status["conditions"] = [*others, here]
        change = diff(local.get("status") or {}, status)
        return StatusSync(patch={"status": change} if change else None)

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Return the status of a pod that waits at its gate again."""
        if is_terminated(local) or phase(local) in {"", PENDING}:
            return None
        gated = {"type": SCHEDULED, "status": "False", "reason": "SchedulingGated"}
        wanted = {"phase": PENDING, "conditions": [gated]}
        if "qosClass" in (local.get("status") or {}):
            wanted["qosClass"] = local["status"]["qosClass"]
        return {"status": diff(local.get("status") or {}, wanted)}

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Return the phase of a pod that ended and is gone."""
        if is_terminated(local):
            return None
        status = {"phase": "Succeeded" if end.success else "Failed", "reason": GONE_REASON}
        return {"status": {**status, "message": end.message}}


def _condition(pod: Pod, type_: str) -> Mapping[str, Any] | None:
    conditions = get_field(pod, ("status", "conditions")) or ()
    return next((dict(c) for c in conditions if c.get("type") == type_), None)
