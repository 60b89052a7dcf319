"""LocalQueue: where the users of a namespace submit."""

from __future__ import annotations

from multiqueue.api.v1beta2.cluster_queue import FairSharing, FlavorUsage
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, ResourceList, Struct


class LocalQueueSpec(Struct, frozen=True, kw_only=True):
    """The ClusterQueue behind a LocalQueue."""

    cluster_queue: str = ""
    stop_policy: str = "None"
    fair_sharing: FairSharing | None = None


class AdmissionFairSharingStatus(Struct, frozen=True, kw_only=True):
    """Decayed consumption of a LocalQueue."""

    consumed_resources: ResourceList = {}
    last_update: str = ""


class LocalQueueFairSharingStatus(Struct, frozen=True, kw_only=True):
    """Share of a LocalQueue."""

    weighted_share: int = 0
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a LocalQueue."""

    conditions: tuple[Condition, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Struct, frozen=True, kw_only=True):
    """A namespaced entrance to a ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
