"""A worker's Kueue, played: it takes its time, and does what upstream's may do.

Cheaper than the real controllers, so that fleets may be large; and free to behave in ways that ours
never would. It works inside of its cluster: what it writes meets no weather.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from random import Random

from multiqueue.api import workload_state
from multiqueue.api.conditions import Reason, WorkloadCondition, is_true
from multiqueue.api.names import PREBUILT_WORKLOAD_NAME
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Admission, PodSet, PodSetAssignment, Workload, WorkloadStatus
from multiqueue.jobs.workload_wire import build_status_patch
from tests.fleet.api_server import ApiServer
from tests.fleet.history import Change, History
from tests.fleet.kinds import INTEGRATIONS, JOB_PLURALS, is_suspended, plural_of, suspend_patch
from tests.fleet.objects import Json

ACTOR = "kueue"
GPU = "nvidia.com/gpu"
LOOKED_AT = frozenset({"workloads", "clusterqueues", "localqueues", *JOB_PLURALS})
StatusChange = Callable[[Workload, datetime], WorkloadStatus]


class PlayedKueue:
    """Admits copies while there is room, and lets their jobs run.

    Args:
        server: Of the cluster.
        now: Wall-clock time there.
        history: Tells of changes.
        chance: Draws delays.
        plurals: The collections of jobs.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        now: Callable[[], datetime],
        history: History,
        chance: Random,
        plurals: tuple[str, ...],
    ) -> None:
        self._server = server
        self._now = now
        self._chance = chance
        self._plurals = plurals
        self._planned = False
        history.listen(self._on_change)

    def evict(self, key: str, reason: str = Reason.PREEMPTED) -> None:
        """Preempt what was admitted; it queues again there."""
        workload = self._read(key)
        if workload is not None and workload_state.is_admitted(workload.status):
            self._write(
                workload, lambda w, now: workload_state.evict(w.status, reason, "there", now=now)
            )

    def _on_change(self, change: Change) -> None:
        if change.cluster != self._server.name:
            return
        if change.plural in JOB_PLURALS and change.verb in {"delete", "remove"}:
            # A reconciler of its own, which may be quicker than whoever deleted the job.
            delay = self._chance.random() * self._chance.choice((0.01, 0.1, 1.0))
            uid = (change.old or {})["metadata"]["uid"]
            key = prebuilt_key(change.old or {})
            asyncio.get_running_loop().call_later(delay, self._end_orphan, key, uid)
        if not self._planned and change.plural in LOOKED_AT:
            self._planned = True
            delay = self._chance.uniform(0.02, 1.0)
            asyncio.get_running_loop().call_later(delay, self._look)

    def _end_orphan(self, key: str, uid: str) -> None:
        """Finish a copy whose job is gone or being deleted, unless the cluster collected it."""
        workload = self._read(key)
        if workload is None or workload.metadata.deletion_timestamp:
            return
        owned = any(owner.uid == uid for owner in workload.metadata.owner_references)
        if owned and not workload_state.is_finished(workload.status):
            reason, words = Reason.OWNER_NOT_FOUND, "The workload's owner no longer exists"
            self._write(
                workload, lambda w, now: workload_state.finish(w.status, reason, words, now=now)
            )

    def _look(self) -> None:
        """Bring everything a step further; what changes calls for the next look."""
        self._planned = False
        workloads = [decode(Workload, obj) for obj in self._server.list_all("workloads")]
        all_jobs = (job for plural in self._plurals for job in self._server.list_all(plural))
        jobs = {prebuilt_key(job): job for job in all_jobs if prebuilt_key(job)}
        known = {workload.metadata.key for workload in workloads}
        for key, job in jobs.items():
            if key not in known:
                self._suspend(job)
        for workload in workloads:
            self._step(workload, jobs.get(workload.metadata.key))
        self._admit([w for w in workloads if _waits(w)])

    def _step(self, workload: Workload, job: Json | None) -> None:
        status, key = workload.status, workload.metadata.key
        if workload.metadata.deletion_timestamp or workload_state.is_finished(status):
            if job is not None and workload.metadata.deletion_timestamp:
                self._suspend(job)
            return
        if job is not None:
            self._own(workload, job)
            if (end := INTEGRATIONS[job["kind"]].finished(job)) is not None:
                reason = Reason.SUCCEEDED if end.success else Reason.FAILED
                self._write(
                    workload, lambda w, now: workload_state.finish(w.status, reason, "m", now=now)
                )
                return
        if is_true(status.conditions, WorkloadCondition.DEACTIVATION_TARGET):
            self._server.edit("workloads", key, {"spec": {"active": False}}, actor=ACTOR)
            self._write(
                self._read(key) or workload,
                lambda w, now: workload_state.deactivate(w.status, now=now),
            )
        elif workload_state.is_evicted(status) and workload_state.has_quota(status):
            if job is not None:
                self._suspend(job)
            if job is None or not INTEGRATIONS[job["kind"]].is_active(job):
                self._write(
                    workload, lambda w, now: workload_state.complete_eviction(w.status, now=now)
                )
        elif workload_state.is_admitted(status) and job is not None:
            self._release(job)

    def _admit(self, waiting: list[Workload]) -> None:
        queue = self._server.find("clusterqueues", "cq")
        if queue is None or self._server.find("localqueues", "team-a/lq") is None:
            return
        if (queue["spec"].get("stopPolicy") or "None") != "None":
            return
        left = quota_of(queue)
        for obj in self._server.list_all("workloads"):
            other = decode(Workload, obj)
            if workload_state.has_quota(other.status) and not workload_state.is_finished(
                other.status
            ):
                left -= gpus_of(other)
        waiting.sort(key=lambda w: (-(w.spec.priority or 0), w.metadata.key))
        for workload in waiting:
            need = gpus_of(workload)
            if need <= left:
                left -= need
                self._write(workload, _admit)

    def _read(self, key: str) -> Workload | None:
        found = self._server.find("workloads", key)
        return decode(Workload, found) if found is not None else None

    def _write(self, workload: Workload, change: StatusChange) -> None:
        patch = build_status_patch(workload.status, change(workload, self._now()))
        if patch:
            key = workload.metadata.key
            self._server.edit(
                "workloads", key, {"status": patch}, subresource="status", actor=ACTOR
            )

    def _own(self, workload: Workload, job: Json) -> None:
        """Tie the copy to its job, as upstream does: deleting the job deletes it."""
        metadata = job["metadata"]
        if any(owner.uid == metadata["uid"] for owner in workload.metadata.owner_references):
            return
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        patch = {"metadata": {"ownerReferences": [owner]}}
        self._server.edit("workloads", workload.metadata.key, patch, actor=ACTOR)

    def _suspend(self, job: Json) -> None:
        self._set_suspend(job, value=True)

    def _release(self, job: Json) -> None:
        self._set_suspend(job, value=False)

    def _set_suspend(self, job: Json, *, value: bool) -> None:
        if is_suspended(job) is value or job["metadata"].get("deletionTimestamp"):
            return
        key = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        patch = suspend_patch(job, value=value)
        self._server.edit(plural_of(job["kind"]), key, patch, actor=ACTOR)


def gpus_of(workload: Workload) -> int:
    """Return the GPUs that a Workload asks for."""
    return sum(map(_gpus_of_pods, workload.spec.pod_sets))


def quota_of(queue: Json) -> int:
    """Return the GPUs that a ClusterQueue has."""
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
    return int(flavor["resources"][0]["nominalQuota"])


def _gpus_of_pods(pod_set: PodSet) -> int:
    containers = pod_set.template["spec"]["containers"]
    requests = ((each.get("resources") or {}).get("requests") or {} for each in containers)
    return pod_set.count * sum(int(each.get(GPU, "0")) for each in requests)


def _waits(workload: Workload) -> bool:
    status = workload.status
    return (
        workload.spec.active
        and not workload.metadata.deletion_timestamp
        and not workload_state.has_quota(status)
        and not workload_state.is_finished(status)
        and not is_true(status.conditions, WorkloadCondition.DEACTIVATION_TARGET)
    )


def _admit(workload: Workload, now: datetime) -> WorkloadStatus:
    admission = Admission(
        cluster_queue="cq",
        pod_set_assignments=tuple(
            PodSetAssignment(
                name=pod_set.name,
                flavors={GPU: "gpu"},
                resource_usage={GPU: str(_gpus_of_pods(pod_set))},
                count=pod_set.count,
            )
            for pod_set in workload.spec.pod_sets
        ),
    )
    status = workload_state.reserve_quota(workload.status, admission, now=now)
    return workload_state.sync_admitted(status, now=now)


def prebuilt_key(job: Json) -> str:
    """Return the key of the copy that a job was sent with; "" without one."""
    metadata = job["metadata"]
    name = (metadata.get("annotations") or {}).get(PREBUILT_WORKLOAD_NAME)
    return f"{metadata['namespace']}/{name}" if name else ""
