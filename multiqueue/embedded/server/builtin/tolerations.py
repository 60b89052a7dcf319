"""Validation of taints and tolerations."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import (
    FieldCause,
    duplicate,
    invalid,
    not_supported,
    required,
)
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists")

Json = Mapping[str, Any]


def validate_tolerations(tolerations: Iterable[Json], path: str) -> list[FieldCause]:
    """Tolerations of a Pod."""
    return [
        cause
        for index, toleration in enumerate(tolerations)
        for cause in _toleration(toleration, f"{path}[{index}]")
    ]


def _toleration(toleration: Json, path: str) -> list[FieldCause]:
    key, effect = toleration.get("key", ""), toleration.get("effect", "")
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    causes = []
    if key:
        causes += check_name(key, f"{path}.key", names.qualified_name)
    elif operator != "Exists":
        text = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        causes.append(invalid(f"{path}.operator", operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", effect, text))
    if operator not in {"", *OPERATORS}:
        causes.append(not_supported(f"{path}.operator", operator, OPERATORS))
    elif operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        causes.append(invalid(f"{path}.operator", value, text))
    elif operator != "Exists":
        causes += check_name(value, f"{path}.operator", names.label_value)
    if effect and effect not in EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, EFFECTS))
    return causes


def validate_taints(taints: Iterable[Json], path: str) -> list[FieldCause]:
    """Taints of a Node."""
    causes: list[FieldCause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        causes += check_name(key, f"{where}.key", names.qualified_name)
        causes += check_name(taint.get("value", ""), f"{where}.value", names.label_value)
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            causes.append(duplicate(where, taint))
        seen.add((key, effect))
    return causes
