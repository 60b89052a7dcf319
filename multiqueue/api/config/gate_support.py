"""Which settings of a gate work here, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from multiqueue.api.config.gate_history import HISTORY
from multiqueue.api.config.gates import GATES, Gate, Stage

_SOURCES = "devices count by number; counters and capacities of devices do not count yet"

WHY: Mapping[Gate, str] = MappingProxyType(
    {
        Gate.MULTIKUEUE: "always on; without MultiKueue objects it does nothing",
        Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_TAS: "elastic jobs that a topology places keep "
        "their size while they run",
        Gate.SKIP_REASSIGNMENT_FOR_POD_OWNED_WORKLOADS: "the Workload of a pod ends with its "
        "pod, so it is never queued again",
        Gate.TAS_ASSIGNMENTS_ENCODING_BY_HOSTNAME_PREFIX: "one encoding is written; all are read",
        Gate.KUEUE_DRA_INTEGRATION_PARTITIONABLE_DEVICES: _SOURCES,
        Gate.KUEUE_DRA_INTEGRATION_CONSUMABLE_CAPACITY: _SOURCES,
        Gate.MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS: "always on; without "
        "externalFrameworks it does nothing",
        Gate.MULTIKUEUE_KUBE_CONFIG_PATH_VALIDATION: "files elsewhere are never read: whoever "
        "makes a MultiKueueCluster must not choose what the manager opens",
        Gate.REMOVE_FINALIZERS_WITH_STRICT_PATCH: "finalizers are always removed from the version "
        "that was read",
        Gate.TAS_MULTI_LAYER_TOPOLOGY: "layers of slices are always obeyed",
        Gate.CUSTOM_METRIC_LABELS: "metrics have no labels of their users' choice yet",
        Gate.FAST_QUOTA_RELEASE_IN_POD_INTEGRATION: "quota is held until evicted pods have "
        "ended or are overdue",
        Gate.DEFER_RAY_SERVICE_FINALIZATION_FOR_REDIS_CLEANUP: "a deleted RayService always keeps "
        "its quota until its Redis is empty",
        Gate.SCHEDULER_LIBRARY_INTEGRATION: "it names a Go library; nodes are judged by rules of "
        "our own",
        Gate.LWS_IMMUTABLE_GROUP_SIZE: "the size of the groups of a queued LeaderWorkerSet never "
        "changes",
        Gate.SKIP_ANCESTOR_CHECK_FOR_DELETED_WORKLOADS: "nobody looks for the ancestors of what "
        "is deleted",
        Gate.POD_INTEGRATION_VALIDATE_GROUP_OWNER: "a group takes only Workloads of groups",
        Gate.VALIDATE_RAY_AND_SPARK_JOB_UPDATES: "every change of a job that has or had a "
        "queue is checked",
    }
)
"""Why only the default of a gate is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """A row of the table of gates.

    Attributes:
        support: ``both settings``, ``no difference`` or ``default only``.
        why: The reason, unless both settings work.
    """

    name: str
    stage: str
    default: bool
    requires: tuple[str, ...]
    history: str
    support: str
    why: str


def rows() -> Iterator[GateRow]:
    """Yield a row for every gate, in upstream's order."""
    for gate, spec in GATES.items():
        support, why = _support(gate)
        yield GateRow(
            name=gate.value,
            stage=f"{spec.stage} (locked)" if spec.stage is Stage.GA else str(spec.stage),
            default=spec.default,
            requires=tuple(requirement.value for requirement in spec.requires),
            history=HISTORY[gate],
            support=support,
            why=why,
        )


def _support(gate: Gate) -> tuple[str, str]:
    spec = GATES[gate]
    if spec.stage is Stage.GA:
        return "default only", "locked, in upstream too"
    if spec.adjustable:
        return "both settings", ""
    if spec.alike:
        return "no difference", "both settings are one to this program"
    return "default only", WHY[gate]
