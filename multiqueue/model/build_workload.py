"""Turns Workloads into the engine's values.

The cache feed calls it for every event. Pure and cheap: one pass over the object. Reading a
Workload never raises: unreadable fields become `Workload.problems` and so a visible reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.alternatives import OTHERWISE, find_alternatives, resolve_alternatives
from multiqueue.api.conditions import (
    Reason,
    WorkloadCondition,
    is_true,
)
from multiqueue.api.declarations import parse_flag, parse_runtime, read
from multiqueue.api.disruptions import parse_stops
from multiqueue.api.notices import Notice, parse_notice
from multiqueue.api.slices import is_elastic, replaced_key
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.api.variants import allowed_flavors, is_parent, parent_of, variant_order
from multiqueue.api.workload_state import closed_gates, has_quota, is_evicted
from multiqueue.model.build_status import StatusReader
from multiqueue.model.devices import NOT_COUNTED, DeviceRules, charge_devices
from multiqueue.model.disruption_policy import read_save_habits
from multiqueue.model.pod_template import read_pod_template
from multiqueue.model.queue_order import RequeuingTimestamp
from multiqueue.model.surroundings import (
    NOTHING,
    NamespaceSurroundings,
    adjust_template,
    find_broken_limits,
)
from multiqueue.model.topology_encoding import encode_topology
from multiqueue.model.transformations import NO_RULES, RequestRules, transform_requests
from multiqueue.model.workload import (
    Admission,
    PodSet,
    PodSetAssignment,
    Workload,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of the Configuration for reading objects."""

    requeuing_timestamp: RequeuingTimestamp = RequeuingTimestamp.EVICTION
    request_rules: RequestRules = NO_RULES
    devices: DeviceRules = NOT_COUNTED
    """How devices of dynamic resource allocation count (E-175)."""
    priority_boost: bool = False
    """Gate PriorityBoost: whether the annotation counts."""
    reclaimable_pods: bool = True
    """Gate ReclaimablePods: whether pods that will not run again release their quota."""
    gated_by: bool = True
    """Gate AdmissionGatedBy: whether the annotation keeps a Workload out of the queues."""
    elastic: bool = False
    """Gate ElasticJobsViaWorkloadSlices: whether a Workload may replace another one of its job."""
    concurrent: bool = False
    """Gate ConcurrentAdmission: whether variants queue for their parent, or it for them."""
    reclaimed_last: bool = False
    """Without gate PrioritySortingWithinCohort: who lost borrowed quota queues anew (E-13)."""


DEFAULT_OPTIONS = BuildOptions()


def build_workload(
    obj: api.Workload,
    options: BuildOptions = DEFAULT_OPTIONS,
    surroundings: NamespaceSurroundings = NOTHING,
) -> Workload:
    """Turn a Workload into the engine's value.

    Args:
        obj: The Workload as last seen.
        options: Options of the Configuration for reading objects.
        surroundings: Defaults and overheads of its namespace and its RuntimeClasses.
    """
    meta, status = obj.metadata, obj.status
    conditions = {condition.type: condition for condition in status.conditions}
    pod_sets, problems = build_pod_sets(obj, options, surroundings)
    requeued, parent = conditions.get(WorkloadCondition.REQUEUED), parent_of(obj)
    reserved = conditions.get(WorkloadCondition.QUOTA_RESERVED)
    reader = StatusReader(obj)
    return Workload(
        key=meta.key,
        uid=meta.uid,
        job_uid=meta.labels.get(names.JOB_UID, ""),
        generation=meta.generation,
        queue=names.key_of(meta.namespace, obj.spec.queue_name),
        priority=effective_priority(obj, options),
        created_at=meta.created_at,
        queue_order_at=reader.order_at(
            options.requeuing_timestamp, reclaimed_last=options.reclaimed_last
        ),
        pod_sets=pod_sets,
        active=obj.spec.active,
        terminating=bool(meta.deletion_timestamp),
        finished=is_true(status.conditions, WorkloadCondition.FINISHED),
        on_hold=_is_false_for(reserved, Reason.ON_HOLD),
        gated_by=meta.annotations.get(names.ADMISSION_GATED_BY, "") if options.gated_by else "",
        awaits_replacement_pods=is_true(
            status.conditions, WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS
        ),
        pods_ready=bool(status.cluster_name)
        or is_true(status.conditions, WorkloadCondition.PODS_READY),
        evicted=conditions.get(WorkloadCondition.EVICTED),
        requeued=None if _is_false_for(requeued, Reason.INADMISSIBLE) else requeued,
        requeue_at=reader.requeue_at(),
        reservation=reader.reservation(pod_sets),
        is_broken=status.admission is None and has_quota(status),
        checks=reader.checks(),
        placement_updates=reader.placement_updates(),
        unhealthy_nodes=tuple(node.name for node in status.unhealthy_nodes),
        closed_gates=closed_gates(obj),
        replaces=replaced_key(obj) if options.elastic else "",
        family=parent.uid if parent else "",
        variant_order=variant_order(obj) if parent else 0,
        allowed_flavors=allowed_flavors(obj) if options.concurrent else None,
        is_elastic=is_elastic(obj),
        stops=parse_stops(status.conditions),
        ran_before=status.accumulated_past_execution_time_seconds or 0,
        run_limit=obj.spec.maximum_execution_time_seconds or 0,
        expected_run=_read_runtime(obj),
        saves=read_save_habits(obj),
        non_preemptible=bool(read(meta.annotations, names.NON_PREEMPTIBLE, parse_flag)),
        notice=_read_notice(status),
        stands_aside=is_parent(obj) if options.concurrent else parent is not None,
        problems=(*problems, *reader.problems),
    )


def _read_notice(status: api.WorkloadStatus) -> Notice | None:
    """Return the notice of a preemption; those of drains are no matter of the engine."""
    notice = None if is_evicted(status) else parse_notice(status.conditions)
    return None if notice is None or notice.is_of_drain else notice


def _read_runtime(obj: api.Workload) -> int:
    """Return the seconds that a Workload is declared to run; 0 if it does not say."""
    annotations = obj.metadata.annotations
    if names.RUNTIME not in annotations:
        return 0
    declared = read(annotations, names.RUNTIME, parse_runtime)
    return 0 if declared is None else int(declared.total_seconds())


def effective_priority(obj: api.Workload, options: BuildOptions = DEFAULT_OPTIONS) -> int:
    """Return the priority with its boost; a boost that is not a number counts as 0 (E-11)."""
    priority = obj.spec.priority or 0
    if not options.priority_boost:
        return priority
    try:
        return priority + int(obj.metadata.annotations.get(names.PRIORITY_BOOST, "0"))
    except ValueError:
        return priority


def admission_to_wire(admission: Admission) -> dict[str, Any]:
    """Return ``status.admission`` in wire format."""
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [
            {
                "name": pod_set.name,
                "flavors": dict(sorted(pod_set.flavors.items())),
                "resourceUsage": pod_set.resource_usage,
                "count": pod_set.count,
                **_topology_to_wire(pod_set),
            }
            for pod_set in admission.pod_sets
        ],
    }


def _topology_to_wire(pod_set: PodSetAssignment) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if pod_set.topology is not None:
        wire["topologyAssignment"] = encode_topology(pod_set.topology)
    if pod_set.delayed_topology:
        wire["delayedTopologyRequest"] = pod_set.delayed_topology
    return wire


def _effective_counts(obj: api.Workload, options: BuildOptions) -> dict[str, int]:
    items = obj.status.reclaimable_pods if options.reclaimable_pods else ()
    reclaimable = {item.name: item.count for item in items}
    return {
        pod_set.name: pod_set.count - min(reclaimable.get(pod_set.name, 0), pod_set.count)
        for pod_set in obj.spec.pod_sets
    }


def build_pod_sets(
    obj: api.Workload,
    options: BuildOptions = DEFAULT_OPTIONS,
    surroundings: NamespaceSurroundings = NOTHING,
) -> tuple[tuple[PodSet, ...], tuple[str, ...]]:
    """Return the pod sets of a Workload as the engine's values, and the problems of reading them.

    Args:
        obj: The Workload as last seen.
        options: Options of the Configuration for reading objects.
        surroundings: Defaults and overheads of its namespace and its RuntimeClasses.
    """
    counts = _effective_counts(obj, options)
    alternatives, problems = read_alternatives(obj, counts, elastic=options.elastic)
    pod_sets: list[PodSet] = []
    for item in obj.spec.pod_sets:
        template = adjust_template(item.template, surroundings)
        pod, placement, unread = read_pod_template(template)
        devices = charge_devices(template, pod.requests, options.devices, surroundings.devices)
        found = [*pod.problems, *unread, *find_broken_limits(template, surroundings)]
        if not has_quota(obj.status):
            found += devices.problems
        problems += [f'pod set "{item.name}": {problem}' for problem in found]
        requests = devices.replace_in(transform_requests(pod.requests, options.request_rules))
        on_nodes = {k: v for k, v in pod.requests.items() if k not in devices.replaced}
        wish = item.topology_request
        pod_sets.append(
            PodSet(
                name=item.name,
                count=counts[item.name],
                min_count=item.min_count,
                requests=requests,
                placement=placement,
                topology_request=wish if wish and wish.asks_for_place else None,
                pod_requests=None if requests == on_nodes else on_nodes,
                alternatives=alternatives.get(item.name, ()),
            )
        )
    return tuple(pod_sets), tuple(problems)


def _is_false_for(condition: Condition | None, reason: Reason) -> bool:
    return condition is not None and condition.status == "False" and condition.reason == reason


ByHardware = tuple[tuple[str, int], ...]
"""Pods by hardware; `OTHERWISE` stands for hardware that is not named."""


def read_alternatives(
    obj: api.Workload, counts: Mapping[str, int], *, elastic: bool = False
) -> tuple[Mapping[str, ByHardware], list[str]]:
    """Return the pod counts that a Workload declares by hardware, and the problems of reading them.

    Args:
        obj: The Workload.
        counts: Pods that still need quota, by name of the pod set.
        elastic: Whether Workloads may be slices of elastic jobs.

    Returns:
        The counts by name of the pod set, for pod sets that declare any; and the problems.
    """
    text = find_alternatives(obj.metadata.annotations)
    if not text:
        return {}, []
    path = f"metadata.annotations[{names.ALTERNATIVES}]"
    if elastic and is_elastic(obj):
        return {}, [f"{path}: an elastic job has no alternatives; remove one of the two"]
    try:
        found = resolve_alternatives(text, {ps.name: ps.count for ps in obj.spec.pod_sets})
    except ValueError as error:
        return {}, [f"{path}: {error}"]
    return {
        name: tuple(sorted({**pods, OTHERWISE: counts[name]}.items()))
        for name, pods in found.items()
    }, []
