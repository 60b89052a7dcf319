"""Rules of resource groups and weights, the same for ClusterQueues and Cohorts.

Deviates: resources in another order than coveredResources, and a borrowingLimit without a cohort,
are harmless and occur in published guides. They are accepted with a warning
(docs/compatibility.md, 1).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from multiqueue.api.validation.access import Object, items, mapping, quantity, strings, text
from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_many,
)
from multiqueue.api.validation.names import check_qualified_name
from multiqueue.lib.quantity import Quantity, QuantityError, parse_quantity

MAX_FLAVORS = 256
MAX_RESOURCES = 256
MAX_QUOTAS_PER_GROUP = 512
GROUPS_PATH = "spec.resourceGroups"
_AT_LEAST_ZERO = "must be greater than or equal to 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRules:
    """The rules in which ClusterQueues and Cohorts differ."""

    parent_field: str
    """The field that must be set for borrowing and lending."""
    borrowing_needs_parent: bool
    lending_within_nominal: bool


CLUSTER_QUEUE_RULES = QuotaRules(
    parent_field="cohortName", borrowing_needs_parent=False, lending_within_nominal=True
)
COHORT_RULES = QuotaRules(
    parent_field="parentName", borrowing_needs_parent=True, lending_within_nominal=False
)


def validate_resource_groups(spec: Object, rules: QuotaRules) -> Iterator[FieldError]:
    """Check groups, flavors and quotas of a spec."""
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    flavor_count = resource_count = 0
    for i, group in items(spec.get("resourceGroups")):
        path = f"{GROUPS_PATH}[{i}]"
        covered = list(strings(group.get("coveredResources")))
        flavors = list(items(group.get("flavors")))
        resource_count += len(covered)
        flavor_count += len(flavors)
        yield from _covered(covered, seen_resources, f"{path}.coveredResources")
        if len(covered) * len(flavors) > MAX_QUOTAS_PER_GROUP:
            yield too_many(f"{path}.flavors", len(covered) * len(flavors), MAX_QUOTAS_PER_GROUP)
        for j, flavor in flavors:
            at = f"{path}.flavors[{j}]"
            name = text(flavor.get("name"))
            if name in seen_flavors:
                yield duplicate(f"{at}.name", name)
            seen_flavors.add(name)
            yield from _flavor(flavor, covered, spec, rules, at)
    if flavor_count > MAX_FLAVORS:
        yield too_many(GROUPS_PATH, flavor_count, MAX_FLAVORS)
    if resource_count > MAX_RESOURCES:
        yield too_many(GROUPS_PATH, resource_count, MAX_RESOURCES)


def warn_resource_groups(spec: Object, rules: QuotaRules) -> Iterator[str]:
    """Yield warnings for specs that upstream refuses, with a form that both accept."""
    parent = text(spec.get(rules.parent_field))
    for i, group in items(spec.get("resourceGroups")):
        covered = list(strings(group.get("coveredResources")))
        for j, flavor in items(group.get("flavors")):
            at = f"{GROUPS_PATH}[{i}].flavors[{j}].resources"
            names = [text(resource.get("name")) for _, resource in items(flavor.get("resources"))]
            if names != covered and sorted(names) == sorted(covered):
                yield (
                    f"{at}: resources are in another order than coveredResources "
                    f"[{', '.join(covered)}]; upstream Kueue refuses this, list them in that order"
                )
            if parent or rules.borrowing_needs_parent:
                continue
            for k, resource in items(flavor.get("resources")):
                if resource.get("borrowingLimit") is not None:
                    yield (
                        f"{at}[{k}].borrowingLimit: has no effect without {rules.parent_field}; "
                        f"upstream Kueue refuses this, set spec.{rules.parent_field} or remove it"
                    )


def _covered(covered: list[str], seen: set[str], path: str) -> Iterator[FieldError]:
    for i, name in enumerate(covered):
        for message in check_qualified_name(name):
            yield invalid(f"{path}[{i}]", name, message)
        if name in seen:
            yield duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _flavor(
    flavor: Object, covered: list[str], spec: Object, rules: QuotaRules, path: str
) -> Iterator[FieldError]:
    resources = list(items(flavor.get("resources")))
    names = [text(resource.get("name")) for _, resource in resources]
    same_number = len(names) == len(covered)
    if not same_number:
        yield invalid(
            path.rpartition(".")[0],
            names,
            "flavors must have the same number of resources as the coveredResources",
        )
    in_any_order = sorted(names) == sorted(covered)
    for k, (_, resource) in enumerate(resources):
        at = f"{path}.resources[{k}]"
        if same_number and not in_any_order and names[k] != covered[k]:
            yield invalid(f"{at}.name", names[k], "must match the name in coveredResources")
        yield from _quota(resource, spec, rules, at)


def _quota(resource: Object, spec: Object, rules: QuotaRules, path: str) -> Iterator[FieldError]:
    nominal = yield from _read(resource.get("nominalQuota"), f"{path}.nominalQuota")
    borrowing = yield from _limit(resource, "borrowingLimit", path)
    lending = yield from _limit(resource, "lendingLimit", path)
    parent = text(spec.get(rules.parent_field))
    without = f"must be nil when {rules.parent_field} is empty"
    if borrowing is not None and not parent and rules.borrowing_needs_parent:
        yield invalid(f"{path}.borrowingLimit", str(borrowing), without)
    if lending is None:
        return
    if not parent:
        yield invalid(f"{path}.lendingLimit", str(lending), without)
    if rules.lending_within_nominal and nominal is not None and lending > nominal:
        yield invalid(
            f"{path}.lendingLimit",
            str(lending),
            f"must be less than or equal to the nominalQuota, {nominal}",
        )


def _limit(resource: Object, field: str, path: str) -> Generator[FieldError, None, Quantity | None]:
    value = resource.get(field)
    if value is None:
        return None
    return (yield from _read(value, f"{path}.{field}"))


def _read(value: Any, path: str) -> Generator[FieldError, None, Quantity | None]:
    if value is None:
        yield required(path)
        return None
    try:
        parsed = parse_quantity(value)
    except QuantityError as error:
        yield invalid(path, value, str(error))
        return None
    if parsed.sign < 0:
        yield invalid(path, value, _AT_LEAST_ZERO)
    return parsed


def validate_weight(spec: Object) -> Iterator[FieldError]:
    """Check ``fairSharing.weight``: not negative, and not so small that it rounds to nothing."""
    weight = mapping(spec, "fairSharing").get("weight")
    parsed = quantity(weight) if weight is not None else None
    if parsed is None:
        return
    path = "spec.fairSharing.weight"
    if parsed.sign < 0:
        yield invalid(path, weight, _AT_LEAST_ZERO)
    elif parsed and parsed <= Quantity(1):
        yield invalid(path, weight, "must be greater than 1n, or 0")
