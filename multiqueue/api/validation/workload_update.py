"""Rules of changes to Workloads: fields that are immutable, always or with reserved quota."""

from __future__ import annotations

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
    immutable,
    invalid,
    required,
)
from multiqueue.api.validation.normalize import without_empty
from multiqueue.api.validation.pod_sets import is_elastic
from multiqueue.api.validation.workload import (
    DEFAULT_GATES,
    RECLAIMABLE,
    pod_counts,
    reclaimable_pods,
    validate_admission_gates_update,
    validate_workload,
)

_FREE_WITHIN_ASSIGNMENT = ("topologyAssignment", "delayedTopologyRequest")


def validate_workload_update(
    new: Object, old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return what is wrong with a change of spec or status."""
    gates = gates or DEFAULT_GATES
    errors = list(validate_workload(new, gates, old))
    if has_condition(old, "QuotaReserved"):
        errors.extend(_reserved_spec(new, old, gates))
        if has_condition(new, "QuotaReserved"):
            errors.extend(_reclaimable(new, old))
    errors.extend(_admission(mapping(new, "status"), mapping(old, "status")))
    errors.extend(_pod_set_updates(mapping(new, "status"), mapping(old, "status")))
    errors.extend(_cluster(new, old, gates))
    if gates.enabled(Gate.ADMISSION_GATED_BY):
        errors.extend(validate_admission_gates_update(new, old))
    return errors


def _reserved_spec(new: Object, old: Object, gates: Gates) -> Iterator[FieldError]:
    before, after = mapping(old, "spec"), mapping(new, "spec")
    old_sets, new_sets = without_empty(before.get("podSets")), without_empty(after.get("podSets"))
    may_shrink = gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
    if old_sets != new_sets and not (may_shrink and _is_scale_down(new_sets, old_sets)):
        yield immutable("spec.podSets", _names(after.get("podSets")))
    old_queue, new_queue = before.get("queueName"), after.get("queueName")
    if has_condition(new, "QuotaReserved") and old_queue and new_queue != old_queue:
        yield immutable("spec.queueName", new_queue)


def _names(pod_sets: Any) -> list[str]:
    return [text(pod_set.get("name")) for _, pod_set in items(pod_sets)]


def _is_scale_down(new: Any, old: Any) -> bool:
    """Whether only counts changed and none increased."""
    if not isinstance(new, list) or not isinstance(old, list) or len(new) != len(old):
        return False
    return all(
        {**after, "count": 0} == {**before, "count": 0}
        and number(after.get("count"), 1) <= number(before.get("count"), 1)
        for after, before in zip(new, old, strict=True)
    )


def _admission(new: Object, old: Object) -> Iterator[FieldError]:
    """Check that the admission is set or removed as a whole; only the placement may change."""
    before, after = old.get("admission"), new.get("admission")
    if isinstance(before, dict) and isinstance(after, dict) and _fixed(before) != _fixed(after):
        yield immutable("status.admission", after.get("clusterQueue"))


def _fixed(admission: Object) -> Any:
    assignments = [
        {k: v for k, v in assignment.items() if k not in _FREE_WITHIN_ASSIGNMENT}
        for _, assignment in items(admission.get("podSetAssignments"))
    ]
    return without_empty({**admission, "podSetAssignments": assignments})


def _reclaimable(new: Object, old: Object) -> Iterator[FieldError]:
    """Check that reclaimable pods do not decrease while quota is reserved (E-186)."""
    after = reclaimable_pods(new)
    shrunk = _find_shrunk(new)
    for name, count in reclaimable_pods(old).items():
        path = f"{RECLAIMABLE}[{name}]"
        if name in shrunk:
            continue
        if name not in after:
            yield required(path, "cannot be removed while quota is reserved")
        elif after[name] < count:
            yield invalid(f"{path}.count", after[name], f"cannot be less than {count}")


def _find_shrunk(obj: Object) -> set[str]:
    """Return the pod sets of an elastic job that are smaller now than when it was admitted."""
    if not is_elastic(obj):
        return set()
    now = pod_counts(obj)
    assignments = items(mapping(obj, "status", "admission").get("podSetAssignments"))
    admitted = {text(each.get("name")): number(each.get("count")) for _, each in assignments}
    return {name for name, count in admitted.items() if count > now.get(name, 0)}


def _pod_set_updates(new: Object, old: Object) -> Iterator[FieldError]:
    before = {text(state.get("name")): state for _, state in items(old.get("admissionChecks"))}
    for i, state in items(new.get("admissionChecks")):
        earlier = before.get(text(state.get("name")))
        if earlier is None or not (state.get("state") == earlier.get("state") == "Ready"):
            continue
        if without_empty(state.get("podSetUpdates")) != without_empty(earlier.get("podSetUpdates")):
            yield immutable(f"status.admissionChecks[{i}].podSetUpdates", "(changed)")


def _cluster(new: Object, old: Object, gates: Gates) -> Iterator[FieldError]:
    """Check that the cluster is a nominated one (M-20, I-2). The CRD checks M-19."""
    path = "status.clusterName"
    before = mapping(old, "status").get("clusterName")
    after = mapping(new, "status").get("clusterName")
    if after is None or before is not None:
        return
    replaces = names.WORKLOAD_SLICE_REPLACEMENT_FOR in mapping(new, "metadata", "annotations")
    if replaces and gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES):
        return
    nominated = list(strings(mapping(old, "status").get("nominatedClusterNames")))
    if after not in nominated:
        yield invalid(path, after, f"must be one of the nominatedClusterNames {nominated}")
