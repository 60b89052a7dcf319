"""Validation of tolerations."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.api.validation.scheduling import EFFECTS, OPERATORS
from multiqueue.embedded.server.causes import (
    FieldCause,
    invalid,
    not_supported,
)
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

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
