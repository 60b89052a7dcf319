"""Kubeflow's training jobs and MPIJob as queued kinds. Pure. Parity: J-374..J-416.

These kinds differ in the field that holds their replica specs and in the types of replicas in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.template_kind import (
    PodSetSource,
    TemplateKind,
    find_condition,
    finished_by_condition,
)

INDEX_LABEL = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMap:
    """Where a kind holds its replica specs.

    Attributes:
        field: The field of spec with one replica spec for each type.
        types: The types that become pod sets, in this order; other types are left out (J-374).
        controller: The kind's own controller, as ``spec.runPolicy.managedBy`` names it (M-136).
        operator: The controller as the labels of pods name it (J-160).
    """

    field: str
    operator: str
    types: tuple[str, ...] = ("Master", "Worker")
    controller: str = "kubeflow.org/training-operator"


REPLICA_MAPS: Mapping[str, ReplicaMap] = MappingProxyType(
    {
        "JAXJob": ReplicaMap(
            field="jaxReplicaSpecs", types=("Worker",), operator="jaxjob-controller"
        ),
        "MPIJob": ReplicaMap(
            field="mpiReplicaSpecs",
            types=("Launcher", "Worker"),
            controller="kubeflow.org/mpi-operator",
            operator="mpi-operator",
        ),
        "PaddleJob": ReplicaMap(field="paddleReplicaSpecs", operator="paddlejob-controller"),
        "PyTorchJob": ReplicaMap(field="pytorchReplicaSpecs", operator="pytorchjob-controller"),
        "TFJob": ReplicaMap(
            field="tfReplicaSpecs",
            types=("Chief", "Master", "PS", "Worker", "Evaluator"),
            operator="tfjob-controller",
        ),
        "XGBoostJob": ReplicaMap(field="xgbReplicaSpecs", operator="xgboostjob-controller"),
    }
)


class KubeflowJob(TemplateKind):
    """The integration of one of these kinds: one pod set for each type of replicas.

    Args:
        row: The kind.
        replicas: Where the kind holds its replica specs.
    """

    suspend_field = ("spec", "runPolicy", "suspend")
    managed_by_field = ("spec", "runPolicy", "managedBy")
    ttl_field = ("spec", "runPolicy", "ttlSecondsAfterFinished")

    def __init__(self, row: KnownKind, replicas: ReplicaMap) -> None:
        super().__init__(row)
        self.replicas = replicas
        self.own_controller = replicas.controller
        self.pod_labels = (
            "training.kubeflow.org/job-name={name}"
            f",training.kubeflow.org/operator-name={replicas.operator}"
        )

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return one pod set for each type of replicas that the job has; one pod by default."""
        field = self.replicas.field
        specs: Mapping[str, Mapping[str, int | None]] = get_field(job, ("spec", field)) or {}
        return [
            PodSetSource(
                name=type_,
                template=("spec", field, type_, "template"),
                shown=f"spec.{field}[{type_}].template",
                count=1 if (count := spec.get("replicas")) is None else int(count),
                pod_index_label=INDEX_LABEL,
            )
            for type_ in self.replicas.types
            if (spec := specs.get(type_)) is not None
        ]

    def finished(self, job: Job) -> Finished | None:
        """Return the end of the job by its conditions Succeeded and Failed."""
        return finished_by_condition(job, success="Succeeded", failure="Failed")

    def is_active(self, job: Job) -> bool:
        """Whether pods of any type run."""
        statuses = get_field(job, ("status", "replicaStatuses")) or {}
        return any(status.get("active") for status in statuses.values())

    def pods_ready(self, job: Job) -> bool:
        """Whether the operator says that the job is running (J-377)."""
        return find_condition(job, "Running") is not None

    def priority_class(self, job: Job) -> str:
        """Return the class of the job's scheduling policy, else that of its templates (J-379)."""
        path = ("spec", "runPolicy", "schedulingPolicy", "priorityClass")
        return str(get_field(job, path) or "") or super().priority_class(job)
