"""Defaults and rules of new Workloads, and of their status."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from multiqueue.api import names
from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.validation.access import (
    Object,
    has_condition,
    items,
    mapping,
    number,
    strings,
    text,
)
from multiqueue.api.validation.field_error import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from multiqueue.api.validation.names import (
    check_domain_prefixed_path,
    check_qualified_name,
    validate_annotations,
    validate_labels,
)
from multiqueue.api.validation.pod_sets import is_elastic, validate_pod_sets
from multiqueue.api.validation.scheduling import validate_tolerations
from multiqueue.lib.quantity import QuantityError, parse_quantity

_KINDS = {names.GROUP: "WorkloadPriorityClass", "scheduling.k8s.io": "PriorityClass"}
_ANNOTATIONS = "metadata.annotations"
_ASSIGNMENTS = "status.admission.podSetAssignments"
RECLAIMABLE = "status.reclaimablePods"
_INT32 = range(-(2**31), 2**31)
DEFAULT_GATES = Gates()
_NEW: Object = {}
"""The earlier state of a Workload that is created."""


def default_workload(obj: Object, gates: Gates = DEFAULT_GATES) -> dict[str, Any]:
    """Return the object with a name for a single pod set; minimums are removed if they are off."""
    result = copy.deepcopy(dict(obj))
    pod_sets = [p for _, p in items(mapping(result, "spec").get("podSets")) if isinstance(p, dict)]
    if len(pod_sets) == 1 and pod_sets[0].get("name") is None:
        pod_sets[0]["name"] = names.DEFAULT_PODSET
    if not gates.enabled(Gate.PARTIAL_ADMISSION):
        for pod_set in pod_sets:
            pod_set.pop("minCount", None)
    return result


def validate_workload_create(obj: Object, gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a new Workload."""
    return list(validate_workload(obj, gates or DEFAULT_GATES))


def validate_workload(obj: Object, gates: Gates, old: Object = _NEW) -> Iterator[FieldError]:
    """Check the rules of a state; what was already wrong in the earlier one may stay so."""
    yield from validate_pod_sets(obj, gates)
    yield from _priority(mapping(obj, "spec"))
    yield from validate_workload_annotations(obj, gates)
    yield from _conditions(mapping(obj, "status"))
    yield from _admission(obj, old)
    yield from _reclaimable(obj, old)
    yield from _check_states(obj)
    yield from _clusters(mapping(obj, "status"))


def _priority(spec: Object) -> Iterator[FieldError]:
    reference = spec.get("priorityClassRef")
    if not isinstance(reference, dict):
        return
    if spec.get("priority") is None:
        yield required("spec.priority", "priority should not be nil when priorityClassRef is set")
    want = _KINDS.get(text(reference.get("group")))
    if want is not None and reference.get("kind") != want:
        yield invalid(
            "spec.priorityClassRef.kind",
            reference.get("kind"),
            f"must be {want} in group {reference['group']}",
        )


def validate_workload_annotations(obj: Object, gates: Gates) -> Iterator[FieldError]:
    """Check the annotations that affect decisions; the same on jobs and Workloads."""
    annotations = mapping(obj, "metadata", "annotations")
    boost = annotations.get(names.PRIORITY_BOOST)
    if boost is not None and gates.enabled(Gate.PRIORITY_BOOST):
        path = f"{_ANNOTATIONS}[{names.PRIORITY_BOOST}]"
        if not is_int32(boost):
            yield invalid(path, boost, "must be a signed 32-bit integer")
    gated = annotations.get(names.ADMISSION_GATED_BY)
    if gated is not None and gates.enabled(Gate.ADMISSION_GATED_BY):
        yield from _gated_by(text(gated), f"{_ANNOTATIONS}[{names.ADMISSION_GATED_BY}]")


MAX_GATE = 63
"""Longest name of an admission gate."""


def is_int32(value: Any) -> bool:
    """Whether a text is a decimal integer of 32 bits."""
    try:
        return isinstance(value, str) and value.isascii() and int(value) in _INT32
    except ValueError:
        return False


def _gated_by(value: str, path: str) -> Iterator[FieldError]:
    gates = _parse_gates(value)
    for i, gate in enumerate(gates):
        if not gate:
            yield invalid(path, value, "cannot contain empty gate names")
        elif gate in gates[:i]:
            yield invalid(path, value, f"duplicate gate name: {gate}")
        elif len(gate) > MAX_GATE:
            yield invalid(path, value, f'gate "{gate}": must be no more than {MAX_GATE} characters')
        else:
            for message in check_domain_prefixed_path(gate):
                yield invalid(path, value, f'gate "{gate}": {message}')


def validate_admission_gates_update(new: Object, old: Object) -> Iterator[FieldError]:
    """Check that admission gates of a job or Workload are only removed (J-60)."""
    key = names.ADMISSION_GATED_BY
    path = f"{_ANNOTATIONS}[{key}]"
    after, before = (
        set(_parse_gates(text(mapping(obj, "metadata", "annotations").get(key))))
        for obj in (new, old)
    )
    if after and not before:
        yield forbidden(path, "cannot add admission gate after creation")
    elif not after <= before:
        yield forbidden(path, "can only remove gates, not add new ones")


def _parse_gates(value: str) -> list[str]:
    """Return the names of admission gates in an annotation's value, without spaces around them."""
    return [gate.strip() for gate in value.split(",")] if value.strip() else []


def pod_counts(obj: Object) -> dict[str, int]:
    """Return the number of pods that the spec asks for, by pod set."""
    return {
        text(pod_set.get("name")) or names.DEFAULT_PODSET: number(pod_set.get("count"), 1)
        for _, pod_set in items(mapping(obj, "spec").get("podSets"))
    }


def _conditions(status: Object) -> Iterator[FieldError]:
    for i, condition in items(status.get("conditions")):
        type_ = text(condition.get("type"))
        for message in check_qualified_name(type_):
            yield invalid(f"status.conditions[{i}].type", type_, message)


def _admission(obj: Object, old: Object) -> Iterator[FieldError]:
    if not has_condition(obj, "QuotaReserved"):
        return
    if _admission_of(obj) is None:
        if not has_condition(old, "QuotaReserved") or _admission_of(old) is not None:
            yield required("status.admission", "must be set while QuotaReserved is True")
        return
    assignments = list(items(mapping(obj, "status", "admission").get("podSetAssignments")))
    counts = pod_counts(obj)
    if len(assignments) != len(counts):
        yield invalid(
            _ASSIGNMENTS,
            len(assignments),
            "podSetAssignments must have the same number of podSets as the spec",
        )
    for i, assignment in assignments:
        name = text(assignment.get("name")) or names.DEFAULT_PODSET
        if name not in counts:
            yield not_found(f"{_ASSIGNMENTS}[{i}].name", name)
        yield from _usage(assignment, f"{_ASSIGNMENTS}[{i}].resourceUsage")


def _admission_of(obj: Object) -> Any:
    return mapping(obj, "status").get("admission")


def _usage(assignment: Object, path: str) -> Iterator[FieldError]:
    count = number(assignment.get("count"))
    for resource, value in mapping(assignment, "resourceUsage").items():
        try:
            usage = parse_quantity(value)
        except QuantityError as error:
            yield invalid(f"{path}[{resource}]", value, str(error))
            continue
        total = usage.milli_value() if resource == "cpu" else usage.value()
        if count > 0 and total % count:
            yield invalid(f"{path}[{resource}]", value, f"is not a multiple of {count}")


def _reclaimable(obj: Object, old: Object) -> Iterator[FieldError]:
    """Check counts; that of an elastic job may be too high since the job became smaller."""
    counts = pod_counts(obj)
    stale = reclaimable_pods(old) if is_elastic(obj) else {}
    for name, count in reclaimable_pods(obj).items():
        path = f"{RECLAIMABLE}[{name}]"
        if name not in counts:
            yield not_supported(f"{path}.name", name, counts)
        elif count > counts[name] and stale.get(name) != count:
            yield invalid(f"{path}.count", count, f"should be less or equal to {counts[name]}")


def reclaimable_pods(obj: Object) -> dict[str, int]:
    """Return the counts of reclaimable pods, by pod set."""
    reclaimable = items(mapping(obj, "status").get("reclaimablePods"))
    return {text(each.get("name")): number(each.get("count")) for _, each in reclaimable}


def _check_states(obj: Object) -> Iterator[FieldError]:
    known = pod_counts(obj)
    for i, state in items(mapping(obj, "status").get("admissionChecks")):
        for j, update in items(state.get("podSetUpdates")):
            path = f"status.admissionChecks[{i}].podSetUpdates[{j}]"
            name = text(update.get("name"))
            if name not in known:
                yield not_supported(f"{path}.name", name, sorted(known))
            yield from validate_labels(update.get("labels"), f"{path}.labels")
            yield from validate_annotations(update.get("annotations"), f"{path}.annotations")
            yield from validate_labels(update.get("nodeSelector"), f"{path}.nodeSelector")
            yield from validate_tolerations(update.get("tolerations"), f"{path}.tolerations")


def _clusters(status: Object) -> Iterator[FieldError]:
    if status.get("clusterName") is not None and any(strings(status.get("nominatedClusterNames"))):
        yield forbidden(
            "status.nominatedClusterNames",
            "clusterName and nominatedClusterNames are mutually exclusive",
        )
