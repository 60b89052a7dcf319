"""LocalQueue: where the users of a namespace submit."""

from typing import Annotated

from multiqueue.api.markers import REFERENCE, SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.cluster_queue import STOP_POLICY, FairSharing
from multiqueue.api.v1beta2.meta import (
    Condition,
    ObjectMeta,
    QuantityValue,
    ResourceList,
    Struct,
)


class LocalQueueSpec(Struct, frozen=True, kw_only=True):
    """The ClusterQueue behind a LocalQueue."""

    cluster_queue: Annotated[
        str,
        described(
            "The ClusterQueue that admits the workloads of this queue. Immutable.",
            rules=(SchemaRule("self == oldSelf", "field is immutable"),),
            **REFERENCE,
        ),
    ] = ""
    stop_policy: Annotated[str, STOP_POLICY] = "None"
    fair_sharing: Annotated[
        FairSharing | None, described("Weight against other LocalQueues of the ClusterQueue.")
    ] = None


class AdmissionFairSharingStatus(Struct, frozen=True, kw_only=True):
    """Decayed consumption of a LocalQueue."""

    consumed_resources: Annotated[
        ResourceList, described("Resources used, older use counting less.", required=True)
    ] = {}
    last_update: Annotated[
        str, described("When it was computed.", required=True, format="date-time")
    ] = ""


class LocalQueueFairSharingStatus(Struct, frozen=True, kw_only=True):
    """Share of a LocalQueue."""

    weighted_share: Annotated[
        int, described("Share of the most used resource, in 1/1000, by weight.", format="int64")
    ] = 0
    admission_fair_sharing_status: Annotated[
        AdmissionFairSharingStatus | None, described("Decayed consumption.")
    ] = None


class LocalQueueResourceUsage(Struct, frozen=True, kw_only=True):
    """Usage of one resource in one flavor; only a ClusterQueue borrows."""

    name: Annotated[str, described("Resource.", required=True)]
    total: Annotated[QuantityValue, described("Used in all.")] = 0


class LocalQueueFlavorUsage(Struct, frozen=True, kw_only=True):
    """Usage of one flavor."""

    name: Annotated[str, described("Name of the flavor.", required=True, **REFERENCE)]
    resources: Annotated[
        tuple[LocalQueueResourceUsage, ...],
        described("Usage by resource.", required=True, list_map_keys=("name",), maxItems=64),
    ] = ()


class LocalQueueStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a LocalQueue."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    pending_workloads: Annotated[int, described("Workloads that wait.")] = 0
    reserving_workloads: Annotated[int, described("Workloads that hold quota.")] = 0
    admitted_workloads: Annotated[int, described("Workloads that may run.")] = 0
    flavors_reservation: Annotated[
        tuple[LocalQueueFlavorUsage, ...],
        described("Quota held by workloads of this queue.", list_map_keys=("name",), maxItems=64),
    ] = ()
    flavors_usage: Annotated[
        tuple[LocalQueueFlavorUsage, ...],
        described(
            "Quota of admitted workloads of this queue.", list_map_keys=("name",), maxItems=64
        ),
    ] = ()
    fair_sharing: Annotated[
        LocalQueueFairSharingStatus | None, described("Share of this queue.")
    ] = None


class LocalQueue(Struct, frozen=True, kw_only=True):
    """An entrance to a ClusterQueue; jobs name it in the label kueue.x-k8s.io/queue-name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LocalQueueSpec, described("The ClusterQueue behind it.")] = LocalQueueSpec()
    status: Annotated[LocalQueueStatus, described("Observed state.")] = LocalQueueStatus()
