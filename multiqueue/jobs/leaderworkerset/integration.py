"""LeaderWorkerSets as a queued kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api import names
from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.names import key_of
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.compose import workload_name
from multiqueue.jobs.framework.fields import FieldPath, get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_source import prebuilt_name
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.jobs.pod.pods import Pod, annotations_of, is_gated, labels_of
from multiqueue.jobs.pod.source import BY_REPLICA_OWNER, LWS_NAME
from multiqueue.jobs.pod_owners.groups import GroupOwnerKind, PodGroup, is_copy, origin_uid
from multiqueue.jobs.pod_owners.webhook import followed_labels, with_metadata

_SPEC = ("spec", "leaderWorkerTemplate")
LEADER_TEMPLATE: FieldPath = (*_SPEC, "leaderTemplate")
WORKER_TEMPLATE: FieldPath = (*_SPEC, "workerTemplate")
_PREFIX = "leaderworkerset.sigs.k8s.io"
GROUP_INDEX = f"{_PREFIX}/group-index"
WORKER_INDEX = f"{_PREFIX}/worker-index"
LEADER_NAME = f"{_PREFIX}/leader-name"
MAIN, LEADER, WORKER = "main", "leader", "worker"


class LeaderWorkerSetKind(GroupOwnerKind):
    """The integration ``leaderworkerset.x-k8s.io/leaderworkerset``."""

    def __init__(self, row: KnownKind) -> None:
        super().__init__(row, LEADER_TEMPLATE, WORKER_TEMPLATE)

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return what one replica requests (J-298)."""
        size = size_of(job)
        if not has_leader(job):
            return (_pod_set(job, WORKER_TEMPLATE, MAIN, size, WORKER_INDEX),)
        return (
            _pod_set(job, LEADER_TEMPLATE, LEADER, 1, None),
            _pod_set(job, WORKER_TEMPLATE, WORKER, max(0, size - 1), WORKER_INDEX),
        )

    def groups(self, job: Job, limit: int) -> Sequence[PodGroup]:
        """Return one group for each replica, and for those that a rollout adds (J-296, J-297)."""
        pod_sets = self.pod_sets(job)
        return [
            PodGroup(
                workload=self._workload(job, str(index), limit), pod_sets=pod_sets, index=index
            )
            for index in range(group_count(job))
        ]

    def owner_name(self, pod: Pod) -> str:
        """Return the name of the LeaderWorkerSet that a pod belongs to."""
        return labels_of(pod).get(LWS_NAME, "")

    def pods_by(self, job: Job) -> tuple[str, str]:
        """Find pods by the label with the name of the LeaderWorkerSet."""
        metadata = job["metadata"]
        return BY_REPLICA_OWNER, key_of(metadata["namespace"], metadata["name"])

    def stamp(self, job: Job, pod: Pod, limit: int) -> Pod:
        """Put a pod into the group of its replica, once it is known which that is (J-301)."""
        index = labels_of(pod).get(GROUP_INDEX)
        if index is None:
            return pod
        name = self._workload(job, index, limit)
        labels = followed_labels(job) if is_gated(pod) else {}
        return with_metadata(
            pod,
            labels={names.MANAGED: "true", **labels},
            annotations={
                names.POD_GROUP_NAME: name,
                names.PREBUILT_WORKLOAD_NAME: name,
                names.POD_GROUP_TOTAL_COUNT: str(size_of(job)),
                names.POD_GROUP_SERVING: "true",
                names.ROLE_HASH: _role(job, pod),
            },
        )

    def parent_set(self, job: Job, pod: Pod) -> Job | str:
        """Return the name of the StatefulSet that controls a pod."""
        return str((controller_of(pod) or {}).get("name") or "")

    def _workload(self, job: Job, index: str, limit: int) -> str:
        given = prebuilt_name(job) if is_copy(job) else ""
        if given:
            return given
        name = f"{job['metadata']['name']}-{index}"
        return workload_name(self.gvk, name, origin_uid(job), limit=limit)


def has_leader(job: Job) -> bool:
    """Whether the leader of each group has a template of its own."""
    return isinstance(get_field(job, LEADER_TEMPLATE), dict)


def size_of(job: Job) -> int:
    """Return the number of pods of each group."""
    size = get_field(job, (*_SPEC, "size"))
    return size if isinstance(size, int) else 1


def group_count(job: Job) -> int:
    """Return how many groups there are to be, with those that a rollout adds for now (J-297).

    Deviates: upstream takes a surge that is given as a percentage for none.
    """
    given = get_field(job, ("spec", "replicas"))
    replicas = given if isinstance(given, int) else 1
    status: dict[str, Any] = job.get("status") or {}
    surge = get_field(job, ("spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxSurge"))
    surges = str(surge or 0).rstrip("%") not in {"0", ""}
    is_rolling = (status.get("updatedReplicas") or 0) < replicas
    if surges and is_rolling:
        return max(replicas, status.get("replicas") or 0)
    return replicas


def _role(job: Job, pod: Pod) -> str:
    if not has_leader(job):
        return MAIN
    return WORKER if LEADER_NAME in annotations_of(pod) else LEADER


def _pod_set(job: Job, path: FieldPath, name: str, count: int, index_label: str | None) -> PodSet:
    template = _without_own_metadata(get_field(job, path) or {})
    request = build_topology_request(template, pod_index_label=index_label)
    return PodSet(name=name, count=count, template=template, topology_request=request)


def _without_own_metadata(template: Job) -> Job:
    """Return a template without what the LeaderWorkerSet's controller adds to it (J-299)."""
    kept: Job = {"spec": template.get("spec") or {}}
    metadata = {
        field: values
        for field in ("labels", "annotations")
        if (
            values := {
                key: value
                for key, value in (get_field(template, ("metadata", field)) or {}).items()
                if key == LWS_NAME or not key.startswith(_PREFIX)
            }
        )
    }
    return {"metadata": metadata, **kept} if metadata else kept
