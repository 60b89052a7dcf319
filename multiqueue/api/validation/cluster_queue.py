"""Defaults and rules of ClusterQueues."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.conversion import stash
from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.api.validation.access import Object, items, mapping, strings, text
from multiqueue.api.validation.cluster_constraints import OF_QUEUES, validate_annotations
from multiqueue.api.validation.field_error import (
    FieldError,
    immutable,
    invalid,
    not_supported,
    too_many,
)
from multiqueue.api.validation.names import validate_label_selector
from multiqueue.api.validation.normalize import add_finalizer, complete_quota_spec, without_empty
from multiqueue.api.validation.quota import (
    CLUSTER_QUEUE_RULES,
    validate_resource_groups,
    validate_weight,
    warn_resource_groups,
)

_STRATEGY = "spec.admissionChecksStrategy.admissionChecks"
_CONCURRENT = "spec.concurrentAdmissionPolicy"
_MAX_CONCURRENT_FLAVORS = 16


def default_cluster_queue(obj: Object) -> dict[str, Any]:
    """Return the object with its finalizer, policies and canonical quantities."""
    result = copy.deepcopy(dict(obj))
    add_finalizer(result, RESOURCE_IN_USE)
    if result.get("spec") is None:
        result["spec"] = {}
    spec = result["spec"]
    if not isinstance(spec, dict):
        return result
    spec.setdefault("queueingStrategy", "BestEffortFIFO")
    spec.setdefault("stopPolicy", "None")
    _fill(spec, "flavorFungibility", whenCanBorrow="MayStopSearch", whenCanPreempt="TryNextFlavor")
    _fill(spec, "preemption", reclaimWithinCohort="Never", withinClusterQueue="Never")
    if isinstance(spec["preemption"], dict):
        _fill(spec["preemption"], "borrowWithinCohort", policy="Never")
    complete_quota_spec(spec)
    for expression in stash.items(spec.get("namespaceSelector"), "matchExpressions"):
        values = expression.get("values")
        if isinstance(values, list):
            expression["values"] = ["" if value is None else value for value in values]
    return result


def _fill(parent: dict[str, Any], field: str, **defaults: str) -> None:
    if parent.get(field) is None:
        parent[field] = {}
    if isinstance(parent[field], dict):
        for name, value in defaults.items():
            parent[field].setdefault(name, value)


def validate_cluster_queue_create(obj: Object, gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a new ClusterQueue."""
    return [*_validate(obj, gates), *_on_flavors(obj), *validate_annotations(obj, OF_QUEUES)]


def validate_cluster_queue_update(
    new: Object, old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return what is wrong with an update; unknown flavors of checks may stay as they are."""
    errors = [*_validate(new, gates), *validate_annotations(new, OF_QUEUES)]
    legacy = without_empty(mapping(old, "spec", "admissionChecksStrategy"))
    current = without_empty(mapping(new, "spec", "admissionChecksStrategy"))
    strict = gates is not None and gates.enabled(Gate.REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS)
    if strict or current != legacy or not list(_on_flavors(old)):
        errors.extend(_on_flavors(new))
    old_policy = mapping(old, "spec").get("concurrentAdmissionPolicy")
    new_policy = mapping(new, "spec").get("concurrentAdmissionPolicy")
    if without_empty(old_policy) != without_empty(new_policy):
        errors.append(immutable(_CONCURRENT, new_policy))
    return errors


def warn_cluster_queue(obj: Object) -> list[str]:
    """Return admission warnings for specs that are accepted here and refused by upstream."""
    return list(warn_resource_groups(mapping(obj, "spec"), CLUSTER_QUEUE_RULES))


def _validate(obj: Object, gates: Gates | None) -> Iterator[FieldError]:
    spec = mapping(obj, "spec")
    yield from validate_resource_groups(spec, CLUSTER_QUEUE_RULES)
    yield from validate_label_selector(spec.get("namespaceSelector"), "spec.namespaceSelector")
    yield from _preemption(mapping(spec, "preemption"))
    yield from _fungibility(mapping(spec, "flavorFungibility"))
    yield from validate_weight(spec)
    if gates is not None and gates.enabled(Gate.CONCURRENT_ADMISSION):
        yield from _concurrent_admission(spec)


def _preemption(preemption: Object) -> Iterator[FieldError]:
    borrow = text(mapping(preemption, "borrowWithinCohort").get("policy")) or "Never"
    reclaim = text(preemption.get("reclaimWithinCohort")) or "Never"
    if reclaim == "Never" and borrow != "Never":
        yield invalid(
            "spec.preemption",
            reclaim,
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        )


def _fungibility(fungibility: Object) -> Iterator[FieldError]:
    preference = fungibility.get("preference")
    if preference is None:
        return
    for field, default in (("whenCanBorrow", "MayStopSearch"), ("whenCanPreempt", "TryNextFlavor")):
        if (text(fungibility.get(field)) or default) != "TryNextFlavor":
            yield invalid(
                "spec.flavorFungibility.preference",
                preference,
                f"may only be set when {field} is TryNextFlavor",
            )


def _on_flavors(obj: Object) -> Iterator[FieldError]:
    spec = mapping(obj, "spec")
    known = {
        text(flavor.get("name"))
        for _, group in items(spec.get("resourceGroups"))
        for _, flavor in items(group.get("flavors"))
    }
    for i, rule in items(mapping(spec, "admissionChecksStrategy").get("admissionChecks")):
        for j, flavor in enumerate(strings(rule.get("onFlavors"))):
            if flavor not in known:
                yield not_supported(f"{_STRATEGY}[{i}].onFlavors[{j}]", flavor, sorted(known))


def _concurrent_admission(spec: Object) -> Iterator[FieldError]:
    policy = mapping(spec, "concurrentAdmissionPolicy")
    if not policy:
        return
    groups = list(items(spec.get("resourceGroups")))
    if len(groups) != 1:
        yield invalid(_CONCURRENT, len(groups), "requires exactly one resource group")
    flavors = [text(f.get("name")) for _, g in groups for _, f in items(g.get("flavors"))]
    if len(flavors) > _MAX_CONCURRENT_FLAVORS:
        yield too_many("spec.resourceGroups[0].flavors", len(flavors), _MAX_CONCURRENT_FLAVORS)
    if spec.get("queueingStrategy") == "StrictFIFO":
        yield invalid("spec.queueingStrategy", "StrictFIFO", "not with concurrentAdmissionPolicy")
    migration = mapping(policy, "migration")
    constraints = mapping(migration, "constraints")
    if not constraints:
        return
    if migration.get("mode") != "TryPreferredFlavors":
        yield invalid(
            f"{_CONCURRENT}.migration.constraints",
            migration.get("mode"),
            "only with mode TryPreferredFlavors",
        )
    last = constraints.get("lastAcceptableFlavorName")
    if last is not None and last not in flavors:
        path = f"{_CONCURRENT}.migration.constraints.lastAcceptableFlavorName"
        yield not_supported(path, last, sorted(flavors))
