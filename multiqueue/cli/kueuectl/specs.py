"""Quotas, labels, taints and tolerations as they are written in options of ``create``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from multiqueue.api.validation.field_error import FieldError
from multiqueue.api.validation.scheduling import validate_taints, validate_tolerations
from multiqueue.cli.errors import UsageProblem
from multiqueue.lib.quantity import QuantityError, parse_quantity

Json = dict[str, Any]

LIMITS = {
    "nominal-quota": "nominalQuota",
    "borrowing-limit": "borrowingLimit",
    "lending-limit": "lendingLimit",
}
"""The field that each option of quotas sets."""
_FLAVOR = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
_QUOTA_FORM = "write FLAVOR:RESOURCE=QUANTITY;RESOURCE=QUANTITY"
_TAINT_FORM = "write KEY[=VALUE]:EFFECT"
_TOLERATION_FORM = "write KEY[=VALUE][:EFFECT] or :EFFECT"


def split_list(values: Sequence[str]) -> list[str]:
    """Return the items of an option that is repeated, or has several items by commas."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def parse_pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Read ``KEY=VALUE,KEY=VALUE``.

    Raises:
        UsageProblem: an item has no equals sign.
    """
    pairs = {}
    for item in split_list(values):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageProblem(f'--{option} "{item}": write KEY=VALUE')
        pairs[key] = value
    return pairs


def parse_resource_groups(options: Mapping[str, Sequence[str]]) -> list[Json]:
    """Return the resource groups of a ClusterQueue.

    Flavors with the same resources share a group.

    Args:
        options: The values of each option in `LIMITS`.

    Raises:
        UsageProblem: a quota is malformed, a flavor has other resources in another option, or a
            resource is in two groups.
    """
    flavors: dict[str, dict[str, Json]] = {}
    for option, values in options.items():
        for item in split_list(values):
            flavor, quotas = _parse_quotas(option, item)
            known = flavors.setdefault(flavor, {name: {"nominalQuota": "0"} for name in quotas})
            if set(known) != set(quotas):
                raise UsageProblem(
                    f'--{option} "{item}": invalid flavor: flavor {flavor} has '
                    f"{', '.join(sorted(known))} elsewhere; name the same resources everywhere"
                )
            for name, quota in quotas.items():
                known[name][LIMITS[option]] = quota
    return _group(flavors)


def _parse_quotas(option: str, item: str) -> tuple[str, dict[str, str]]:
    flavor, colon, rest = item.partition(":")
    specs = [spec for spec in rest.split(";") if spec]
    if not colon or not specs or not _FLAVOR.fullmatch(flavor):
        raise UsageProblem(f'--{option} "{item}": invalid resources specification; {_QUOTA_FORM}')
    quotas: dict[str, str] = {}
    for spec in specs:
        name, equals, quota = spec.partition("=")
        if not equals or not name or not quota or name in quotas:
            raise UsageProblem(
                f'--{option} "{item}": invalid resources specification "{spec}"; {_QUOTA_FORM}'
            )
        try:
            quotas[name.strip()] = str(parse_quantity(quota.strip()))
        except QuantityError as error:
            raise UsageProblem(
                f'--{option} "{item}": invalid resource quota: {name} "{quota}" is no quantity'
            ) from error
    return flavor, quotas


def _group(flavors: Mapping[str, Mapping[str, Json]]) -> list[Json]:
    groups: dict[frozenset[str], Json] = {}
    for flavor, resources in flavors.items():
        names = frozenset(resources)
        shared = next((n for each in groups if each != names for n in sorted(each & names)), "")
        if shared:
            raise UsageProblem(
                f"invalid resource group: flavor {flavor} has {', '.join(sorted(names))}, and "
                f"{shared} is in another group with other resources"
            )
        group = groups.setdefault(names, {"coveredResources": list(resources), "flavors": []})
        quotas = [{"name": name, **resources[name]} for name in group["coveredResources"]]
        group["flavors"].append({"name": flavor, "resources": quotas})
    return list(groups.values())


def parse_node_taints(values: Sequence[str]) -> list[Json]:
    """Read taints of nodes: ``KEY[=VALUE]:EFFECT``.

    Raises:
        UsageProblem: a taint is malformed, or there twice.
    """
    taints = []
    for item in split_list(values):
        key, _, value, effect = _split_item("node-taints", item, _TAINT_FORM)
        taints.append({"key": key, "effect": effect} | ({"value": value} if value else {}))
    _refuse("node-taints", values, validate_taints(taints, "taint"), _TAINT_FORM)
    return taints


def parse_node_tolerations(values: Sequence[str]) -> list[Json]:
    """Read tolerations: ``KEY[=VALUE][:EFFECT]`` or ``:EFFECT``. One without a value tolerates all.

    Raises:
        UsageProblem: a toleration is malformed.
    """
    tolerations = []
    for item in split_list(values):
        key, _, value, effect = _split_item("tolerations", item, _TOLERATION_FORM)
        if value and not key:
            raise UsageProblem(f'--tolerations "{item}": a value needs a key; {_TOLERATION_FORM}')
        found = {"key": key, "operator": "Equal" if value else "Exists", "value": value}
        found["effect"] = effect
        tolerations.append({name: each for name, each in found.items() if each})
    errors = validate_tolerations(tolerations, "toleration")
    _refuse("tolerations", values, errors, _TOLERATION_FORM)
    return tolerations


def _split_item(option: str, item: str, form: str) -> tuple[str, str, str, str]:
    """Return key, equals sign, value and effect."""
    body, _, effect = item.partition(":")
    if ":" in effect or body.count("=") > 1:
        raise UsageProblem(f'--{option} "{item}": {form}')
    return *body.partition("="), effect


def _refuse(option: str, values: Sequence[str], errors: Iterable[FieldError], form: str) -> None:
    found: Iterator[FieldError] = iter(errors)
    if (error := next(found, None)) is not None:
        raise UsageProblem(f'--{option} "{",".join(values)}": {error}; {form}')
