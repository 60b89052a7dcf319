"""Finds pods and groups of pods in the informers.

The key of a pod is its namespace and name; that of a group has ``group`` between them. Pods that
carry no label of ours are not in the informer at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multiqueue.api import names
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.integration import MEMBERS, Integration, Job
from multiqueue.jobs.framework.job_source import SingleObjects
from multiqueue.jobs.pod.pods import (
    annotations_of,
    gather_group,
    group_name,
    is_active_member,
    is_fast,
    labels_of,
)
from multiqueue.lib.digits import is_number

BY_GROUP = "group"
"""Pods by namespace and name of their group."""
BY_REPLICA_OWNER = "replica-owner"
"""Pods by namespace and name of their LeaderWorkerSet, which does not control them itself."""
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
BATCH_SECONDS = 0.5
"""Changes of the pods of a group in this time cause one reconcile."""
_GROUPING = frozenset(row.framework for row in JOB_KINDS if row.groups_pods)
MANAGED = f"{names.MANAGED}=true"
"""Label selector of pods that are queued."""


class PodSource(SingleObjects):
    """The source of the kind ``pod``.

    Args:
        context: The manager's context.
        integration: The integration of pods.
    """

    def __init__(self, context: ManagerContext, integration: Integration) -> None:
        super().__init__(context, integration)
        frameworks = context.config.integrations.frameworks
        self._is_implied = integration.name not in frameworks

    def key_of(self, obj: Job) -> str:
        """Return the key of the pod's group, or of the pod."""
        group = group_name(obj)
        return group_key(obj["metadata"]["namespace"], group) if group else super().key_of(obj)

    def delay(self, old: Job | None, new: Job | None) -> float:
        """Return how long to wait for changes of other pods of the group.

        The pods of a group often come and end at the same moment. The last one that was missing is
        acted on at once. Pods that failed or go do not count: others replace them.
        """
        if new is None or not (group := group_name(new)):
            return 0.0
        if old is not None:
            return BATCH_SECONDS
        key = key_of(new["metadata"]["namespace"], group)
        known = sum(map(is_active_member, self._jobs.by_index(BY_GROUP, key)))
        total = annotations_of(new).get(names.POD_GROUP_TOTAL_COUNT, "")
        is_complete = not is_number(total) or known >= int(total)
        return 0.0 if is_complete or is_fast(new) else BATCH_SECONDS

    def find(self, key: str) -> Job | None:
        """Return a pod, or a group with the metadata of its oldest active pod.

        If pods are only implied, those that no other kind has marked are left alone (J-7, J-213).
        """
        group = _find_group(key)
        if group is not None:
            return self._find_group(group)
        pod = super().find(key)
        if pod is None or group_name(pod) or not self._is_served(pod):
            return None
        if annotations_of(pod).get(names.POD_SUSPENDING_PARENT) in _GROUPING:
            return None  # it gets a group
        return pod

    def _find_group(self, group: str) -> Job | None:
        pods = [pod for pod in self._jobs.by_index(BY_GROUP, group) if self._is_served(pod)]
        return gather_group(pods)

    def find_owner(self, workload: Workload) -> Job | None:
        """Return the group of that name, or the pod that owns the Workload."""
        if not _is_of_group(workload):
            return super().find_owner(workload)
        return self._find_group(workload.metadata.key)

    def _is_served(self, pod: Job) -> bool:
        return not self._is_implied or names.POD_SUSPENDING_PARENT in annotations_of(pod)

    def list_workloads(self, job: Job) -> Sequence[Workload]:
        """Return the Workloads of a pod, or the one with the name of the group."""
        if MEMBERS not in job:
            return super().list_workloads(job)
        found = self._workloads.get(key_of(job["metadata"]["namespace"], group_name(job)))
        return [found] if found is not None else []

    def keys_for(self, workload: Workload) -> Iterable[str]:
        """Yield the key of the group of that name, or those of the pods that own the Workload."""
        is_group = _is_of_group(workload)
        if is_group or any(self._jobs.by_index(BY_GROUP, workload.metadata.key)):
            yield group_key(workload.metadata.namespace, workload.metadata.name)
        if not is_group:
            yield from super().keys_for(workload)

    def left_behind(self, key: str, job: Job | None) -> Sequence[Workload]:
        """Return the Workloads whose pods are all gone.

        The Workload of a group that another kind made outlives the pods.
        """
        group = _find_group(key)
        if group is None:
            # A pod of a group comes before it is stamped; the group's Workload is not its own.
            return [w for w in super().left_behind(key, job) if not _is_of_group(w)]
        found = self._workloads.get(group)
        if found is None or not _is_of_group(found):
            return []
        owners = found.metadata.owner_references
        known = {pod["metadata"]["uid"] for pod in self._jobs.by_index(BY_GROUP, group)}
        is_known = any(owner.kind != "Pod" or owner.uid in known for owner in owners)
        return [found] if owners and not is_known else []


def group_key(namespace: str, group: str) -> str:
    """Return the key under which a group is reconciled."""
    return f"{namespace}/group/{group}"


def by_group(pod: Job) -> Iterable[str]:
    """Return the value for the index `BY_GROUP`."""
    group = group_name(pod)
    return (key_of(pod["metadata"]["namespace"], group),) if group else ()


def by_replica_owner(pod: Job) -> Iterable[str]:
    """Return the value for the index `BY_REPLICA_OWNER`."""
    name = labels_of(pod).get(LWS_NAME)
    return (key_of(pod["metadata"]["namespace"], name),) if name else ()


def _is_of_group(workload: Workload) -> bool:
    return workload.metadata.annotations.get(names.IS_GROUP_WORKLOAD) == "true"


def _find_group(key: str) -> str | None:
    """Return namespace and name of the group that a key stands for; None for that of a pod."""
    parts = key.split("/")
    return key_of(parts[0], parts[2]) if len(parts) == 3 else None
