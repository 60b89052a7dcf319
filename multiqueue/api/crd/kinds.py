"""The parts of a CustomResourceDefinition beside its schema: names, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiqueue.api import v1beta2
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig
from multiqueue.api.v1beta2.meta import Struct


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column."""

    name: str
    path: str
    description: str = ""
    type: str = field(default="string", kw_only=True)
    wide: bool = field(default=False, kw_only=True)

    def as_dict(self) -> dict[str, object]:
        """Return an entry of additionalPrinterColumns."""
        result: dict[str, object] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            result["description"] = self.description
        if self.wide:
            result["priority"] = 10
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """One kind of kueue.x-k8s.io."""

    struct: type[Struct]
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = False
    has_status: bool = True
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The name of the kind, such as ClusterQueue."""
        return self.struct.__name__


AGE = Column("Age", ".metadata.creationTimestamp", type="date")


def condition(kind: str, part: str = "status") -> str:
    """Return the path of a part of a condition."""
    return f'.status.conditions[?(@.type=="{kind}")].{part}'


KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        struct=v1beta2.AdmissionCheck,
        plural="admissionchecks",
        short_names=("ac",),
        columns=(
            Column("Controller", ".spec.controllerName"),
            Column("Active", condition("Active")),
            AGE,
        ),
    ),
    CustomKind(
        struct=v1beta2.ClusterQueue,
        plural="clusterqueues",
        short_names=("cq",),
        columns=(
            Column("Cohort", ".spec.cohortName", "Cohort that this ClusterQueue belongs to"),
            Column(
                "Strategy",
                ".spec.queueingStrategy",
                "The queueing strategy used to prioritize workloads",
                wide=True,
            ),
            Column(
                "Pending Workloads",
                ".status.pendingWorkloads",
                "Number of pending workloads",
                type="integer",
            ),
            Column(
                "Admitted Workloads",
                ".status.admittedWorkloads",
                "Number of admitted workloads that haven't finished yet",
                type="integer",
                wide=True,
            ),
        ),
    ),
    CustomKind(struct=v1beta2.Cohort, plural="cohorts", short_names=("co",)),
    CustomKind(
        struct=v1beta2.LocalQueue,
        plural="localqueues",
        short_names=("queue", "queues", "lq"),
        namespaced=True,
        columns=(
            Column("ClusterQueue", ".spec.clusterQueue", "Backing ClusterQueue"),
            Column(
                "Pending Workloads",
                ".status.pendingWorkloads",
                "Number of pending workloads",
                type="integer",
            ),
            Column(
                "Admitted Workloads",
                ".status.admittedWorkloads",
                "Number of admitted workloads that haven't finished yet",
                type="integer",
            ),
        ),
    ),
    CustomKind(
        struct=v1beta2.MultiKueueCluster,
        plural="multikueueclusters",
        short_names=("mkc",),
        columns=(Column("Connected", condition("Active")), AGE),
    ),
    CustomKind(
        struct=v1beta2.MultiKueueConfig,
        plural="multikueueconfigs",
        short_names=("mkconf",),
        has_status=False,
    ),
    CustomKind(
        struct=ProvisioningRequestConfig,
        plural="provisioningrequestconfigs",
        short_names=("prc",),
        has_status=False,
    ),
    CustomKind(
        struct=v1beta2.ResourceFlavor,
        plural="resourceflavors",
        short_names=("flavor", "flavors", "rf"),
        has_status=False,
    ),
    CustomKind(
        struct=v1beta2.Topology, plural="topologies", short_names=("topo",), has_status=False
    ),
    CustomKind(
        struct=v1beta2.WorkloadPriorityClass,
        plural="workloadpriorityclasses",
        short_names=("wpc",),
        has_status=False,
        columns=(
            Column("Value", ".value", "Value of workloadPriorityClass's Priority", type="integer"),
        ),
    ),
    CustomKind(
        struct=v1beta2.Workload,
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        columns=(
            Column("Queue", ".spec.queueName", "Name of the queue submitted to"),
            Column(
                "Reserved in",
                ".status.admission.clusterQueue",
                "Name of the ClusterQueue where the workload is reserving quota",
            ),
            Column("Admitted", condition("Admitted"), "Admission status"),
            Column("Finished", condition("Finished"), "Workload finished"),
            Column(
                "Age", ".metadata.creationTimestamp", "Time this workload was created", type="date"
            ),
        ),
        selectable_fields=(".status.admission.clusterQueue",),
    ),
)
"""All kinds, by name."""
