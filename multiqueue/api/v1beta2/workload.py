"""Workload: one unit of admission, made for each job."""

from __future__ import annotations

from typing import Any

from multiqueue.api.v1beta2.meta import (
    Condition,
    ObjectMeta,
    PodTemplate,
    ResourceList,
    Struct,
    Toleration,
)


class SliceConstraint(Struct, frozen=True, kw_only=True):
    """One layer of a multi-layer slice."""

    topology: str
    size: int


class PodSetTopologyRequest(Struct, frozen=True, kw_only=True):
    """Where the pods of a pod set want to be, relative to each other."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: tuple[SliceConstraint, ...] = ()


class PodSet(Struct, frozen=True, kw_only=True):
    """A number of equal pods."""

    name: str = "main"
    template: PodTemplate = {}
    count: int = 1
    min_count: int | None = None
    topology_request: PodSetTopologyRequest | None = None


class PriorityClassRef(Struct, frozen=True, kw_only=True):
    """The class that a priority came from."""

    group: str
    kind: str
    name: str


class PreemptionGate(Struct, frozen=True, kw_only=True):
    """A gate that keeps a Workload from preempting."""

    name: str


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """What a Workload asks for."""

    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool = True
    maximum_execution_time_seconds: int | None = None
    preemption_gates: tuple[PreemptionGate, ...] = ()


class PodSetAssignment(Struct, frozen=True, kw_only=True):
    """Flavors and usage that a pod set was given."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: ResourceList = {}
    count: int | None = None
    topology_assignment: dict[str, Any] | None = None
    delayed_topology_request: str | None = None


class Admission(Struct, frozen=True, kw_only=True):
    """The reservation that a Workload holds."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Struct, frozen=True, kw_only=True):
    """Backoff of an evicted Workload."""

    count: int | None = None
    requeue_at: str | None = None


class ReclaimablePod(Struct, frozen=True, kw_only=True):
    """Pods that will not need their resources again."""

    name: str
    count: int


class PodSetUpdate(Struct, frozen=True, kw_only=True):
    """What an admission check adds to the pods of a pod set."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class AdmissionCheckState(Struct, frozen=True, kw_only=True):
    """State of one admission check."""

    name: str
    state: str = "Pending"
    last_transition_time: str = ""
    message: str = ""
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class PodSetRequest(Struct, frozen=True, kw_only=True):
    """Requests of a pod set as last evaluated."""

    name: str
    resources: ResourceList = {}


class SchedulingStatsEviction(Struct, frozen=True, kw_only=True):
    """How often a Workload was evicted for a reason."""

    reason: str
    underlying_cause: str = ""
    count: int = 0


class SchedulingStats(Struct, frozen=True, kw_only=True):
    """Counters kept with the Workload."""

    evictions: tuple[SchedulingStatsEviction, ...] = ()


class UnhealthyNode(Struct, frozen=True, kw_only=True):
    """A failed node under a Workload."""

    name: str


class PreemptionGateState(Struct, frozen=True, kw_only=True):
    """Position of a preemption gate."""

    name: str
    position: str = "Closed"
    last_transition_time: str = ""


class WorkloadStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a Workload."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: tuple[str, ...] = ()
    cluster_name: str | None = None
    unhealthy_nodes: tuple[UnhealthyNode, ...] = ()
    preemption_gates: tuple[PreemptionGateState, ...] = ()


class Workload(Struct, frozen=True, kw_only=True):
    """One unit of admission: the pods of a job, all or none."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class WorkloadPriorityClass(Struct, frozen=True, kw_only=True):
    """Priority of Workloads, independent of the priority of their pods."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    description: str = ""
