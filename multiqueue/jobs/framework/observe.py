"""Reads what the informers know about a job into a `JobView`; no I/O, no decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.config import Gate
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.jobs.context import Informers, ManagerContext
from multiqueue.jobs.framework.compose import queue_name
from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.framework.job_source import BY_OWNER, JobSource, prebuilt_name
from multiqueue.jobs.framework.priority import PriorityClasses
from multiqueue.jobs.framework.related import add_related
from multiqueue.jobs.framework.view import JobOptions, JobView

NAME_LABEL = "kubernetes.io/metadata.name"


def build_priority_classes(context: ManagerContext) -> PriorityClasses:
    """Return how the priority of a job is determined on this cluster."""
    informers = context.informers
    return PriorityClasses(
        find_workload_class=informers.priority_classes.store.get,
        find_pod_class=informers.kube_priority_classes.store.get,
        list_pod_classes=informers.kube_priority_classes.store.list,
        has_default=context.config.gates.enabled(Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING),
    )


class JobObserver:
    """Builds views of the jobs of one integration.

    Args:
        context: The manager's context.
        integration: The integration of the kind.
        source: Finds the jobs.
        dispatches: Whether this program sends Workloads to workers.
    """

    def __init__(
        self,
        context: ManagerContext,
        integration: Integration,
        source: JobSource,
        *,
        dispatches: bool,
    ) -> None:
        self._context = context
        self._source = source
        self._dispatches = dispatches
        self._integration = integration
        self._options = JobOptions.from_config(context.config)
        self._classes = build_priority_classes(context)

    def observe(self, job: Job, ancestor: Job | None = None) -> JobView:
        """Return everything that is known about a job.

        Args:
            job: The job.
            ancestor: The job that manages it; None if it stands for itself.
        """
        informers = self._context.informers
        job = add_related(self._integration, job, informers.find_related)
        metadata = job["metadata"]
        namespace = metadata["namespace"]
        workloads = tuple(self._source.list_workloads(job))
        prebuilt = prebuilt_name(job)
        return JobView(
            job=job,
            integration=self._integration,
            workloads=workloads,
            prebuilt_name=prebuilt,
            prebuilt=informers.workloads.store.get(key_of(namespace, prebuilt))
            if prebuilt
            else None,
            namespace_labels=namespace_labels(informers, namespace),
            queue_labels=self._queue_labels(namespace, queue_name(job)),
            ancestor=ancestor,
            ancestor_workload=self._newest_workload(ancestor) if ancestor is not None else None,
            dispatched=self._is_dispatched(job, workloads),
            options=self._options,
            classes=self._classes,
            find_flavor=informers.resource_flavors.store.get,
            now=self._context.clock.now(),
        )

    def _queue_labels(self, namespace: str, name: str) -> Mapping[str, str]:
        queue = self._context.informers.local_queues.store.get(key_of(namespace, name))
        return queue.metadata.labels if queue is not None else {}

    def _is_dispatched(self, job: Job, workloads: Sequence[Workload]) -> bool:
        """Whether workers run the job: it says so itself, or else its Workload's checks do."""
        adapter = self._context.integrations.find_adapter(self._integration.gvk)
        if not self._dispatches or adapter is None or adapter.refusal(job) is not None:
            return False
        if self._integration.managed_by(job):
            return True
        checks = self._context.informers.admission_checks.store
        found = (checks.get(state.name) for w in workloads for state in w.status.admission_checks)
        return any(c is not None and c.spec.controller_name == MULTIKUEUE_CONTROLLER for c in found)

    def _newest_workload(self, job: Job) -> Workload | None:
        """Return the newest unfinished Workload of a job (J-31)."""
        store = self._context.informers.workloads.store
        live = [
            workload
            for workload in store.by_index(BY_OWNER, job["metadata"]["uid"])
            if not is_finished(workload.status)
        ]
        return max(
            live, key=lambda w: (w.metadata.creation_timestamp, w.metadata.uid), default=None
        )


def namespace_labels(informers: Informers, namespace: str) -> Mapping[str, str]:
    """Return the labels of a namespace; if it is unknown, the labels that every one has."""
    found: dict[str, Any] | None = informers.namespaces.store.get(namespace)
    labels = (found or {}).get("metadata", {}).get("labels") or {}
    return {NAME_LABEL: namespace, **labels}
