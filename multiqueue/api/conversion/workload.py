"""Conversion of Workloads: priority class, misspelt time, topology, fields new in v1beta2."""

from __future__ import annotations

from typing import Any

from multiqueue.api.conversion.quotas import normalize
from multiqueue.api.conversion.stash import (
    V1BETA1_ONLY,
    V1BETA2_ONLY,
    items,
    mapping,
    put,
    rename,
    take,
)
from multiqueue.api.topology_encoding import compress_domains, expand_domains

Object = dict[str, Any]

_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_SOURCE_OF = {reference: source for source, reference in _SOURCES.items()}
_MISSPELT = "accumulatedPastExexcutionTimeSeconds"
_TIME = "accumulatedPastExecutionTimeSeconds"
_LAYERS = "podsetSliceRequiredTopologyConstraints"


def upgrade(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    if obj.get("spec") is None:
        obj["spec"] = {"active": True}
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    lost = _upgrade_priority_class(spec)
    rename(status, _MISSPELT, _TIME)
    for assignment in _assignments(status):
        _upgrade_topology(assignment)
        usage = mapping(assignment, "resourceUsage")
        normalize(usage, *usage)
    _complete_templates(spec)
    kept = take(obj, V1BETA2_ONLY)
    if isinstance(gates := kept.get("preemptionGates"), list):
        spec.setdefault("preemptionGates", gates)
    if isinstance(states := kept.get("preemptionGateStates"), list):
        obj.setdefault("status", {}).setdefault("preemptionGates", states)
    if isinstance(reference := kept.get("priorityClassRef"), dict):
        spec.setdefault("priorityClassRef", reference)
    layers = mapping(kept, "podSetSliceLayers")
    for pod_set in items(spec, "podSets"):
        request = pod_set.get("topologyRequest")
        if isinstance(request, dict) and _name(pod_set) in layers:
            request.setdefault(_LAYERS, layers[_name(pod_set)])
    put(obj, V1BETA1_ONLY, lost)


def downgrade(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place."""
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    lost = _downgrade_priority_class(spec)
    rename(status, _TIME, _MISSPELT)
    if "preemptionGates" in spec:
        lost["preemptionGates"] = spec.pop("preemptionGates")
    if "preemptionGates" in status:
        lost["preemptionGateStates"] = status.pop("preemptionGates")
    layers: Object = {}
    for pod_set in items(spec, "podSets"):
        request = mapping(pod_set, "topologyRequest")
        if _LAYERS in request:
            layers[_name(pod_set)] = request.pop(_LAYERS)
    if layers:
        lost["podSetSliceLayers"] = layers
    for assignment in _assignments(status):
        _downgrade_topology(assignment)
    kept = take(obj, V1BETA1_ONLY)
    for field in ("priorityClassName", "priorityClassSource"):
        if isinstance(value := kept.get(field), str):
            spec.setdefault(field, value)
    put(obj, V1BETA2_ONLY, lost)


def _name(pod_set: Object) -> str:
    """Return a pod set's name; the schema's default is "main"."""
    return str(pod_set.get("name", "main"))


def _upgrade_priority_class(spec: Object) -> Object:
    """Return the fields that v1beta2 lacks: an unknown source."""
    source, name = spec.get("priorityClassSource"), spec.get("priorityClassName")
    if not isinstance(source, str | None) or not isinstance(name, str | None):
        return {}
    spec.pop("priorityClassSource", None)
    spec.pop("priorityClassName", None)
    if source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name or ""}
        return {}
    if not source:  # a class without a source has no meaning; the reference drops it too
        return {}
    lost = {"priorityClassSource": source}
    if name:
        lost["priorityClassName"] = name
    return lost


def _downgrade_priority_class(spec: Object) -> Object:
    """Return the fields that v1beta1 lacks: a class of an unknown kind."""
    reference = spec.get("priorityClassRef")
    if not isinstance(reference, dict):
        return {}
    del spec["priorityClassRef"]
    source = _SOURCE_OF.get((str(reference.get("group")), str(reference.get("kind"))))
    if source is None or set(reference) - {"group", "kind", "name"}:
        return {"priorityClassRef": reference}
    spec["priorityClassSource"] = source
    if reference.get("name"):
        spec["priorityClassName"] = reference["name"]
    return {}


def _assignments(status: Object) -> list[Object]:
    return list(items(mapping(status, "admission"), "podSetAssignments"))


def _upgrade_topology(assignment: Object) -> None:
    topology = mapping(assignment, "topologyAssignment")
    domains, levels = topology.get("domains"), topology.get("levels")
    if not isinstance(domains, list) or not isinstance(levels, list):
        return
    try:
        rows = [(tuple(domain["values"]), int(domain["count"])) for domain in domains]
        if any(len(values) != len(levels) for values, _ in rows):
            return
        others = {name: value for name, value in topology.items() if name != "domains"}
        assignment["topologyAssignment"] = {**others, **compress_domains(levels, rows)}
    except (KeyError, TypeError, ValueError):
        return


def _downgrade_topology(assignment: Object) -> None:
    topology = assignment.get("topologyAssignment")
    if not isinstance(topology, dict) or "slices" not in topology:
        return
    try:
        domains = expand_domains(topology)
        levels = topology.get("levels") or []
        if any(len(values) != len(levels) for values, _ in domains):
            return
    except (AttributeError, TypeError, ValueError):
        return
    assignment["topologyAssignment"] = {
        **{name: value for name, value in topology.items() if name != "slices"},
        "levels": levels,
        "domains": [{"values": list(values), "count": count} for values, count in domains],
    }


def _complete_templates(spec: Object) -> None:
    """Add what Go writes for a template: empty metadata and resources, canonical quantities."""
    for pod_set in items(spec, "podSets"):
        template = pod_set.get("template")
        if not isinstance(template, dict):
            continue
        for field in ("metadata", "spec"):
            if template.get(field) is None:
                template[field] = {}
        for field in ("initContainers", "containers"):
            for container in items(template["spec"], field):
                if container.get("resources") is None:
                    container["resources"] = {}
                _respell(container["resources"])
        _respell(mapping(template, "spec", "resources"))
        overhead = mapping(template["spec"], "overhead")
        normalize(overhead, *overhead)


def _respell(resources: Any) -> None:
    for field in ("requests", "limits"):
        quantities = mapping(resources, field)
        normalize(quantities, *quantities)
