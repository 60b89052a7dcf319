"""Rules of taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multiqueue.api.validation.access import items, text
from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)
from multiqueue.api.validation.names import check_label_value, check_qualified_name

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists")


def validate_taints(taints: Any, path: str) -> Iterator[FieldError]:
    """Check node taints: well formed, and one per key and effect."""
    seen: set[tuple[str, str]] = set()
    for i, taint in items(taints):
        at = f"{path}[{i}]"
        key, effect = text(taint.get("key")), text(taint.get("effect"))
        for message in check_qualified_name(key):
            yield invalid(f"{at}.key", key, message)
        for message in check_label_value(text(taint.get("value"))):
            yield invalid(f"{at}.value", taint.get("value"), message)
        if not effect:
            yield required(f"{at}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{at}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield duplicate(at, {"key": key, "effect": effect})
        seen.add((key, effect))


def validate_tolerations(tolerations: Any, path: str) -> Iterator[FieldError]:
    """Check tolerations as the CRDs do with CEL."""
    for i, toleration in items(tolerations):
        at = f"{path}[{i}]"
        operator, effect = toleration.get("operator"), toleration.get("effect")
        key = text(toleration.get("key"))
        for message in check_qualified_name(key) if key else ():
            yield invalid(f"{at}.key", key, message)
        if operator is not None and operator not in OPERATORS:
            yield not_supported(f"{at}.operator", operator, OPERATORS)
        if toleration.get("key") is None and operator != "Exists":
            yield invalid(
                f"{at}.operator",
                operator,
                "operator must be Exists when 'key' is empty, which means 'match all values "
                "and all "
                "keys'",
            )
        if operator == "Exists" and toleration.get("value"):
            yield invalid(
                f"{at}.value",
                toleration["value"],
                "a value must be empty when 'operator' is 'Exists'",
            )
        if effect is not None and effect not in EFFECTS:
            yield not_supported(f"{at}.effect", effect, EFFECTS)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(
                f"{at}.effect", effect, "effect must be 'NoExecute' when 'tolerationSeconds' is set"
            )
