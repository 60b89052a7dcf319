"""Facts about fields that only the CRDs carry: texts, limits, list types, CEL rules.

They are kept in ``Meta.extra_json_schema``, which msgspec does not enforce. Reading stays lenient,
because stored objects may be older than our limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Meta

REQUIRED = "x-required"
"""Key of a schema fragment that makes its field required; the generator removes it."""

SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
REFERENCE: Mapping[str, Any] = {"maxLength": 253, "pattern": SUBDOMAIN_PATTERN}
"""Schema of a name of another object: a queue, a Cohort, a ResourceFlavor, a Topology."""


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """A CEL rule with its message."""

    rule: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return an entry of x-kubernetes-validations."""
        return {"rule": self.rule, "message": self.message}


def described(
    description: str,
    /,
    *,
    required: bool | Sequence[str] = False,
    list_map_keys: Sequence[str] = (),
    list_type: str = "",
    rules: Sequence[SchemaRule] = (),
    **schema: Any,
) -> Meta:
    """Describe a field for ``kubectl explain`` and limit it for the API server.

    Args:
        description: one or two sentences.
        required: True: the field must be present, even if the Struct has a default. A list:
            required fields of an object that ``properties`` describe instead of a Struct.
        list_map_keys: makes the list a map by these keys.
        list_type: ``set`` or ``atomic`` (the default of lists).
        rules: CEL rules.
        schema: JSON schema keywords as on the wire: ``maxLength=63``, ``enum=[...]``.
    """
    extra: dict[str, Any] = dict(schema)
    if required is True:
        extra[REQUIRED] = True
    elif required:
        extra["required"] = list(required)
    if list_map_keys:
        extra["x-kubernetes-list-type"] = "map"
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    elif list_type:
        extra["x-kubernetes-list-type"] = list_type
    if rules:
        extra["x-kubernetes-validations"] = [rule.as_dict() for rule in rules]
    return Meta(description=description, extra_json_schema=extra)
