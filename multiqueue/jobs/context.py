"""The value that every controller gets: built once by the runtime, passed explicitly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from multiqueue.api.config import Configuration
from multiqueue.api.names import key_of
from multiqueue.api.v1alpha1 import DispatchProfile, DisruptionPolicy, JobKind, QuotaPlan
from multiqueue.api.v1beta2 import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    ResourceFlavor,
    Topology,
    Workload,
    WorkloadPriorityClass,
)
from multiqueue.kube.resources import Resource
from multiqueue.model.disruption_policy import find_policy

if TYPE_CHECKING:  # commands that only decide import this module, and none of these
    from multiqueue.jobs.registry import IntegrationRegistry
    from multiqueue.jobs.workload_writer import WorkloadWriter
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.clock import Clock
    from multiqueue.kube.events import EventRecorder
    from multiqueue.kube.informer import Informer
    from multiqueue.observability.metrics import ManagerMetrics


class UnrecoverableError(Exception):
    """A component must not be started again in this process; the message says why.

    Raise it only if a restart in place would do harm or could not help. The process ends, and a new
    one reads all state from the API.
    """


class Runnable(Protocol):
    """A component: runs until it is cancelled.

    If it fails it is started again: `run` can be called again and then begins from current state.
    """

    @property
    def name(self) -> str:
        """The name for logs and tasks."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Informers:
    """One shared informer per kind: typed values for our kinds, dicts for foreign ones.

    ``jobs`` is keyed by integration name, and gets those of declared kinds at run time; ``related``
    by the collections that kinds read beside their own, with the informer of ``jobs`` for those
    that are queued themselves; ``secrets`` covers the manager's namespace only.
    """

    workloads: Informer[Workload]
    cluster_queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    cohorts: Informer[Cohort]
    resource_flavors: Informer[ResourceFlavor]
    admission_checks: Informer[AdmissionCheck]
    topologies: Informer[Topology]
    priority_classes: Informer[WorkloadPriorityClass]
    kube_priority_classes: Informer[dict[str, Any]]
    multikueue_configs: Informer[MultiKueueConfig]
    multikueue_clusters: Informer[MultiKueueCluster]
    dispatch_profiles: Informer[DispatchProfile]
    disruption_policies: Informer[DisruptionPolicy]
    quota_plans: Informer[QuotaPlan]
    job_kinds: Informer[JobKind]
    namespaces: Informer[dict[str, Any]]
    limit_ranges: Informer[dict[str, Any]]
    runtime_classes: Informer[dict[str, Any]]
    secrets: Informer[dict[str, Any]]
    jobs: dict[str, Informer[dict[str, Any]]]
    related: Mapping[Resource, Informer[dict[str, Any]]]

    def find_disruption_policy(self, cluster_queue: str) -> DisruptionPolicy | None:
        """Return the policy that governs a ClusterQueue; None without one."""
        return find_policy(
            cluster_queue,
            self.cluster_queues.store.get,
            self.cohorts.store.get,
            self.disruption_policies.store.get,
        )

    def find_related(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object of a collection that a kind reads; None if it is unknown."""
        return self.related[resource].store.get(key_of(namespace, name) if namespace else name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerContext:
    """Everything that is shared and outlives a single reconcile."""

    client: KubeClient
    informers: Informers
    writer: WorkloadWriter
    recorder: EventRecorder
    clock: Clock
    metrics: ManagerMetrics
    config: Configuration
    integrations: IntegrationRegistry
    drain_seconds: float = 0.0
    """How long this manager's servers still answer after it was told to stop."""
