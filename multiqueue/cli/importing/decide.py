"""What an import does with one job: skip it, report it, or give it a Workload. Pure.

Parity: cmd/importer/pod @v0.19 (labels, Workload, admission, conditions).
Deviates: each resource is charged to the first flavor of its resource group whose labels the node
has; upstream charges everything to the first flavor of the first group. Messages name no job, so
that equal problems are counted together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import ACTIVE, WorkloadCondition, find_condition
from multiqueue.api.serde import decode, encode
from multiqueue.api.workload_state import with_condition
from multiqueue.cli.importing.mapping import ImportRule, NoQueue, TwoQueues, find_queue
from multiqueue.cli.importing.world import ImportWorld, Labels
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.compose import compose_workload, queue_name, workload_class
from multiqueue.jobs.framework.integration import Integration, InvalidJobError, Job
from multiqueue.jobs.framework.priority import PriorityClassNotFoundError, resolve_priority
from multiqueue.jobs.pod.pods import gates_of, group_name
from multiqueue.lib.amount import Amount
from multiqueue.lib.selectors import label_selector_from
from multiqueue.model.build_workload import build_pod_sets
from multiqueue.model.resources import PODS
from multiqueue.model.workload import PodSetAssignment

IMPORTED = "Imported"
"""Reason of the conditions of an imported Workload, as upstream's importer writes it."""
IMPORT_GATE = "multiqueue.dev/import"
"""Admission gate of the Workload until it has its quota, so that no scheduler preempts for it."""


@dataclass(frozen=True, slots=True)
class ImportSkip:
    """A job that needs no import."""

    reason: str


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A job that cannot be imported, and what to do."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedImport:
    """The Workload of a job, and the quota that it gets.

    Attributes:
        job: The running job.
        queue: Its LocalQueue.
        cluster_queue: The ClusterQueue behind it.
        body: The Workload to create.
        assignments: The quota of its pod sets.
    """

    job: Job
    queue: str
    cluster_queue: str
    body: Mapping[str, Any]
    assignments: Sequence[PodSetAssignment]

    def usage(self) -> dict[tuple[str, str, str], Amount]:
        """Return what it uses by (ClusterQueue, flavor, resource)."""
        total: dict[tuple[str, str, str], Amount] = {}
        for each in self.assignments:
            for resource, amount in each.usage.items():
                key = (self.cluster_queue, each.flavors[resource], resource)
                total[key] = total.get(key, 0) + amount
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What the user asked for.

    Attributes:
        rules: Which queue a job goes to.
        add_labels: Labels for the jobs and their Workloads.
        with_jobs: Whether Jobs are imported as a whole; their pods are not imported then.
    """

    rules: Sequence[ImportRule]
    add_labels: Mapping[str, str] = field(default_factory=dict)
    with_jobs: bool = True


class _RefusedError(Exception):
    """The job cannot be imported; the message says why."""


def decide_import(
    job: Job, kind: Integration, settings: ImportSettings, world: ImportWorld
) -> PlannedImport | ImportSkip | ImportProblem:
    """Return what to do with a pod or a Job."""
    skipped = _find_skip(job, kind, settings)
    if skipped:
        return ImportSkip(skipped)
    metadata = job["metadata"]
    labels, priority_class = _labels(job), _priority_class(job)
    found = find_queue(settings.rules, metadata["namespace"], labels, priority_class)
    if found is NoQueue.SKIPPED:
        return ImportSkip(found.value)
    try:
        queue = _check_queue(found, job)
        cluster_queue = _find_cluster_queue(queue, metadata["namespace"], world)
        body = _compose(job, kind, queue, settings, world)
        return _plan(job, cluster_queue, body, world)
    except (_RefusedError, InvalidJobError, PriorityClassNotFoundError) as error:
        return ImportProblem(str(error))


def _find_skip(job: Job, kind: Integration, settings: ImportSettings) -> str:
    """Return why a job needs no import; empty if it does."""
    metadata, labels = job["metadata"], _labels(job)
    if metadata.get("deletionTimestamp") or kind.finished(job) is not None:
        return "it has ended or is being deleted"
    annotations = metadata.get("annotations") or {}
    if names.IMPORTED_AT in annotations:
        return "it was imported"
    if {names.PODSET, names.MANAGED} & labels.keys() or names.WORKLOAD in annotations:
        return "it is queued, or its owner is"
    if kind.is_composed:
        controller = controller_of(job) or {}
        is_of_job = (controller.get("apiVersion"), controller.get("kind")) == ("batch/v1", "Job")
        if settings.with_jobs and is_of_job:
            return "its Job is imported as a whole"
        return "it waits at a scheduling gate" if gates_of(job) else ""
    return "it is suspended" if kind.is_suspended(job) else ""


def _labels(job: Job) -> Labels:
    """Return the labels that rules match: those of a Job's pods count, too."""
    template = (job["spec"].get("template") or {}).get("metadata") or {}
    return {**(template.get("labels") or {}), **(job["metadata"].get("labels") or {})}


def _priority_class(job: Job) -> str:
    template = (job["spec"].get("template") or {}).get("spec") or job["spec"]
    return str(template.get("priorityClassName") or "")


# ---------------------------------------------------------------- queues


def _check_queue(found: str | NoQueue | TwoQueues, job: Job) -> str:
    if isinstance(found, TwoQueues):
        raise _RefusedError(
            f'two rules give it different queues: "{found.first.queue}" ({found.first.source}) and '
            f'"{found.second.queue}" ({found.second.source}); make one of them more specific'
        )
    if isinstance(found, NoQueue):
        raise _RefusedError(f"{found.value}; add a rule, or one with skip: true")
    known = queue_name(job)
    if known and known != found:
        raise _RefusedError(
            f'its label {names.QUEUE_NAME} names "{known}", the rules say "{found}"; '
            "change the rules, or skip it"
        )
    if group_name(job):
        raise _RefusedError("it belongs to a group of pods, which cannot be imported; skip it")
    return found


def _find_cluster_queue(name: str, namespace: str, world: ImportWorld) -> api.ClusterQueue:
    queue = world.local_queues.get(f"{namespace}/{name}")
    if queue is None:
        raise _RefusedError(
            f'LocalQueue "{namespace}/{name}" not found; create it or change the rules'
        )
    _check_active(f'LocalQueue "{namespace}/{name}"', queue)
    target = queue.spec.cluster_queue
    found = world.cluster_queues.get(target)
    if found is None:
        raise _RefusedError(
            f'LocalQueue "{namespace}/{name}": ClusterQueue "{target}" not found; create it'
        )
    where = f'ClusterQueue "{target}"'
    _check_active(where, found)
    strategy = found.spec.admission_checks_strategy
    if strategy is not None and strategy.admission_checks:
        checks = ", ".join(check.name for check in strategy.admission_checks)
        raise _RefusedError(
            f"{where} has AdmissionChecks ({checks}), which running pods cannot pass; "
            "use a ClusterQueue without them"
        )
    selector = found.spec.namespace_selector
    compiled = label_selector_from(None if selector is None else encode(selector))
    if not compiled.matches(world.namespaces.get(namespace, {})):
        raise _RefusedError(
            f'{where}: its namespaceSelector does not select namespace "{namespace}"; change it'
        )
    return found


def _check_active(what: str, queue: api.LocalQueue | api.ClusterQueue) -> None:
    """Refuse a queue that is stopped or inactive; before a manager saw it, nothing is known."""
    if queue.spec.stop_policy not in {"", "None"}:
        raise _RefusedError(
            f'{what} is stopped (stopPolicy "{queue.spec.stop_policy}"); set it to None first'
        )
    condition = find_condition(queue.status.conditions, ACTIVE)
    if condition is not None and condition.status == "False":
        raise _RefusedError(f"{what} is not active: {condition.message}")


# ---------------------------------------------------------------- the Workload


def _plan(
    job: Job,
    cluster_queue: api.ClusterQueue,
    body: Mapping[str, Any],
    world: ImportWorld,
) -> PlannedImport:
    workload = decode(api.Workload, body)
    surroundings = world.surroundings[workload.metadata.namespace]
    pod_sets, problems = build_pod_sets(workload, world.options, surroundings)
    if problems:
        raise _RefusedError("; ".join(problems))
    assignments = []
    for pod_set, written in zip(pod_sets, workload.spec.pod_sets, strict=True):
        node = _node_labels(written.template.get("spec") or {}, world)
        requests = {**pod_set.requests, **_counted_pods(cluster_queue)}
        flavors = {
            resource: _find_flavor(resource, cluster_queue, node, world)
            for resource, amount in sorted(requests.items())
            if amount
        }
        usage = {resource: requests[resource] * pod_set.count for resource in flavors}
        assignments.append(
            PodSetAssignment(name=pod_set.name, flavors=flavors, usage=usage, count=pod_set.count)
        )
    return PlannedImport(
        job=job,
        queue=workload.spec.queue_name,
        cluster_queue=cluster_queue.metadata.name,
        body=body,
        assignments=tuple(assignments),
    )


def _compose(
    job: Job, kind: Integration, queue: str, settings: ImportSettings, world: ImportWorld
) -> dict[str, Any]:
    """Return the Workload that the job has as soon as its label is written."""
    manager = kind.managed_by(job)
    if manager:
        raise _RefusedError(f'"{manager}" manages it, so its pods are not here; skip it')
    metadata = job["metadata"]
    labels = {**(metadata.get("labels") or {}), names.QUEUE_NAME: queue}
    body = compose_workload(
        {**job, "metadata": {**metadata, "labels": labels}},
        kind.gvk,
        kind.pod_sets(job),
        resolve_priority(workload_class(job), kind.priority_class(job), world.classes),
        more_labels=settings.add_labels,
    )
    body["metadata"]["annotations"][names.ADMISSION_GATED_BY] = IMPORT_GATE
    return body


def _counted_pods(queue: api.ClusterQueue) -> dict[str, Amount]:
    """Return the request for one pod, if the queue has a quota for pods."""
    groups = queue.spec.resource_groups
    return {PODS: 1} if any(PODS in group.covered_resources for group in groups) else {}


def _node_labels(spec: Mapping[str, Any], world: ImportWorld) -> Labels:
    """Return the labels of the pod's node, or those that its node must have."""
    return world.nodes.get(str(spec.get("nodeName") or ""), spec.get("nodeSelector") or {})


def _find_flavor(resource: str, queue: api.ClusterQueue, node: Labels, world: ImportWorld) -> str:
    where = f'ClusterQueue "{queue.metadata.name}"'
    groups = queue.spec.resource_groups
    group = next((each for each in groups if resource in each.covered_resources), None)
    if group is None:
        raise _RefusedError(
            f'{where} has no quota for resource "{resource}"; add it to a resource group, or '
            "exclude it with resources.excludeResourcePrefixes of the configuration"
        )
    for quotas in group.flavors:
        flavor = world.flavors.get(quotas.name)
        if flavor is None:
            raise _RefusedError(f'{where}: flavor "{quotas.name}" not found; create it')
        if flavor.spec.node_labels.items() <= node.items():
            if flavor.spec.topology_name:
                raise _RefusedError(
                    f'{where}: flavor "{quotas.name}" has a topology, and the places of running '
                    "pods are not known; use a flavor without one"
                )
            return quotas.name
    tried = ", ".join(quotas.name for quotas in group.flavors)
    raise _RefusedError(
        f'{where}: its node has the labels of none of the flavors of "{resource}" ({tried}); '
        "add a flavor for such nodes"
    )


def build_admission(
    planned: PlannedImport, status: api.WorkloadStatus, *, now: datetime, generation: int
) -> dict[str, Any]:
    """Return the status patch that admits an imported Workload, in wire format."""
    message = f"Imported into ClusterQueue {planned.cluster_queue}"
    for type_ in (WorkloadCondition.QUOTA_RESERVED, WorkloadCondition.ADMITTED):
        status = with_condition(
            status,
            type_,
            value=True,
            reason=IMPORTED,
            message=message,
            now=now,
            generation=generation,
        )
    return {
        "admission": {
            "clusterQueue": planned.cluster_queue,
            "podSetAssignments": [
                {
                    "name": each.name,
                    "flavors": dict(each.flavors),
                    "resourceUsage": each.resource_usage,
                    "count": each.count,
                }
                for each in planned.assignments
            ],
        },
        "conditions": [encode(condition) for condition in status.conditions],
    }
