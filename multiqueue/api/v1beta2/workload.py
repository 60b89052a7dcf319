"""Workload: one unit of admission, made for each job."""

from typing import Annotated, Any, ClassVar

from multiqueue.api.markers import (
    LABEL_PATTERN,
    REFERENCE,
    SUBDOMAIN_PATTERN,
    SchemaRule,
    described,
)
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import (
    TOLERATION_RULES,
    Condition,
    ObjectMeta,
    PodTemplate,
    ResourceList,
    Struct,
    Toleration,
)
from multiqueue.api.v1beta2.topology_assignment import TOPOLOGY_ASSIGNMENT

_POD_SET_NAME: dict[str, Any] = {"maxLength": 63, "pattern": LABEL_PATTERN}
_POD_SETS: dict[str, Any] = {"list_map_keys": ("name",), "maxItems": 18}
_IS_TRUE = (
    "has({{0}}.status) && has({{0}}.status.conditions) && "
    "{{0}}.status.conditions.exists(c, c.type == '{0}' && c.status == 'True')"
)
_RESERVED, _ADMITTED = _IS_TRUE.format("QuotaReserved"), _IS_TRUE.format("Admitted")
WAS_RESERVED = f"({_RESERVED.format('oldSelf')})"
"""CEL: the Workload had quota before the change."""
_HAS = "has({0}.spec) && has({0}.spec.{1})"


def both_have(field: str) -> str:
    """Return CEL that says whether a field of the spec is there before and after a change."""
    return f"{_HAS.format('oldSelf', field)} && {_HAS.format('self', field)}"


def stays(field: str) -> str:
    """Return CEL that says whether a field of the spec is the same before and after a change."""
    before, after = _HAS.format("oldSelf", field), _HAS.format("self", field)
    return (
        f"({both_have(field)} ? oldSelf.spec.{field} == self.spec.{field} : "
        f"({before}) == ({after}))"
    )


_CLASS, _SAID = "priorityClassRef", "immutable while workload quota reserved"
_OLD_CLASS, _NEW_CLASS = f"oldSelf.spec.{_CLASS}", f"self.spec.{_CLASS}"
_HAD_CLASS = f"{WAS_RESERVED} && {both_have(_CLASS)}"
_CLASS_RULES = (
    SchemaRule(
        f"{WAS_RESERVED} ? ({_HAS.format('oldSelf', _CLASS)}) == ({_HAS.format('self', _CLASS)}) : "
        "true",
        f"{_CLASS} is {_SAID}",
    ),
    *(
        SchemaRule(
            f"{_HAD_CLASS} ? {_OLD_CLASS}.{field} == {_NEW_CLASS}.{field} : true",
            f"{_CLASS}.{field} is {_SAID}",
        )
        for field in ("group", "kind")
    ),
    SchemaRule(
        f"{_HAD_CLASS} && {_NEW_CLASS}.kind == 'PriorityClass' ? "
        f"{_OLD_CLASS}.name == {_NEW_CLASS}.name : true",
        f"{_CLASS}.name is immutable for scheduling.k8s.io/priorityclass while workload quota "
        "reserved",
    ),
)
"""What stays of the priority class while quota is reserved (E-187)."""


class SliceConstraint(Struct, frozen=True, kw_only=True):
    """One layer of a multi-layer slice."""

    topology: Annotated[
        str,
        described("Level that holds a slice together.", required=True, minLength=1, maxLength=63),
    ]
    size: Annotated[int, described("Pods in a slice.", required=True, minimum=1)]


class PodSetTopologyRequest(Struct, frozen=True, kw_only=True):
    """Where the pods of a pod set want to be, relative to each other."""

    required: Annotated[
        str | None,
        described("Level (node label) that all pods must share a domain of.", maxLength=63),
    ] = None
    preferred: Annotated[
        str | None,
        described("Level that all pods should share a domain of if there is room.", maxLength=63),
    ] = None
    unconstrained: Annotated[
        bool | None, described("Any place will do, but it is chosen by topology.")
    ] = None
    pod_index_label: Annotated[
        str | None, described("Pod label with the index of the pod.", maxLength=317)
    ] = None
    sub_group_index_label: Annotated[
        str | None, described("Pod label with the index of the group of pods.", maxLength=317)
    ] = None
    sub_group_count: Annotated[
        int | None, described("Number of groups of pods in the pod set.", minimum=0)
    ] = None
    pod_set_group_name: Annotated[
        str | None, described("Pod sets of the same group are placed together.", maxLength=256)
    ] = None
    pod_set_slice_required_topology: Annotated[
        str | None, described("Level that each slice must share a domain of.", maxLength=63)
    ] = None
    pod_set_slice_size: Annotated[int | None, described("Pods in a slice.", minimum=1)] = None
    podset_slice_required_topology_constraints: Annotated[
        tuple[SliceConstraint, ...],
        described("Slices in slices, the largest first.", list_type="atomic", maxItems=3),
    ] = ()

    @property
    def asks_for_place(self) -> bool:
        """Whether the pods want to be somewhere; a label with their index alone is no wish."""
        return bool(
            self.required
            or self.preferred
            or self.unconstrained
            or self.pod_set_slice_required_topology
            or self.podset_slice_required_topology_constraints
        )


class PodSet(Struct, frozen=True, kw_only=True):
    """A number of equal pods."""

    rules: ClassVar = (
        SchemaRule(
            "has(self.minCount) ? self.minCount <= self.count : true",
            "minCount should be positive and less or equal to count",
        ),
    )

    name: Annotated[
        str, described("Name, unique in the workload.", default="main", **_POD_SET_NAME)
    ] = "main"
    template: Annotated[
        PodTemplate,
        described("The pods, as in a Job.", required=True, **{"x-shape": "PodTemplateSpec"}),
    ] = {}
    count: Annotated[int, described("Number of pods.", minimum=0, default=1)] = 1
    min_count: Annotated[
        int | None,
        described(
            "Fewest pods that the job can work with: it may start with less than count.", minimum=1
        ),
    ] = None
    topology_request: Annotated[
        PodSetTopologyRequest | None, described("Where the pods want to be.")
    ] = None


class PriorityClassRef(Struct, frozen=True, kw_only=True):
    """The class that a priority came from."""

    rules: ClassVar = (
        SchemaRule(
            "self.group == 'kueue.x-k8s.io' ? self.kind == 'WorkloadPriorityClass' : "
            "self.kind == 'PriorityClass'",
            "kind must be WorkloadPriorityClass in group kueue.x-k8s.io and PriorityClass in group "
            "scheduling.k8s.io",
        ),
    )

    group: Annotated[
        str,
        described(
            "Group of the class.", required=True, enum=["kueue.x-k8s.io", "scheduling.k8s.io"]
        ),
    ]
    kind: Annotated[
        str,
        described(
            "Kind of the class.", required=True, enum=["WorkloadPriorityClass", "PriorityClass"]
        ),
    ]
    name: Annotated[
        str,
        described(
            "Name of the class.",
            required=True,
            minLength=1,
            maxLength=253,
            pattern=SUBDOMAIN_PATTERN,
        ),
    ]


class PreemptionGate(Struct, frozen=True, kw_only=True):
    """A gate that keeps a Workload from preempting."""

    name: Annotated[str, described("Name of the gate.", required=True, minLength=1, maxLength=63)]


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """What a Workload asks for."""

    rules: ClassVar = (
        SchemaRule(
            "has(self.priorityClassRef) ? has(self.priority) : true",
            "priority should not be nil when priorityClassRef is set",
        ),
    )

    pod_sets: Annotated[
        tuple[PodSet, ...],
        described(
            "Groups of equal pods, all of which are admitted together. Immutable while quota is "
            "reserved.",
            list_map_keys=("name",),
            minItems=1,
            maxItems=18,
        ),
    ] = ()
    queue_name: Annotated[
        str,
        described(
            "LocalQueue of the same namespace. Immutable while quota is reserved.", **REFERENCE
        ),
    ] = ""
    priority_class_ref: Annotated[
        PriorityClassRef | None, described("The class that the priority came from.")
    ] = None
    priority: Annotated[
        int | None,
        described("Higher goes first, and may preempt. 0 where absent.", format="int32"),
    ] = None
    active: Annotated[
        bool,
        described(
            "False: the workload is evicted if it runs, and is not queued again.", default=True
        ),
    ] = True
    maximum_execution_time_seconds: Annotated[
        int | None,
        described("The workload is deactivated after running this long.", minimum=1),
    ] = None
    preemption_gates: Annotated[
        tuple[PreemptionGate, ...],
        described(
            "Gates that must be open before this workload preempts others.",
            list_map_keys=("name",),
            maxItems=8,
        ),
    ] = ()


class PodSetAssignment(Struct, frozen=True, kw_only=True):
    """Flavors and usage that a pod set was given."""

    name: Annotated[str, described("Name of the pod set.", default="main", **_POD_SET_NAME)] = (
        "main"
    )
    flavors: Annotated[
        dict[str, Annotated[str, described("", **REFERENCE)]],
        described("Resource to flavor.", maxProperties=64),
    ] = {}
    resource_usage: Annotated[
        ResourceList, described("What all pods of the pod set count for.")
    ] = {}
    count: Annotated[
        int | None,
        described("Pods that were admitted; fewer than asked with partial admission.", minimum=0),
    ] = None
    topology_assignment: Annotated[
        dict[str, Any] | None,
        TOPOLOGY_ASSIGNMENT,
    ] = None
    delayed_topology_request: Annotated[
        str | None,
        described(
            "Set where the placement is made after the admission.", enum=["Pending", "Ready"]
        ),
    ] = None


class Admission(Struct, frozen=True, kw_only=True):
    """The reservation that a Workload holds."""

    cluster_queue: Annotated[
        str, described("ClusterQueue that gave the quota.", required=True, **REFERENCE)
    ] = ""
    pod_set_assignments: Annotated[
        tuple[PodSetAssignment, ...],
        described("What each pod set was given.", required=True, **_POD_SETS),
    ] = ()


class RequeueState(Struct, frozen=True, kw_only=True):
    """Backoff of an evicted Workload."""

    count: Annotated[int | None, described("How often it was queued again.", minimum=0)] = None
    requeue_at: Annotated[str | None, described("When it is queued again.", format="date-time")] = (
        None
    )


class ReclaimablePod(Struct, frozen=True, kw_only=True):
    """Pods that will not need their resources again."""

    name: Annotated[str, described("Name of the pod set.", required=True, **_POD_SET_NAME)]
    count: Annotated[int, described("Number of pods.", required=True, minimum=0)]


class PodSetUpdate(Struct, frozen=True, kw_only=True):
    """What an admission check adds to the pods of a pod set."""

    name: Annotated[str, described("Name of the pod set.", required=True, **_POD_SET_NAME)]
    labels: Annotated[dict[str, str], described("Labels to add.", maxProperties=64)] = {}
    annotations: Annotated[dict[str, str], described("Annotations to add.", maxProperties=64)] = {}
    node_selector: Annotated[
        dict[str, str], described("Node selectors to add.", maxProperties=64)
    ] = {}
    tolerations: Annotated[
        tuple[Toleration, ...],
        described("Tolerations to add.", maxItems=8, rules=TOLERATION_RULES),
    ] = ()


class AdmissionCheckState(Struct, frozen=True, kw_only=True):
    """State of one admission check."""

    name: Annotated[
        str, described("Name of the AdmissionCheck.", required=True, minLength=1, maxLength=316)
    ]
    state: Annotated[
        str,
        described(
            "Retry evicts the workload and tries again, Rejected deactivates it.",
            required=True,
            enum=["Pending", "Ready", "Retry", "Rejected"],
        ),
    ] = "Pending"
    last_transition_time: Annotated[
        str, described("When the state changed last.", required=True, format="date-time")
    ] = ""
    message: Annotated[str, described("Why.", required=True, maxLength=32768)] = ""
    requeue_after_seconds: Annotated[
        int | None, described("Pause before the next try after Retry.", minimum=0)
    ] = None
    retry_count: Annotated[int | None, described("Number of retries.", minimum=0)] = None
    pod_set_updates: Annotated[
        tuple[PodSetUpdate, ...],
        described("What pods get when the check is Ready.", list_type="atomic", maxItems=18),
    ] = ()


class PodSetRequest(Struct, frozen=True, kw_only=True):
    """Requests of a pod set as last evaluated."""

    name: Annotated[str, described("Name of the pod set.", required=True, **_POD_SET_NAME)]
    resources: Annotated[
        ResourceList, described("Requests of all its pods, overhead and defaults included.")
    ] = {}


class SchedulingStatsEviction(Struct, frozen=True, kw_only=True):
    """How often a Workload was evicted for a reason."""

    reason: Annotated[str, described("Reason.", required=True, maxLength=316)]
    underlying_cause: Annotated[
        str, described("Cause behind the reason.", required=True, maxLength=316)
    ] = ""
    count: Annotated[int, described("How often.", required=True, minimum=0)] = 0


class SchedulingStats(Struct, frozen=True, kw_only=True):
    """Counters kept with the Workload."""

    evictions: Annotated[
        tuple[SchedulingStatsEviction, ...],
        described(
            "Evictions by reason and cause.",
            list_map_keys=("reason", "underlyingCause"),
            maxItems=256,
        ),
    ] = ()


class UnhealthyNode(Struct, frozen=True, kw_only=True):
    """A failed node under a Workload."""

    name: Annotated[str, described("Name of the node.", required=True, maxLength=63)]


class PreemptionGateState(Struct, frozen=True, kw_only=True):
    """Position of a preemption gate."""

    name: Annotated[str, described("Name of the gate.", required=True, minLength=1, maxLength=63)]
    position: Annotated[
        str,
        described(
            "A closed gate keeps the workload from preempting.",
            required=True,
            enum=["Closed", "Open"],
        ),
    ] = "Closed"
    last_transition_time: Annotated[
        str, described("When the position changed last.", required=True, format="date-time")
    ] = ""


class WorkloadStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a Workload."""

    rules: ClassVar = (
        SchemaRule(
            "has(oldSelf.clusterName) && has(self.clusterName) ? "
            "self.clusterName == oldSelf.clusterName : true",
            "clusterName is immutable once it is set",
        ),
        SchemaRule(
            "!has(self.clusterName) || !has(self.nominatedClusterNames) || "
            "size(self.nominatedClusterNames) == 0",
            "clusterName and nominatedClusterNames are mutually exclusive",
        ),
    )

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()
    admission: Annotated[Admission | None, described("The quota it holds.")] = None
    requeue_state: Annotated[RequeueState | None, described("Backoff after evictions.")] = None
    reclaimable_pods: Annotated[
        tuple[ReclaimablePod, ...],
        described("Pods whose quota is free again though the job still runs.", **_POD_SETS),
    ] = ()
    admission_checks: Annotated[
        tuple[AdmissionCheckState, ...],
        described("State of each admission check.", list_map_keys=("name",), maxItems=8),
    ] = ()
    resource_requests: Annotated[
        tuple[PodSetRequest, ...],
        described("Requests of each pod set as last evaluated.", **_POD_SETS),
    ] = ()
    accumulated_past_execution_time_seconds: Annotated[
        int | None, described("Seconds that the workload ran before its last eviction.")
    ] = None
    scheduling_stats: Annotated[
        SchedulingStats | None, described("Counters over the life of the workload.")
    ] = None
    nominated_cluster_names: Annotated[
        tuple[Annotated[str, described("", maxLength=256)], ...],
        described(
            "Worker clusters that the workload is offered to.", list_type="atomic", maxItems=20
        ),
    ] = ()
    cluster_name: Annotated[
        str | None, described("Worker cluster that runs the workload.", maxLength=256)
    ] = None
    unhealthy_nodes: Annotated[
        tuple[UnhealthyNode, ...],
        described("Failed nodes that pods were placed on.", list_map_keys=("name",), maxItems=8),
    ] = ()
    preemption_gates: Annotated[
        tuple[PreemptionGateState, ...],
        described(
            "Position of each gate of the spec; absent means closed.",
            list_map_keys=("name",),
            maxItems=8,
        ),
    ] = ()


class Workload(Struct, frozen=True, kw_only=True):
    """One unit of admission: the pods of a job, all or none. Made by the manager for every job."""

    rules: ClassVar = (
        SchemaRule(
            f"({_RESERVED.format('self')}) && has(self.status.admission) ? "
            "has(self.spec) && has(self.spec.podSets) && "
            "size(self.spec.podSets) == size(self.status.admission.podSetAssignments) : true",
            "podSetAssignments must have the same number of podSets as the spec",
        ),
        *_CLASS_RULES,
        SchemaRule(
            f"{WAS_RESERVED} && ({_RESERVED.format('self')}) ? {stays('queueName')} : true",
            "queueName is immutable while workload quota reserved",
        ),
        SchemaRule(
            f"({_ADMITTED.format('oldSelf')}) && ({_ADMITTED.format('self')}) ? "
            f"{stays('maximumExecutionTimeSeconds')} : true",
            "maximumExecutionTimeSeconds is immutable while workload quota reserved",
        ),
    )

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[WorkloadSpec, described("What the workload asks for.")] = WorkloadSpec()
    status: Annotated[WorkloadStatus, described("Observed state.")] = WorkloadStatus()


class WorkloadPriorityClass(Struct, frozen=True, kw_only=True):
    """Priority of Workloads, independent of the priority of their pods.

    Jobs name it in the label kueue.x-k8s.io/priority-class.
    """

    metadata: ObjectMeta = ObjectMeta()
    value: Annotated[
        int, described("Higher goes first, and may preempt.", required=True, format="int32")
    ] = 0
    description: Annotated[str, described("When this class should be used.", maxLength=2048)] = ""
