"""StatefulSets as a queued kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.api import names
from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.compose import workload_name
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_source import BY_CONTROLLER, prebuilt_name
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.jobs.pod.pods import Pod
from multiqueue.jobs.pod_owners.groups import GroupOwnerKind, PodGroup, is_copy, origin_uid
from multiqueue.jobs.pod_owners.webhook import followed_labels, with_metadata

TEMPLATE = ("spec", "template")
POD_INDEX = "apps.kubernetes.io/pod-index"
MAIN = "main"


class StatefulSetKind(GroupOwnerKind):
    """The integration ``statefulset``."""

    def __init__(self, row: KnownKind) -> None:
        super().__init__(row, TEMPLATE)

    def is_skipped(self, job: Job) -> bool:
        """Whether another kind queues the pods, such as the LeaderWorkerSet above (J-274)."""
        annotations = get_field(job, (*TEMPLATE, "metadata", "annotations")) or {}
        parent = annotations.get(names.POD_SUSPENDING_PARENT)
        return parent is not None and parent != self.name

    def on_hold(self, job: Job) -> bool:
        """Whether the set is scaled to zero (J-283)."""
        return replicas_of(job) == 0

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return one pod set with the template's spec only (J-277)."""
        template = get_field(job, TEMPLATE) or {}
        request = build_topology_request(template, pod_index_label=POD_INDEX)
        return (
            PodSet(
                name=MAIN,
                count=replicas_of(job),
                template={"spec": template.get("spec") or {}},
                topology_request=request,
            ),
        )

    def groups(self, job: Job, limit: int) -> Sequence[PodGroup]:
        """Return the only group."""
        return (PodGroup(workload=self._workload(job, limit), pod_sets=self.pod_sets(job)),)

    def owner_name(self, pod: Pod) -> str:
        """Return the name of the StatefulSet that controls a pod."""
        controller = controller_of(pod) or {}
        return str(controller.get("name")) if controller.get("kind") == self.gvk.kind else ""

    def pods_by(self, job: Job) -> tuple[str, str]:
        """Find pods by their controller."""
        return BY_CONTROLLER, job["metadata"]["uid"]

    def stamp(self, job: Job, pod: Pod, limit: int) -> Pod:
        """Put a pod into the group of its set (J-279, J-280)."""
        name = self._workload(job, limit)
        return with_metadata(
            pod,
            labels={names.MANAGED: "true", **followed_labels(job)},
            annotations={
                names.POD_GROUP_NAME: name,
                names.PREBUILT_WORKLOAD_NAME: name,
                names.POD_GROUP_TOTAL_COUNT: str(replicas_of(job)),
                names.POD_GROUP_FAST_ADMISSION: "true",
                names.POD_GROUP_SERVING: "true",
                names.POD_GROUP_POD_INDEX_LABEL: POD_INDEX,
                names.ROLE_HASH: MAIN,
            },
        )

    def parent_set(self, job: Job, pod: Pod) -> Job | str:
        """Return the object itself."""
        return job

    def _workload(self, job: Job, limit: int) -> str:
        given = prebuilt_name(job) if is_copy(job) else ""
        return given or workload_name(
            self.gvk, job["metadata"]["name"], origin_uid(job), limit=limit
        )


def replicas_of(job: Job) -> int:
    """Return how many pods the set is to have."""
    replicas = get_field(job, ("spec", "replicas"))
    return replicas if isinstance(replicas, int) else 1
