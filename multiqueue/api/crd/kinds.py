"""The parts of a CustomResourceDefinition beside its schema: names, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.api import v1beta2
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig
from multiqueue.api.v1beta2.meta import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One printer column."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""

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


_AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")


def _active(path: str = "Active") -> str:
    return f'.status.conditions[?(@.type=="{path}")].status'


KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        struct=v1beta2.AdmissionCheck,
        plural="admissionchecks",
        short_names=("ac",),
        columns=(
            Column(name="Controller", path=".spec.controllerName"),
            Column(name="Active", path=_active()),
            _AGE,
        ),
    ),
    CustomKind(
        struct=v1beta2.ClusterQueue,
        plural="clusterqueues",
        short_names=("cq",),
        columns=(
            Column(
                name="Cohort",
                path=".spec.cohortName",
                description="Cohort that this ClusterQueue belongs to",
            ),
            Column(
                name="Strategy",
                path=".spec.queueingStrategy",
                wide=True,
                description="The queueing strategy used to prioritize workloads",
            ),
            Column(
                name="Pending Workloads",
                path=".status.pendingWorkloads",
                type="integer",
                description="Number of pending workloads",
            ),
            Column(
                name="Admitted Workloads",
                path=".status.admittedWorkloads",
                type="integer",
                wide=True,
                description="Number of admitted workloads that haven't finished yet",
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
            Column(
                name="ClusterQueue", path=".spec.clusterQueue", description="Backing ClusterQueue"
            ),
            Column(
                name="Pending Workloads",
                path=".status.pendingWorkloads",
                type="integer",
                description="Number of pending workloads",
            ),
            Column(
                name="Admitted Workloads",
                path=".status.admittedWorkloads",
                type="integer",
                description="Number of admitted workloads that haven't finished yet",
            ),
        ),
    ),
    CustomKind(
        struct=v1beta2.MultiKueueCluster,
        plural="multikueueclusters",
        short_names=("mkc",),
        columns=(Column(name="Connected", path=_active()), _AGE),
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
            Column(
                name="Value",
                path=".value",
                type="integer",
                description="Value of workloadPriorityClass's Priority",
            ),
        ),
    ),
    CustomKind(
        struct=v1beta2.Workload,
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        columns=(
            Column(
                name="Queue", path=".spec.queueName", description="Name of the queue submitted to"
            ),
            Column(
                name="Reserved in",
                path=".status.admission.clusterQueue",
                description="Name of the ClusterQueue where the workload is reserving quota",
            ),
            Column(name="Admitted", path=_active("Admitted"), description="Admission status"),
            Column(name="Finished", path=_active("Finished"), description="Workload finished"),
            Column(
                name="Age",
                path=".metadata.creationTimestamp",
                type="date",
                description="Time this workload was created",
            ),
        ),
        selectable_fields=(".status.admission.clusterQueue",),
    ),
)
"""All kinds, by name."""
